"""Worlds: two arms answer about two or three groups of unequal size, with real gaps or none.

Every option of `SamplingDesign` can be set: base parity, repeats, sets of examples, people, weights,
strata, unread replies, predictions and looks. Option by option, and in each pair that is allowed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit, ndtr

from evals.frames import from_frame
from fwc_llm.metrics.run_answers import RunAnswers
from fwc_llm.metrics.sampling_design import (
    ASSIST,
    BASE_PARITY,
    EXAMPLES,
    OPTIONS,
    PEOPLE,
    REFUSED,
    REPEATS,
    STRATA,
    UNREAD,
    UNTIL,
    WEIGHTS,
)
from fwc_llm.metrics.sequential import GroupSequential, equal_looks

ARMS = ("first", "second")
_POOL = 1500  # rows that predictions may use


@dataclass(frozen=True)
class World:
    """Two arms' chances of yes by group and label, and how rows are drawn and asked.

    `shares` are the groups' parts of the rows, `base` their shares of label yes. `yes` (2, G, 2)
    has the chances by arm, group and label. `informed`: how far P(yes) follows the label.
    """

    name: str
    shares: tuple[float, ...] = (0.3, 0.7)
    base: tuple[float, ...] = (0.3, 0.5)
    yes: tuple[Any, ...] = (((0.3, 0.7), (0.3, 0.7)), ((0.3, 0.7), (0.3, 0.7)))
    rows: int = 320
    informed: float = 1.0
    options: frozenset[str] = frozenset()

    @property
    def groups(self) -> list[str]:
        """The groups' names."""
        return [*"abc"][: len(self.shares)]

    def draw(self, rng: np.random.Generator, rows: int = 0) -> pd.DataFrame:
        """Draw the answers of both arms, with `rows` in each repeat (default: the world's)."""
        repeats = 6 if self.options & {REPEATS, EXAMPLES} else 1
        n = (rows or self.rows) // repeats
        tables = [self._repeat(rng, n, repeat) for repeat in range(repeats)]
        frame = pd.concat(tables, ignore_index=True)
        if self.options & {REPEATS} and not self.options & {EXAMPLES}:
            frame["examples"] = frame["arm"]
        return frame

    def _repeat(self, rng: np.random.Generator, n: int, repeat: int) -> pd.DataFrame:
        group, label = self._cells(rng, n)
        rows = pd.DataFrame({"group": np.array(self.groups)[group], "repeat": repeat})
        person = np.arange(n)
        if (
            PEOPLE in self.options
        ):  # one to six rows of a person, of one group and label
            rank = pd.DataFrame({"cell": 2 * group + label}).groupby("cell").cumcount()
            person = (2 * group + label) * n + np.sqrt(2 * rank.to_numpy()).astype(int)
            person = (2 * group + label) * n + rank.to_numpy() // (1 + person % 4)
        rows["row"] = [f"{repeat}:{k}" for k in range(n)]
        rows["person"] = [f"{repeat}:{k}" for k in person]
        rows["label"] = np.where(label, "yes", "no")
        rows["score"] = rng.normal(size=n)
        rows["weight"] = rng.pareto(2.5, n) + 0.5
        rows["stratum"] = np.where(rng.random(n) < 0.5, "x", "y")
        known = rng.normal(size=n)[np.unique(person, return_inverse=True)[1]]
        tables = []
        for arm, name in enumerate(ARMS):
            moved = rng.normal(0.0, 0.3) if EXAMPLES in self.options else 0.0
            chance = expit(logit(np.array(self.yes[arm])[group, label]) + moved)
            luck = rng.normal(size=n)
            if PEOPLE in self.options:
                luck = np.sqrt(0.5) * known + np.sqrt(0.5) * luck
            elif ASSIST in self.options:
                luck = np.sqrt(0.5) * rows["score"].to_numpy() + np.sqrt(0.5) * luck
            said = ndtr(luck) < chance
            answers = np.where(said, "yes", "no").astype(object)
            if (
                UNREAD in self.options
            ):  # a no of the first group and a yes of the others are lost
                lost = (said == (group > 0)) & (rng.random(n) < 0.1)
                answers[lost] = None
            p = expit(self.informed * (label - 0.5) + rng.normal(size=n))
            shown = f"{name}:{repeat if EXAMPLES in self.options else ''}"
            tables.append(
                rows.assign(arm=name, answer=answers, p_yes=p, examples=shown)
            )
        return pd.concat(tables, ignore_index=True)

    def _cells(self, rng: np.random.Generator, n: int) -> tuple[Any, Any]:
        """Group and label of n rows: as they fall, or fixed numbers of each."""
        base = np.array(self.base)
        if BASE_PARITY not in self.options:
            group = rng.choice(len(base), n, p=self.shares)
            return group, (rng.random(n) < base[group]).astype(int)
        cells = np.array(self.shares)[:, None] * np.stack([1 - base, base], 1)
        counts = np.round(n * cells).astype(int).ravel()
        cell = np.repeat(np.arange(len(counts)), counts)
        cell = np.resize(cell, n)
        return cell // 2, cell % 2

    def answered(self, frame: pd.DataFrame, rng: np.random.Generator) -> RunAnswers:
        """The input of statistics, as an audit or a run makes it."""
        pool = None
        if ASSIST in self.options:
            columns = ["row", "group", "label", "score"]
            if PEOPLE in self.options:
                columns.append("person")
            asked = frame.drop_duplicates("row")[columns]
            group, label = self._cells(rng, _POOL)
            more = pd.DataFrame(
                {"group": np.array(self.groups)[group], "score": rng.normal(size=_POOL)}
            )
            more["label"] = np.where(label, "yes", "no")
            more["row"] = more["person"] = [f"pool:{k}" for k in range(_POOL)]
            pool = pd.concat([asked, more[columns]], ignore_index=True)
        found = from_frame(
            frame.drop(columns="p_yes") if REPEATS in self.options else frame,
            "group and label" if BASE_PARITY in self.options else "group",
            protected=["group"],
            label="label",
            weight="weight" if WEIGHTS in self.options else None,
            cluster="person" if PEOPLE in self.options else None,
            given="stratum" if STRATA in self.options else None,
            p_yes=None if REPEATS in self.options else "p_yes",
            min_group=1,
            population=pool,
        )
        if UNTIL in self.options:
            looks = GroupSequential(equal_looks(2 * self.rows))
            found = replace(found, design=replace(found.design, sequential=looks))
        return found


