"""The answers that every statistic starts from: one arm's, and those of all arms to the same questions."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.counts import Codes, Floats, Labels, levels_of
from fwc_llm.metrics.sampling_design import AS_THEY_FALL, SamplingDesign
from fwc_llm.metrics.variance import REASONS, ArmArrays, Assist
from fwc_llm.words import is_unknown_category

if TYPE_CHECKING:
    import pandas as pd

    Names = pd.Categorical[str]

CROSSING = " & "  # between the levels of several attributes
MIN_PROBABILITIES = 10  # fewer P(yes) of an arm say nothing: a Brier score of one is 0 by chance
_TEXTS = ("row", "variant", "group", "reason", "examples", "cluster", "stratum")


@dataclass(frozen=True)
class ArmAnswers:
    """The answers of one arm, n of them: `answer` 1, 0 or NaN; `reason` why it is NaN; `p_yes` or NaN.

    `examples` names the set of examples under which each answer was given, `cluster` the person where one has
    several rows, `stratum` what parity is conditional on, `weight` what a row counts for; None: not given.
    Arrays of texts are turned into categories.
    """

    repeat: npt.NDArray[np.int64]
    row: "Names"
    variant: "Names"
    group: "Names"
    label: Labels
    answer: Floats
    reason: "Names"
    p_yes: Floats
    examples: "Names"
    weight: Floats | None = None
    cluster: "Names | None" = None
    stratum: "Names | None" = None

    def __post_init__(self) -> None:
        for name in _TEXTS:
            if (texts := getattr(self, name)) is not None:
                object.__setattr__(self, name, as_names(texts))

    def __len__(self) -> int:
        return len(self.answer)

    def where(self, chosen: npt.NDArray[Any]) -> "ArmAnswers":
        """Return the answers at a mask (n,) or at positions; these very answers at a mask of all."""
        if chosen.dtype == np.bool_ and chosen.all():
            return self
        columns: dict[str, Any] = {
            name: None if values is None else values[chosen] for name, values in vars(self).items()
        }
        return ArmAnswers(**columns)

    @property
    def unparsed(self) -> dict[str, int]:
        """Counts why answers could not be parsed."""
        return dict(Counter(self.reason[np.isnan(self.answer)].tolist()))

    @property
    def unread(self) -> npt.NDArray[np.bool_]:
        """True for replies without an answer (n,), other than those lost in transport."""
        return np.isnan(self.answer) & np.asarray(self.reason != "error")

    @property
    def unit(self) -> "Names":
        """The units drawn (n,): people where they are known, else rows."""
        return self.row if self.cluster is None else self.cluster

    @property
    def probabilities(self) -> int:
        """Number of answers with P(yes)."""
        return int((~np.isnan(self.p_yes)).sum())


def names_of(codes: Any, texts: Any) -> "Names":
    """Return names (n,) by their places in texts (k,); equal texts become one."""
    import pandas as pd

    place, different = pd.factorize(pd.Index(texts, dtype="str"))
    return pd.Categorical.from_codes(place[codes], different)


def as_names(texts: Any) -> "Names":
    """Return texts (n,) as categories; categories as they are."""
    import pandas as pd

    if isinstance(texts, pd.Categorical):
        return texts if texts.categories.dtype == "str" else mapped(texts, str)
    different, code = np.unique(np.asarray(texts).astype(np.str_), return_inverse=True)
    return names_of(code, different.tolist())


def one_name(text: str, n: int) -> "Names":
    """Return a text, n times, as categories."""
    return names_of(np.zeros(n, dtype=np.int8), [text])


def mapped(names: "pd.Categorical[Any]", change: Callable[[Any], str]) -> "Names":
    """Return names with each of their texts changed; several may become the same."""
    return names_of(names.codes, [change(text) for text in names.categories])


def is_known(group: str) -> bool:
    """True unless one of the group's attributes is "unknown" ("N/A", "keine Angabe")."""
    return not any(map(is_unknown_category, group.split(CROSSING)))


@dataclass(frozen=True)
class View:
    """One grouping: its `name`, its `levels` (L,), and the level of each of the run's groups (G,).

    `crossed` says that it joins several attributes.
    """

    name: str
    levels: tuple[str, ...]
    level_of: Codes
    crossed: bool = False


def views(groups: Sequence[str], attributes: Sequence[str]) -> list[View]:
    """Return every attribute by itself, then (for several attributes) the crossed groups.

    `groups` join the levels of several attributes by " & ". Groups that do not split into as many parts as
    there are attributes are taken as they are.
    """
    names = [str(name) for name in attributes] or ["group"]
    whole = View(CROSSING.join(names), tuple(groups), np.arange(len(groups)), len(names) > 1)
    parts = [group.split(CROSSING) for group in groups]
    if len(names) == 1 or any(len(part) != len(names) for part in parts):
        return [whole]
    alone = []
    for place, name in enumerate(names):
        levels = tuple(dict.fromkeys(part[place] for part in parts))
        alone.append(View(name, levels, np.array([levels.index(part[place]) for part in parts])))
    return [*alone, whole]


def numbered(columns: Sequence["Names"]) -> list[Codes]:
    """Integer codes of names, in order of first appearance, shared across the columns."""
    import pandas as pd
    from pandas.api.types import union_categoricals

    together = union_categoricals(list(columns)).codes
    code = pd.factorize(together)[0].astype(np.int64)
    return np.split(code, np.cumsum([len(names) for names in columns])[:-1])


