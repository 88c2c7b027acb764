"""Worlds: two arms answer about two or three groups of unequal size, with real gaps or none.

Every option of `SamplingDesign` can be set: base parity, repeats, sets of examples, people, weights,
strata, unread replies, predictions and referrals. Option by option, and each allowed pair within a
triple.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit, ndtr, ndtri

from fwc_llm.metrics.counts import REFER, Codes, Floats
from fwc_llm.metrics.prediction_powered import FeatureTable, assisted_answers
from fwc_llm.metrics.run_answers import ArmAnswers, RunAnswers, names_of
from fwc_llm.metrics.sampling_design import (
    ASSIST,
    BASE_PARITY,
    EXAMPLES,
    OPTIONS,
    PEOPLE,
    REFERRALS,
    REPEATS,
    STRATA,
    UNREAD,
    WEIGHTS,
    SamplingDesign,
)

ARMS = ("first", "second")
_GROUPS = ("a", "b", "c")
_REPEATS = 6
_SHIFT = 0.3  # standard deviation of what a set of examples adds to the log-odds of yes
_LOST = 0.1  # of the first group's answers no, and of the other groups' answers yes
_POOL = 600  # rows that predictions may use
_REFERRED = np.array([[0.3, 0.1, 0.2], [0.2, 0.2, 0.2]])  # shares by arm and group
_TABLE = 4000  # rows that rows with a base parity are drawn from
_PERSON = np.array([0, 1, 1, 2, 2, 2, 3, 3, 3, 3])  # people of one to four rows


@dataclass(frozen=True)
class World:
    """Two arms' chances of yes by group and label, and how rows are drawn and asked.

    `shares` are the groups' parts of the rows, `base` their shares of label yes. `yes` (2, G, 2)
    has the chances by arm, group and label. The log-odds of P(yes) are N(±0.5, 1) by label.
    """

    name: str
    shares: tuple[float, ...] = (0.3, 0.7)
    base: tuple[float, ...] = (0.3, 0.5)
    yes: tuple[Any, ...] = (((0.3, 0.7), (0.3, 0.7)), ((0.3, 0.7), (0.3, 0.7)))
    rows: int = 320
    options: frozenset[str] = field(default_factory=frozenset)

    @property
    def cells(self) -> Floats:
        """The share (G, 2) of the people in each group with each label."""
        base = np.array(self.base)
        shares: Floats = np.array(self.shares)[:, None] * np.stack([1 - base, base], 1)
        return shares

    def draw(self, rng: np.random.Generator) -> RunAnswers:
        """Draw the answers of both arms, as a run or an audit has them."""
        repeats = 1
        if self.options & {REPEATS, EXAMPLES}:
            repeats = _REPEATS
        n = self.rows // repeats
        cell = np.concatenate([self._drawn(rng, n) for _ in range(repeats)])
        group = cell // 2
        label = cell % 2
        repeat = np.repeat(np.arange(repeats), n)
        kind = repeat * 2 * len(self.base) + cell
        person = 4 * len(cell) * kind + _rank(kind)
        score = rng.normal(size=len(cell))
        alike = rng.normal(size=len(cell))[np.unique(person, return_inverse=True)[1]]
        shared: dict[str, Any] = {}
        if PEOPLE in self.options:
            shared["cluster"] = _numbered("p", person)
        if WEIGHTS in self.options:
            shared["weight"] = rng.pareto(2.5, len(cell)) + 0.5
        if STRATA in self.options:
            shared["stratum"] = names_of(rng.integers(0, 2, len(cell)), ["x", "y"])
        answers = {}
        for arm, name in enumerate(ARMS):
            luck = rng.normal(size=len(cell))
            if PEOPLE in self.options:
                luck = np.sqrt(0.5) * (alike + luck)
            elif ASSIST in self.options:
                luck = np.sqrt(0.5) * (score + luck)
            odds = logit(np.array(self.yes[arm])[group, label])
            examples = np.full(len(cell), arm)
            if EXAMPLES in self.options:
                odds = odds + rng.normal(0.0, _SHIFT, repeats)[repeat]
                examples = arm * repeats + repeat
            lost = np.zeros(len(cell))
            if UNREAD in self.options:
                lost = rng.random(len(cell))
            said = (ndtr(luck) < expit(odds)).astype(np.float64)
            if REFERRALS in self.options:
                referred = rng.random(len(cell)) < _REFERRED[arm][group]
                said = np.where(referred, REFER, said)
            answers[name] = _answers(
                cell,
                said,
                label - 0.5 + rng.normal(size=len(cell)),
                UNREAD in self.options,
                lost,
                repeat=repeat,
                examples=_numbered("e", examples),
                **shared,
            )
        run = self._run(answers)
        if ASSIST not in self.options:
            return run
        return assisted_answers(run, self._population(rng, cell, score))

    def _run(self, answers: dict[str, ArmAnswers]) -> RunAnswers:
        if REPEATS in self.options:  # nothing is said of P(yes)
            unknown = np.full(len(answers[ARMS[0]]), np.nan)
            answers = {arm: replace(a, p_yes=unknown) for arm, a in answers.items()}
        fixed = BASE_PARITY in self.options
        model = max(np.ravel(self.yes)) == 0.0
        refers = REFERRALS in self.options
        design = SamplingDesign(labels_fixed=fixed, model=model, refers=refers)
        groups = _GROUPS[: len(self.base)]
        return RunAnswers(answers, groups, design, attributes=("group",))

    def _drawn(self, rng: np.random.Generator, n: int) -> Codes:
        """Twice the group, plus the label, of n rows: as they fall, or in fixed numbers."""
        shares = self.cells.ravel()
        if BASE_PARITY not in self.options:
            return rng.choice(len(shares), n, p=shares)
        return np.resize(np.repeat(np.arange(len(shares)), _apart(shares, n)), n)

    def _population(
        self, rng: np.random.Generator, cell: Codes, score: Floats
    ) -> FeatureTable:
        """The rows that were asked about, and further ones."""
        more = rng.choice(self.cells.size, _POOL, p=self.cells.ravel())
        cells = np.concatenate([cell, more])
        rows = pd.Index([f"r{k}" for k in range(len(cells))])
        scores = np.concatenate([score, rng.normal(size=_POOL)])
        group = np.array(_GROUPS, object)[cells // 2]
        features = pd.DataFrame({"score": scores})
        return FeatureTable(rows, group, cells % 2, features)

    def expected(self, rows: int, read: bool) -> RunAnswers:
        """A table with the expected number of each kind of row, to which the truth belongs.

        Each reply was `read`, or replies are lost as the world loses them.
        """
        unread = UNREAD in self.options and not read
        cell = np.repeat(np.arange(self.cells.size), _apart(self.cells.ravel(), rows))
        answers = {}
        for arm, name in enumerate(ARMS):
            said, lost, odds = (np.zeros(len(cell)) for _ in range(3))
            for one in range(self.cells.size):
                here = np.flatnonzero(cell == one)
                chance = self._chance(arm, one)
                order = here[np.argsort(_even(len(here), arm + 1), kind="stable")]
                yes = round(chance * len(here))
                said[order[:yes]] = 1.0
                for part in (order[:yes], order[yes:]):
                    referred = 0
                    if REFERRALS in self.options:
                        referred = round(_REFERRED[arm][one // 2] * len(part))
                    said[part[:referred]] = REFER
                    lost[part[referred:]] = _even(len(part) - referred, 3)
                odds[here] = one % 2 - 0.5 + ndtri(_even(len(here), 4))
            answers[name] = _answers(cell, said, odds, unread, lost)
        return replace(self, options=self.options & {REFERRALS})._run(answers)

    def _chance(self, arm: int, cell: int) -> float:
        """The chance of yes in a cell, over all sets of examples."""
        odds = logit(self.yes[arm][cell // 2][cell % 2])
        if EXAMPLES not in self.options:
            return float(expit(odds))
        shifts = _SHIFT * ndtri((np.arange(1000) + 0.5) / 1000)
        return float(expit(odds + shifts).mean())


def _answers(
    cell: Codes, said: Floats, odds: Floats, unread: bool, lost: Floats, **more: Any
) -> ArmAnswers:
    """An arm's answers to rows of these cells; `lost` (n,) is below `_LOST` for replies that may
    be.
    """
    n = len(cell)
    none = names_of(np.zeros(n, np.int8), [""])
    group = cell // 2
    gone = unread & (said == (group > 0)) & (lost < _LOST)
    ours: dict[str, Any] = {
        "repeat": np.zeros(n, np.int64),
        "examples": none,
        "variant": none,
        "row": _numbered("r", np.arange(n)),
        "group": names_of(group, _GROUPS),
        "label": (cell % 2).astype(np.int8),
        "answer": np.where(gone, np.nan, said),
        "reason": names_of(gone.astype(np.int8), ["", "refused"]),
        "p_yes": expit(odds),
    }
    return ArmAnswers(**ours | more)


def _numbered(letter: str, codes: Codes) -> Any:
    """Names from numbers (n,)."""
    different, code = np.unique(codes, return_inverse=True)
    return names_of(code, [f"{letter}{k}" for k in different.tolist()])


def _rank(kind: Codes) -> Codes:
    """Number the people (n,) of each kind of rows, who have one to four rows."""
    order = np.argsort(kind, kind="stable")
    rank = np.empty(len(kind), np.int64)
    sizes = np.bincount(kind)
    rank[order] = np.arange(len(kind)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    numbered: Codes = 4 * (rank // len(_PERSON)) + _PERSON[rank % len(_PERSON)]
    return numbered


def _apart(shares: Floats, n: int) -> Codes:
    """Whole numbers (k,) nearest to the shares of n."""
    nearest: Codes = np.round(n * shares).astype(np.int64)
    return nearest


def _even(n: int, shift: int) -> Floats:
    """n numbers, evenly spread from 0 to 1, in an order of no pattern."""
    places = np.random.default_rng(shift).permutation(n)
    return (places + 0.5) / max(n, 1)


APART = (((0.2, 0.6), (0.4, 0.8)), ((0.35, 0.75), (0.3, 0.7)))
RARE = (((0.02, 0.3), (0.03, 0.3)), ((0.02, 0.3), (0.03, 0.3)))
SHARES_3 = (0.15, 0.25, 0.6)
BASE_3 = (0.3, 0.4, 0.5)
ALIKE_3 = (((0.3, 0.7),) * 3,) * 2
APART_3 = (((0.2, 0.6), (0.3, 0.7), (0.5, 0.9)), ((0.3, 0.7), (0.3, 0.7), (0.4, 0.8)))
NEVER = (((0.0, 0.0),) * 2,) * 2
TOGETHER: tuple[
    tuple[str, ...], ...
] = (  # each allowed pair of options is in one of them
    (BASE_PARITY, PEOPLE),
    (WEIGHTS, STRATA),
    (UNREAD, ASSIST),
    (BASE_PARITY, EXAMPLES, ASSIST),
    (REPEATS, STRATA, ASSIST),
    (REPEATS, PEOPLE, STRATA),
    (BASE_PARITY, REPEATS, WEIGHTS),
    (BASE_PARITY, STRATA, UNREAD),
    (REPEATS, EXAMPLES, STRATA),
    (EXAMPLES, PEOPLE, WEIGHTS),
    (PEOPLE, WEIGHTS, UNREAD),
    (REPEATS, EXAMPLES, UNREAD),
    (REPEATS, STRATA, REFERRALS),
    (EXAMPLES, WEIGHTS, REFERRALS),
    (PEOPLE, UNREAD, REFERRALS),
)


def worlds() -> Iterator[World]:
    """Yield worlds of several shapes, of each option, and of the triples."""
    yield World("alike")
    yield World("real gaps", yes=APART)
    yield World("rare yes", yes=RARE, base=(0.1, 0.1), rows=600)
    yield World("small group", shares=(0.1, 0.9))
    yield World("three groups, alike", yes=ALIKE_3, shares=SHARES_3, base=BASE_3)
    yield World("three groups, real gaps", yes=APART_3, shares=SHARES_3, base=BASE_3)
    yield World("a model that says no to all", yes=NEVER, rows=200)
    for option in OPTIONS:
        yield World(option, yes=APART, options=frozenset([option]))
    for triple in TOGETHER:
        yield World(" × ".join(triple), options=frozenset(triple))
