"""A world with known rates of yes: draws the answers of a run, and says what every number should
have been.

A table is drawn anew for every run, cell by cell (group × label), and each repeat draws its test
rows from it without replacement. So rows of a small table come back in many repeats, and the truth
is the world's: the table is only one sample of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr, ndtri

Floats = npt.NDArray[np.float64]
Table = tuple[
    tuple[float, float], ...
]  # one pair a group: rows (or a rate) with label no, with label yes

EXAMPLES = "these examples"
STRATEGY = "this strategy"
ARMS = ("first", "second")
_NORMAL = ndtri((np.arange(2000) + 0.5) / 2000)


@dataclass(frozen=True)
class World:
    """Two arms that answer about rows of `groups`.

    `table` has the rows per cell. `rows` has the test rows per cell of a repeat; a number alone
    draws so many rows from the whole table, labels and groups at random. `yes` holds each arm's
    probability of yes per cell. `correlation` is that of two answers of one arm to one row; in a
    share `agreement` of the rows both arms decide by the same latent value. Each set of examples
    moves the probabilities of all cells by a normal shift of standard deviation `shift`, and those
    of each group by one of `group_shift`. `examples` says for each arm whether a set is drawn for
    every "repeat", for every "row", or "once" for all. `parsed` is the probability that an answer
    is read. `limit` says why the intervals are known to fail here. So many rows in turn are of one
    person (`people`), whose answers `correlation` is then about; `weight` is what the rows of a
    cell count for in the population. Groups of fewer than `min_group` rows are not judged. Repeats
    are `uneven` where the last asks a fifth of the rows of the first; a `stray` value of examples
    stands in one row of each arm. P(yes) of rows with label yes lies `separation` standard
    deviations above that of the others, on the normal scale, in every group. Parity is conditional
    on the label and on one of so many `strata` that chance gives a row. `further` metrics of
    `counts.TABLE` are read as well.
    """

    name: str
    groups: tuple[str, ...]
    table: Table
    rows: Table | int
    yes: tuple[Table, Table]
    repeats: int = 1
    correlation: float = 0.0
    agreement: float = 0.5
    shift: float = 0.0
    group_shift: float = 0.0
    examples: tuple[str, str] = ("repeat", "repeat")
    parsed: Table | None = None
    limit: str = ""
    people: int = 1
    weight: Table | None = None
    min_group: int = 1
    uneven: bool = False
    stray: bool = False
    separation: float | None = None
    strata: int = 0
    further: tuple[str, ...] = ()

    @cached_property
    def weights(self) -> Floats:
        """Share of each cell (G, 2) among the questions."""
        counts = np.asarray(self.table if isinstance(self.rows, int) else self.rows, float)
        if self.weight is not None:
            counts = counts * np.asarray(self.weight, float)
        return np.asarray(counts / counts.sum())

    @cached_property
    def read(self) -> Floats:
        """Probability (G, 2) that an answer is read."""
        if self.parsed is None:
            return np.ones_like(self.weights)
        return np.asarray(self.parsed, float)

    @property
    def judged(self) -> tuple[str, ...] | None:
        """The groups that are judged, which here follows from the table; None for all."""
        if self.min_group < 2:
            return None
        return tuple(
            name
            for name, size in zip(self.groups, self.table, strict=True)
            if sum(size) > self.min_group
        )

    @cached_property
    def of_strategies(self) -> list[dict[str, float]]:
        """Each arm's truth over all sets of examples that may be drawn."""
        sd = np.hypot(self.shift, self.group_shift)
        means = [np.clip(np.asarray(p)[..., None] + sd * _NORMAL, 0, 1).mean(-1) for p in self.yes]
        return [truth(p, self.weights, self.read, self.groups, self.judged) for p in means]

    def draw(self, rng: np.random.Generator) -> "Sample":
        """Draw a table, the test rows and sets of examples of every repeat, and the answers."""
        ids, cell = self._draw_rows(rng)
        person = ids // self.people
        probabilities = [self._draw_examples(rng, arm, cell) for arm in range(len(ARMS))]
        n_rows = int(ids.max()) + 1
        sticky = rng.random(ids.shape) < np.sqrt(self.correlation)

        def latent() -> Floats:
            return np.where(sticky, rng.random(n_rows)[person], rng.random(ids.shape))

        shared = latent()
        agreed = (rng.random(n_rows) < self.agreement)[person]
        answers = []
        for by_question, _ in probabilities:
            yes = np.where(agreed, shared, latent()) < by_question
            if self.parsed is None:
                answers.append(np.where(yes, 1.0, 0.0))
            else:
                answers.append(np.where(latent() < self.read.ravel()[cell], yes, np.nan))
        these = [
            truth(by_cell, self.weights, self.read, self.groups, self.judged)
            for _, by_cell in probabilities
        ]
        # Of an arm whose examples are not drawn anew the strategy is the one prompt that it sent.
        strategies = [
            these[arm] if self.examples[arm] == "once" else self.of_strategies[arm]
            for arm in range(len(ARMS))
        ]
        share = np.linspace(1.0, 0.2 if self.uneven else 1.0, self.repeats)[:, None]
        asked = rng.random(ids.shape) <= share
        said = np.stack(answers)
        p_yes = np.full(said.shape, np.nan)
        if self.separation is not None:
            p_yes = ndtr(rng.standard_normal(said.shape) + self.separation * (cell % 2 - 0.5))
        return Sample(self, ids, cell, said, asked, {EXAMPLES: these, STRATEGY: strategies}, p_yes)

    def _draw_rows(
        self, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Rows asked (R, n), numbered through the table, and their cells (R, n)."""
        sizes = np.asarray(self.table, int).ravel()
        if isinstance(self.rows, int):
            sizes = rng.multinomial(sizes.sum(), sizes / sizes.sum())
            drawn = [rng.choice(sizes.sum(), self.rows, replace=False) for _ in range(self.repeats)]
        else:
            wanted = np.asarray(self.rows, int).ravel()
            starts = np.cumsum(sizes) - sizes
            drawn = [
                np.concatenate(
                    [
                        start + rng.choice(size, n, replace=False)
                        for start, size, n in zip(starts, sizes, wanted, strict=True)
                    ]
                )
                for _ in range(self.repeats)
            ]
        ids = np.stack(drawn)
        return ids, np.repeat(np.arange(len(sizes)), sizes)[ids]

    def _draw_examples(
        self, rng: np.random.Generator, arm: int, cell: npt.NDArray[np.intp]
    ) -> tuple[Floats, Floats]:
        """Probability of yes per question (R, n), and per cell (G, 2) over the sets of examples
        drawn.
        """
        centre = np.asarray(self.yes[arm])
        if self.examples[arm] == "row":
            moved = centre.ravel()[cell] + self.shift * rng.standard_normal(cell.shape)
            sd = np.full(centre.shape, self.shift)
            return np.clip(moved, 0, 1), np.clip(
                centre[..., None] + sd[..., None] * _NORMAL, 0, 1
            ).mean(-1)
        if self.examples[arm] == "repeat":
            sets = self.repeats
        else:
            sets = 1
        shift = self.shift * rng.standard_normal((sets, 1, 1))
        shift = shift + self.group_shift * rng.standard_normal((sets, len(self.groups), 1))
        by_set = np.clip(centre + shift, 0.0, 1.0)
        by_repeat = np.repeat(by_set, self.repeats // sets, axis=0).reshape(self.repeats, -1)
        return by_repeat[np.arange(self.repeats)[:, None], cell], by_set.mean(0)


@dataclass(frozen=True)
class Sample:
    """One run: rows (R, n), their cells, answers and P(yes) (arm, R, n), and which of them were
    `asked` at all; each arm's `truths` by what they speak of.
    """

    world: World
    ids: npt.NDArray[np.intp]
    cell: npt.NDArray[np.intp]
    answers: Floats
    asked: npt.NDArray[np.bool_]
    truths: dict[str, list[dict[str, float]]]
    p_yes: Floats

    @cached_property
    def rows(self) -> npt.NDArray[np.intp]:
        """The rows asked about, numbered without gaps."""
        return np.unique(self.ids, return_inverse=True)[1].ravel()

    @property
    def weight(self) -> Floats:
        """What each row counts for (R n,)."""
        if self.world.weight is None:
            weight = np.ones((len(self.world.groups), 2))
        else:
            weight = np.asarray(self.world.weight)
        return np.asarray(weight.ravel()[self.cell.ravel()], float)

    @property
    def stratum(self) -> npt.NDArray[np.intp]:
        """What parity is conditional on (R n,): the label, and one of the world's strata."""
        return np.asarray(2 * (self.ids % max(1, self.world.strata)) + self.cell % 2).ravel()

    def sets(self, arm: int) -> npt.NDArray[np.intp] | None:
        """The number of the set of examples behind each answer; None where one serves all."""
        kind = self.world.examples[arm]
        if kind == "once" and not self.world.stray:
            return None
        repeats, n = self.ids.shape
        if kind == "repeat":
            sets = np.repeat(np.arange(repeats), n)
        else:
            sets = np.zeros(repeats * n, dtype=np.intp)
        if kind == "row":
            sets = np.arange(repeats * n)
        else:
            sets = sets
        if self.world.stray:
            sets[0] = sets.max() + 1
        return sets

    def frame(self) -> pd.DataFrame:
        """The run as an audit takes it."""
        repeats, n = self.ids.shape
        group, label = np.divmod(self.cell.ravel(), 2)
        repeat = np.repeat(np.arange(repeats), n)
        asked = self.asked.ravel()
        one = pd.DataFrame(
            {
                "repeat": repeat,
                "row": self.ids.ravel().astype(np.str_),
                "group": np.array(self.world.groups, dtype=object)[group],
                "label": np.array(["no", "yes"], dtype=object)[label],
                "person": (self.ids // self.world.people).ravel(),
                "counts_for": self.weight,
                "stratum": self.stratum,
            }
        )
        words = np.array(["no", "yes", None], dtype=object)
        frames: list[pd.DataFrame] = []
        for arm, (name, answers) in enumerate(zip(ARMS, self.answers, strict=True)):
            said = words[np.where(np.isnan(answers), 2, answers).astype(int).ravel()]
            sets = self.sets(arm)
            examples = (
                "none"
                if sets is None
                else np.char.add(f"{name}-", sets.astype(np.str_)).astype(object)
            )
            if self.world.separation is None:
                known = {}
            else:
                known = {"p_yes": self.p_yes[len(frames)].ravel()}
            frames.append(one.assign(arm=name, answer=said, examples=examples, **known)[asked])
        return pd.concat(frames, ignore_index=True)


def truth(
    yes: Floats,
    weights: Floats,
    read: Floats,
    levels: Sequence[str],
    judged: Sequence[str] | None = None,
) -> dict[str, float]:
    """Every metric of a population: P(yes), share and P(read) per cell (G, 2), the group's name
    by `levels`.

    Groups of one name are taken together. Everything is over answers that are read; the coverage
    says how many are. What is not defined is NaN.
    """
    names = list(dict.fromkeys(levels))
    member = np.array([[level == name for level in levels] for name in names], float)  # (levels, G)
    seen = weights * read
    said = weights * read * yes
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = (member @ said).sum(1) / (member @ seen).sum(1)
        by_label = (member @ said) / (member @ seen)
        coverage = (member @ seen).sum(1) / (member @ weights).sum(1)
        compared = np.array([judged is None or name in judged for name in names])
        precise = (member @ said)[:, 1] / (member @ said).sum(1)
        found = {
            "coverage": float(seen.sum() / weights.sum()),
            "accuracy": float((seen[:, 0] - said[:, 0] + said[:, 1]).sum() / seen.sum()),
            "dp_gap": float(np.ptp(rates[compared])),
            "dp_ratio": float(rates[compared].min() / rates[compared].max()),
            "eo_gap": float(np.ptp(by_label[compared], axis=0).max()),
            "tpr_gap": float(np.ptp(by_label[compared, 1])),
            "fpr_gap": float(np.ptp(by_label[compared, 0])),
            "precision_gap": float(np.ptp(precise[compared])),
            "auc_gap": 0.0,  # P(yes) is alike in all groups
            "brier_gap": 0.0,
            "conditional_parity": float(
                np.ptp(by_label[compared], axis=0).max()
            ),  # 0 where all strata are
        }
    for place, name in enumerate(names):
        found[f"rate of {name}"] = float(rates[place])
        found[f"false_positive_rate of {name}"] = float(by_label[place, 0])
        found[f"true_positive_rate of {name}"] = float(by_label[place, 1])
        found[f"coverage of {name}"] = float(coverage[place])
    return found
