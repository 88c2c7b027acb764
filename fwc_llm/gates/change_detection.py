"""E-detectors: change detection with a bounded rate of false alarms.

For two groups, a *block* is a run of decisions of one group, ended by the first decision of the other group.
D is the difference of the block's two rates minus the bound; it lies in [−2, 1]. While the condition does not
hold, the mean of D is at most 0, so a bet with the factor 1 + λ D gains nothing. The evidence
M ← (M + 1)(1 + λ D) sums such bets over all times at which a change may have begun (Shiryaev 1963; Roberts
1966). An alarm is raised when M, averaged over λ, pairs of groups and rates, reaches N; then M restarts at 0.
The mean of M plus N per alarm grows by at most 1 per decision, so there is on average at most one false alarm
in N decisions (Shin, Ramdas & Rinaldo 2024, *E-detectors*).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations, product
from math import log1p
from typing import Any, NamedTuple

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.gates.condition import KEY_OF, GateCondition
from fwc_llm.metrics.counts import BY_KEY, RATES, Codes, Metric

_BETS = 0.05, 0.1, 0.2, 0.4  # λ
_DATING = 0.1  # the λ that dates the beginning of a change


def check_watched(condition: GateCondition, labelled: bool = True) -> None:
    """Raise `FwcError` for conditions that have no detector."""
    metric = BY_KEY[KEY_OF[condition.metric]]
    worse = ">" if metric.kind == "gap" else "<"
    if condition.arm is not None or set(metric.rates) - set(RATES):
        raise FwcError(f'"{condition.text}" cannot be monitored: name one metric of decisions, without [...]')
    if not labelled and set(metric.rates) - {"rate", "coverage"}:
        raise FwcError(f'"{condition.text}" needs true outcomes: name their column with --label')
    if condition.operator[0] != worse:
        raise FwcError(f'"{condition.text}" cannot be monitored: write {condition.metric} {worse} NUMBER')


class Alarm(NamedTuple):
    """A period in which a `rate` met the condition, for two `groups` or, without groups, for all decisions.

    `inside` (during the period) and `before` have decisions and hits of the group with the higher rate, then
    of the other group; without groups, of all decisions, then 0 and 0.
    """

    rate: str
    groups: list[int]
    since: int
    until: int
    inside: list[int]
    before: list[int]
    evidence: float


@dataclass
class _Comparison:
    """A rate compared between two groups (alternative: the first is higher), or a rate of all decisions.

    `block` has both groups' decisions and hits since the last block; `evidence` is indexed by λ. `stretch` is
    the CUSUM estimate of the change: its rise, its moment, and decisions and hits of both groups since.
    """

    block: list[int]
    evidence: list[float] = field(default_factory=list)
    stretch: list[Any] = field(default_factory=list)

    def bet(self, difference: float, moment: int) -> float:
        """Bet on a complete block; return the growth of the evidence."""
        old = self.evidence or [0.0] * len(_BETS)
        self.evidence = [(m + 1) * (1 + bet * difference) for m, bet in zip(old, _BETS, strict=True)]
        rise, since, *sums = self.stretch or [0.0, moment, 0, 0, 0, 0]
        rise += log1p(_DATING * difference)
        since = moment if rise < 1 else since  # too few decisions date no change
        self.stretch = [rise, since, *map(sum, zip(sums, self.block, strict=True))] if rise > 0 else []
        self.block = [0, 0, 0, 0]
        return sum(self.evidence) - sum(old)


@dataclass
class Detector:
    """The evidence for a condition, and counts by group, label and answer (G, 2, 3), since the last alarm.

    Both are the same however decisions are divided into calls.
    """

    condition: GateCondition
    counts: Codes = field(default_factory=lambda: np.zeros((0, 2, 3), np.int64))
    comparisons: dict[str, _Comparison] = field(default_factory=dict)

    @classmethod
    def read(cls, condition: GateCondition, saved: Mapping[str, Any]) -> "Detector":
        """Return the detector saved by `to_dict`."""
        comparisons = {key: _Comparison(**values) for key, values in saved["comparisons"].items()}
        return cls(condition, np.array(saved["counts"], np.int64).reshape(-1, 2, 3), comparisons)

    def to_dict(self) -> dict[str, Any]:
        """Return the state without the condition, for JSON."""
        comparisons = {key: vars(comparison) for key, comparison in self.comparisons.items()}
        return {"counts": self.counts.tolist(), "comparisons": comparisons}

    @property
    def metric(self) -> Metric:
        """The condition's metric."""
        return BY_KEY[KEY_OF[self.condition.metric]]

    @property
    def evidence(self) -> float:
        """M, the mean evidence over λ and all comparisons that have had a block."""
        known = [m for comparison in self.comparisons.values() for m in comparison.evidence]
        return sum(known) / max(1, len(known))

    def watch(self, cell: Codes, moments: Codes, limit: float) -> Iterator[Alarm]:
        """Add decisions (n,) in order; yield an alarm when the evidence reaches `limit`.

        A cell is 6 · group + 3 · label + answer (0, 1, or 2 for unparsed); group indices must not change. An
        alarm's `since` and `until` are elements of `moments` (n,).
        """
        self._count(cell[:0], 1 + int(cell.max(initial=-1)) // 6)
        of_cell, compared = self._of_cells(), sum(len(one.evidence) for one in self.comparisons.values())
        start, total, kind, bound = 0, self.evidence * compared, self.metric.kind, self.condition.bound
        for place, (number, moment) in enumerate(zip(cell.tolist(), moments.tolist(), strict=True)):
            for comparison, side, hit in of_cell[number]:
                block = comparison.block
                block[side] += 1
                block[side + 1] += hit
                if kind == "share":
                    difference = bound - hit
                elif block[0] and block[2]:
                    rate, other = block[1] / block[0], block[3] / block[2]
                    difference = rate - other - bound if kind == "gap" else bound * rate - other
                else:
                    continue
                compared += 0 if comparison.evidence else len(_BETS)
                total += comparison.bet(difference, moment)
            if compared and total >= limit * compared:
                self._count(cell[start : place + 1])
                yield self._alarm(moment, total / compared)
                start, of_cell, total, compared = place + 1, self._of_cells(), 0.0, 0
        self._count(cell[start:])

    def _count(self, cell: Codes, groups: int = 0) -> None:
        counts = np.bincount(cell, minlength=6 * max(groups, len(self.counts))).reshape(-1, 2, 3)
        counts[: len(self.counts)] += self.counts
        self.counts = counts

    def _of_cells(self) -> list[list[tuple[_Comparison, int, int]]]:
        """Map each cell to its comparisons, with its index in their blocks and whether it is a hit."""
        of_cell: list[list[tuple[_Comparison, int, int]]] = [[] for _ in range(self.counts.size)]
        groups, share = range(len(self.counts)), self.metric.kind == "share"
        for rate in self.metric.rates:
            for pair in [()] if share else permutations(groups, 2):
                key = " ".join(map(str, (rate, *pair)))
                if key not in self.comparisons:  # its first block has all decisions so far
                    self.comparisons[key] = _Comparison([0] * 4 if share else self._sums(key))
                for group, kind in product(pair or groups, np.flatnonzero(RATES[rate].counted).tolist()):
                    side, hit = 2 * (group in pair[1:]), int(RATES[rate].hits.ravel()[kind])
                    of_cell[6 * group + kind].append((self.comparisons[key], side, hit))
        return of_cell

    def _sums(self, key: str) -> list[int]:
        """Decisions and hits of each of a comparison's groups; without groups, of all, then 0 and 0."""
        rate, *groups = key.split()
        counts = [self.counts[int(group)] for group in groups] or [self.counts.sum(0), 0 * self.counts[0]]
        return [int(of[kinds].sum()) for of in counts for kinds in (RATES[rate].counted, RATES[rate].hits)]

    def _alarm(self, moment: int, evidence: float) -> Alarm:
        """Return the alarm of the comparison with the most evidence, and restart all comparisons."""
        key = max(self.comparisons, key=lambda key: sum(self.comparisons[key].evidence))
        _, since, *inside = self.comparisons[key].stretch or [0, moment, 0, 0, 0, 0]
        before = [n - m for n, m in zip(self._sums(key), inside, strict=True)]
        rate, *groups = key.split()
        self.counts, self.comparisons = 0 * self.counts, {}
        return Alarm(rate, [*map(int, groups)], since, moment, inside, before, evidence)
