"""`Shots`, the examples of a prompt, and `Request`, the input of a strategy."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from fwc_llm.errors import Ambiguous, checked_class
from fwc_llm.notebook import figure, note, table
from fwc_llm.sanitize import Fields, Json

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.figure import Figure

    from fwc_llm.tasks import Task


DEFAULT_M = 16  # examples of a prompt


@checked_class
@dataclass(frozen=True)
class Example:
    """A real row with its true label.

    `row` is the row's id ("adult.data:17": file and line). `values` maps every column that a prompt
    may show (including the protected attribute, without the outcome) to its value. `weight` is the
    exact θ of the coreset, which sums to m over all examples, or None for unweighted examples.
    """

    row: str
    values: Fields
    label: Literal["yes", "no", "refer"]
    weight: float | None = None


class Certificate(Json):
    """A selection's certificate: a dict of plain values, in memory and in shots files.

    For `fwc`: the `objective` (distance between table and examples), its `lower_bound`, the
    `violation` of parity, `slots` (number of examples per cell), `rows` and `weights`, iterations,
    restarts, seed and the table's fingerprint. Other strategies may have other entries.
    """

    def facts(self) -> dict[str, str]:
        """Return the entries as text, without per-example lists."""
        lists = ("rows", "weights")
        return {
            str(name): _words(value)
            for name, value in self.items()
            if name not in lists
        }

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={words}" for name, words in self.facts().items())
        return f"Certificate({facts})"

    def _repr_html_(self) -> str:
        rows = [(name.replace("_", " "), words) for name, words in self.facts().items()]
        return figure("certificate", table(("", "value"), rows))


def _words(value: Any) -> str:
    """Return an entry as text, short enough for a line."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        several = [_words(item) for item in value[:6]]
        return ", ".join([*several, "…"] if len(value) > 6 else several)
    if isinstance(value, dict):
        return " ".join(_words(item) for item in value.values())
    if len(str(value)) <= 60:
        return str(value)
    return f"{str(value)[:16]}…"


@checked_class
@dataclass(frozen=True, repr=False)
class Shots(Ambiguous):
    """The examples of one prompt, in prompt order, with their origin and certificate.

    A certificate given as a mapping becomes a `Certificate`.
    """

    instead = "compare shots.m with 0"

    strategy: str
    task: str
    fingerprint: str
    seed: int
    examples: tuple[Example, ...]
    certificate: Fields | None = None
    options: Fields = field(default_factory=dict)
    protected: tuple[
        str, ...
    ] = ()  # the attributes whose levels form the cells; empty in older files

    def __post_init__(self) -> None:
        if self.certificate is not None and not isinstance(
            self.certificate, Certificate
        ):
            object.__setattr__(self, "certificate", Certificate(self.certificate))

    @property
    def m(self) -> int:
        """Number of examples, including those of weight 0."""
        return len(self.examples)

    @property
    def weighted(self) -> bool:
        """Whether the examples carry weights."""
        return any(example.weight is not None for example in self.examples)

    def shown(self) -> tuple[tuple[Example, str | None], ...]:
        """Return the examples in the prompt, each with its displayed weight θ/max θ.

        The weight is None if the examples are unweighted. Examples with θ = 0 are left out; a
        displayed weight has two decimals and is at least 0.01
        (docs/method.md, "Weights in prompts").
        """
        largest = max((example.weight or 0.0 for example in self.examples), default=0.0)
        if not self.weighted or largest == 0.0:
            return tuple((example, None) for example in self.examples)
        return tuple(
            (example, f"{max((example.weight or 0.0) / largest, 0.01):.2f}")
            for example in self.examples
            if (example.weight or 0.0) > 0.0
        )

    def to_frame(self) -> "pd.DataFrame":
        """Return the examples as a table, indexed by row id.

        Columns are the values, `label` and `weight` (NaN if unweighted). If the task has a column
        `label` or `weight`, the added column is `label_` or `weight_`.
        """
        import pandas as pd

        values = pd.DataFrame([dict(example.values) for example in self.examples])
        values.index = pd.Index([example.row for example in self.examples], name="row")
        weights = [
            math.nan if example.weight is None else example.weight
            for example in self.examples
        ]
        for name, column in (
            ("label", [example.label for example in self.examples]),
            ("weight", weights),
        ):
            while name in values.columns:
                name += "_"
            values[name] = column
        return values

    def plot(self) -> "Figure":
        """Plot the examples' weights as bars in prompt order, coloured by label.

        Raises `FwcError` without matplotlib (extra `plot`).
        """
        from fwc_llm.plotting import COLOURS, name_lines, panels

        with panels([self._title], [7.0], [1.3 + 0.25 * self.m]) as (figure, (panel,)):
            lengths = [
                1.0 if example.weight is None else example.weight
                for example in self.examples
            ]
            found = {example.label for example in self.examples}
            labels = ["yes", "no", *{"refer"} & found]
            for number, label in enumerate(labels):
                positions = [
                    n
                    for n, example in enumerate(self.examples)
                    if example.label == label
                ]
                panel.barh(
                    positions,
                    [lengths[n] for n in positions],
                    color=COLOURS[number],
                    label=label,
                )
            # A row's name has its protected attributes, if known, and then its first values.
            first = [
                {name: e.values[name] for name in self.protected if name in e.values}
                | dict(e.values)
                for e in self.examples
            ]
            name_lines(
                panel,
                [", ".join(map(str, list(values.values())[:4])) for values in first],
            )
            panel.set_xlabel("weight" if self.weighted else "unweighted")
            panel.legend(frameon=False, title="label")
        return figure

    @property
    def _title(self) -> str:
        return f"{self.m} examples by {self.strategy} for {self.task}, seed {self.seed}"

    def __repr__(self) -> str:
        labels = Counter(example.label for example in self.examples)
        counts = f"{labels['yes']} yes and {labels['no']} no"
        if labels["refer"]:
            counts += f", {labels['refer']} refer"
        weighted = f"{'un' * (not self.weighted)}weighted"
        facts = Certificate(self.certificate or {}).facts()
        proven = [
            f"{name} {facts[name]}"
            for name in ("objective", "violation")
            if name in facts
        ]
        parts = [self._title, counts, weighted, *proven]
        return f"<Shots {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        displayed = {example.row: weight or "" for example, weight in self.shown()}
        frame = self.to_frame()
        frame["shown as"] = [displayed.get(row, "hidden") for row in frame.index]
        parts = [table(["row", *frame], frame.itertuples(), self.m)]
        if self.certificate is not None:
            facts = Certificate(self.certificate).facts().items()
            words = (f"{name.replace('_', ' ')} {fact}" for name, fact in facts)
            parts.append(note(" · ".join(words)))
        return figure(self._title, *parts)


@dataclass(frozen=True)
class Request:
    """The input of a strategy.

    `pool` (n rows, indexed by row id) is the table, and `candidates` (n,) marks the rows that may
    become examples. `m` is the number of examples, `epsilon` the parity limit. `query` is the row
    that the prompt asks about, for strategies that choose per row. `weights` (n,) are sampling
    weights of the pool; None: equal weights. A row of weight 0 is not a candidate.
    """

    task: "Task"
    pool: "pd.DataFrame" = field(repr=False)
    candidates: "np.ndarray" = field(repr=False)
    m: int = DEFAULT_M
    epsilon: float | None = 0.01
    seed: int = 0
    query: Fields | None = None
    options: Fields = field(default_factory=dict)
    weights: "np.ndarray | None" = field(repr=False, default=None)


Strategy = Callable[[Request], Shots]