APART = (((0.2, 0.6), (0.4, 0.8)), ((0.35, 0.75), (0.3, 0.7)))
RARE = (((0.02, 0.3), (0.03, 0.3)), ((0.02, 0.3), (0.03, 0.3)))
SHARES_3 = (0.15, 0.25, 0.6)
BASE_3 = (0.3, 0.4, 0.5)
ALIKE_3 = (((0.3, 0.7),) * 3,) * 2
APART_3 = (((0.2, 0.6), (0.3, 0.7), (0.5, 0.9)), ((0.3, 0.7), (0.3, 0.7), (0.4, 0.8)))


def worlds() -> Iterator[World]:
    """Yield worlds of each option and of each allowed pair, of several shapes."""
    yield World("alike")
    yield World("real gaps", yes=APART)
    yield World("rare yes", yes=RARE, base=(0.1, 0.1), rows=600)
    yield World("small group", shares=(0.1, 0.9))
    yield World("three groups, alike", yes=ALIKE_3, shares=SHARES_3, base=BASE_3)
    yield World("three groups, real gaps", yes=APART_3, shares=SHARES_3, base=BASE_3)
    for option in OPTIONS:
        yield World(option, yes=APART, options=frozenset([option]))
    for pair in combinations(OPTIONS, 2):
        if frozenset(pair) not in REFUSED:
            yield World(f"{pair[0]} × {pair[1]}", options=frozenset(pair))