def questions_of(answers: Sequence[ArmAnswers]) -> list[Codes]:
    """Integer question ids (n,), one for each repeat and row, shared across sets of answers."""
    rows = numbered([a.row for a in answers])
    many = 1 + max((int(row.max(initial=0)) for row in rows), default=0)
    return [a.repeat * many + row for a, row in zip(answers, rows, strict=True)]


@dataclass(frozen=True)
class Variation:
    """An arm's place in its family: arms that differ in the order of their examples, or in wording."""

    family: str
    order: str
    template: str


@dataclass(frozen=True)
class RunAnswers:
    """The input of statistics: every arm's answers to the same questions, and the design of the sample.

    `groups` are in the order in which they are shown. `counterfactuals` holds answers to rows with another
    protected attribute, `attributes` the names of the attributes that " & " joins to a group, and
    `variations` how arms that show the same examples differ. `against` names the arm that the others are
    compared with ("": the first, "all": each with each). `unused` are notes on columns that look as if they
    should have been used, and on groups whose weights are all 0, which are left out. `probes` holds answers
    to rows that were asked in another way, by arm; a variant names the probe before a colon. `assists` are
    predictions of the arms' answers; `assist`: every value is made with them.
    """

    answers: Mapping[str, ArmAnswers]
    groups: tuple[str, ...]
    design: SamplingDesign = AS_THEY_FALL
    counterfactuals: Mapping[str, ArmAnswers] = field(default_factory=dict)
    attributes: tuple[str, ...] = ()
    variations: Mapping[str, Variation] = field(default_factory=dict)
    against: str = ""
    unused: tuple[str, ...] = ()
    probes: Mapping[str, ArmAnswers] = field(default_factory=dict)
    assists: Mapping[str, Assist] = field(default_factory=dict)
    assist: bool = False

    def __post_init__(self) -> None:
        weight = next(iter(self.answers.values())).weight if self.answers else None
        if weight is None:
            return
        names, code = levels_of(next(iter(self.answers.values())).group)
        if nothing := [names[place] for place in np.flatnonzero(np.bincount(code, weight) == 0)]:
            kept = {arm: a.where(~a.group.isin(nothing)) for arm, a in self.answers.items()}
            note = f"All weights of {', '.join(nothing)} are 0: these rows are left out."
            object.__setattr__(self, "answers", kept)
            object.__setattr__(self, "groups", tuple(name for name in self.groups if name not in nothing))
            object.__setattr__(self, "unused", (*self.unused, note))

    @property
    def with_examples(self) -> bool:
        """Whether any answer is known to have been given under examples."""
        return any(bool((answers.examples != "").any()) for answers in self.answers.values())

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms' names."""
        return tuple(self.answers)

    @cached_property
    def perfect_gap(self) -> float | None:
        """The DP gap of right answers to rows whose base rates the design chose; None where it chose none."""
        if not self.design.labels_fixed:
            return None
        answers = next(iter(self.answers.values()))
        rates = [float(answers.label[answers.group == group].mean()) for group in set(answers.group)]
        return max(rates) - min(rates)

    @cached_property
    def plain_samples(self) -> dict[str, ArmArrays]:
        """Each arm as numbers, all in the same order of questions."""
        return samples_of(self.answers, self.groups, self.design)

    @cached_property
    def assisted_samples(self) -> dict[str, ArmArrays]:
        """The same with the predictions of `assists`, where an arm has them."""
        samples = self.plain_samples
        return {arm: replace(own, assist=self.assists.get(arm)) for arm, own in samples.items()}

    @property
    def samples(self) -> dict[str, ArmArrays]:
        """The samples that values, intervals and verdicts are of: assisted ones where `assist` says so."""
        return self.assisted_samples if self.assist else self.plain_samples


def samples_of(
    answers: Mapping[str, ArmAnswers], groups: Sequence[str], design: SamplingDesign
) -> dict[str, ArmArrays]:
    """Return sets of answers as numbers, their rows and repeats numbered alike, sorted by repeat and row."""
    repeats = np.unique(np.concatenate([np.unique(a.repeat) for a in answers.values()]))
    rows = numbered([a.row for a in answers.values()])
    people: Sequence[Codes | None] = [None] * len(rows)
    if all(a.cluster is not None for a in answers.values()):
        people = numbered([a.cluster for a in answers.values() if a.cluster is not None])
    samples = {}
    for (arm, a), row, cluster in zip(answers.items(), rows, people, strict=True):
        repeat = np.searchsorted(repeats, a.repeat)
        order: Any = np.lexsort((row, repeat))
        if (np.diff(order) == 1).all():
            order = np.s_[:]  # views of the columns, not copies
        samples[arm] = ArmArrays(
            answer=a.answer[order],
            label=a.label[order],
            group=a.group.set_categories(list(groups)).codes.astype(np.int64)[order],
            repeat=repeat[order],
            row=row[order],
            groups=len(groups),
            design=design,
            examples=numbered([a.examples])[0][order] if len(a.examples.unique()) > 1 else None,
            weight=None if a.weight is None else a.weight[order],
            cluster=None if cluster is None else cluster[order],
            p_yes=a.p_yes[order] if a.probabilities >= MIN_PROBABILITIES else None,
            strata=None if a.stratum is None else a.stratum[order],
            reason=a.reason.set_categories(list(REASONS)).codes[order],
        )
    return samples
