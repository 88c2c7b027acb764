"""E-detectors: find a change that a running mean hides, with a stated rate of false alarms.

Of two groups a *block* is a run of decisions of one, ended by the first decision of the other. The difference
D of its two rates, less the bound, lies in [−2, 1] and is at most 0 on average while the condition does not
hold: a bet 1 + λ D gains nothing. The evidence M ← (M + 1)(1 + λ D) sums such bets over all times at which a
change may have begun (Shiryaev 1963; Roberts 1966). An alarm is logged where M, averaged over λ, pairs of
groups and rates, reaches N; then M restarts at 0. M plus N for each alarm grows by at most 1 a decision on
average, so that false alarms are at most one in N decisions (Shin, Ramdas & Rinaldo 2024, *E-detectors*).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.gates.condition import KEY_OF, GateCondition
from fwc_llm.metrics.counts import BY_KEY, RATES, Codes, Floats, Metric

_BETS = np.array([0.05, 0.1, 0.2, 0.4])  # λ
_DATING = 0.4  # the λ by which the beginning of a change is dated
_LARGEST = 40.0  # logarithm of evidence above which it is cut
_CHUNKS = 4096, 1 << 18  # decisions at once: after an alarm, and at most


def check_watched(condition: GateCondition, labelled: bool = True) -> None:
    """Refuse conditions without a detector: on arms, on metrics that are not counted from decisions, on too
    little harm, and on metrics that need labels where there are none.
    """
    metric = BY_KEY[KEY_OF[condition.metric]]
    worse = ">" if metric.kind == "gap" else "<"
    if condition.arm is not None or set(metric.rates) - set(RATES):
        raise FwcError(f'"{condition.text}" cannot be monitored: name one metric of decisions, without [...]')
    if not labelled and set(metric.rates) - {"rate", "coverage"}:
        raise FwcError(f'"{condition.text}" needs true outcomes: name their column with --label')
    if condition.operator[0] != worse:
        raise FwcError(f'"{condition.text}" cannot be monitored: {condition.metric} is watched with {worse}')


class Alarm(NamedTuple):
    """Decisions `since` to `until`, numbered from 1, in which a rate of two `groups` was beyond the bound.

    `inside` and `before` it are the decisions and hits of the group with the higher rate and of the other.
    """

    rate: str
    groups: list[int]
    since: int
    until: int
    inside: list[float]
    before: list[float]
    evidence: float


@dataclass
class _Comparison:
    """The evidence of one rate of two groups in K directions: the logarithms of M (K, λ).

    `waiting` is the last run: its side (0 or 1), decisions, hits and first decision. `stretch` (K, 6) dates a
    change (CUSUM): the logarithm of what bets gained since, the first decision, and the sums of its blocks.
    """

    logs: list[list[float]]
    waiting: list[float] = field(default_factory=list)
    stretch: list[list[float]] = field(default_factory=list)


class _Blocks(NamedTuple):
    """B blocks: `first` decision, position of the `last` one, n and hits of both groups (`sums` (B, 4))."""

    first: Codes
    last: Codes
    sums: Floats
    waiting: list[float]


class _Step(NamedTuple):
    """A comparison with new blocks; logarithms of M (K, λ, B + 1), levels of the CUSUM (K, B + 1)."""

    old: _Comparison
    blocks: _Blocks
    logs: Floats
    levels: Floats

    def stretch(self, direction: int, end: int) -> list[float]:
        """Return the stretch in which a change would lie after the first `end` blocks."""
        levels, sums = self.levels[direction], self.blocks.sums
        start = max(0, end - 1 - int(np.argmin(levels[:end][::-1]))) if end else 0
        if levels[start] > 0 or not end:  # it began before these blocks
            _, onset, *inside = self.old.stretch[direction]
            return [float(levels[end]), onset, *(inside + sums[:end].sum(0)).tolist()]
        rise = max(0.0, float(levels[end] - levels[start]))
        return [rise, int(self.blocks.first[start]), *sums[start:end].sum(0).tolist()]

    def carried(self) -> _Comparison:
        """Return the comparison after all blocks."""
        end, waiting = len(self.blocks.last), self.blocks.waiting
        if not end:
            return replace(self.old, waiting=waiting)
        stretch = [self.stretch(direction, end) for direction in range(len(self.levels))]
        return _Comparison(self.logs[..., -1].tolist(), waiting, stretch)


@dataclass
class Detector:
    """The evidence against a condition, and counts (G, 2, 3), since the last alarm.

    Both are the same however the decisions are cut into calls.

    `decisions` were seen in all; `firsts` are the first ones since the alarm, by rate and group.
    """

    condition: GateCondition
    counts: Codes
    decisions: int
    comparisons: dict[str, _Comparison] = field(default_factory=dict)
    firsts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, condition: GateCondition, saved: Mapping[str, Any]) -> "Detector":
        """Return the detector of which `saved` is what `to_dict` returned."""
        comparisons = {key: _Comparison(*values) for key, values in saved["comparisons"].items()}
        counts = np.array(saved["counts"], np.int64).reshape(-1, 2, 3)
        return cls(condition, counts, saved["decisions"], comparisons, dict(saved["firsts"]))

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the condition, for JSON."""
        comparisons = {key: [*vars(comparison).values()] for key, comparison in self.comparisons.items()}
        return {
            "counts": self.counts.tolist(), "decisions": self.decisions, "comparisons": comparisons,
            "firsts": self.firsts,
        }  # fmt: skip

    @property
    def metric(self) -> Metric:
        """The condition's metric."""
        return BY_KEY[KEY_OF[self.condition.metric]]

    @property
    def evidence(self) -> float:
        """M, the mean over all that has a block."""
        logs = np.array([comparison.logs for comparison in self.comparisons.values()])
        return float(np.exp(np.minimum(logs, _LARGEST)).sum() / max(1, np.isfinite(logs).sum()))

    def watch(self, cell: Codes, limit: float) -> Iterator[Alarm]:
        """Add decisions (n,) in their order, and yield an alarm where the evidence reaches `limit`.

        A cell is 6 · group + 3 · label + answer (0, 1, or 2 for unparsed); numbers of groups must not change.
        """
        start, size = 0, _CHUNKS[0]
        while start < len(cell):
            alarm, taken = self._add(cell[start : start + size], limit)
            start, size = start + taken, _CHUNKS[0] if alarm else min(2 * size, _CHUNKS[1])
            if alarm:
                yield alarm

    def _add(self, cell: Codes, limit: float) -> tuple[Alarm | None, int]:
        """Add decisions up to the first alarm; return it, and how many were added."""
        steps = dict(self._steps(cell))
        total = np.zeros((2, len(cell)))
        for step in steps.values():
            sums = np.stack([np.exp(np.minimum(step.logs, _LARGEST)), np.isfinite(step.logs)]).sum((1, 2))
            total[:, 0] += sums[:, 0]
            total[:, step.blocks.last] += np.diff(sums)
        evidence, compared = total.cumsum(1)
        mean = evidence / np.maximum(compared, 1)
        over = np.flatnonzero(mean >= limit)
        taken = int(over[0]) + 1 if len(over) else len(cell)
        size = 6 * max(len(self.counts), 1 + int(cell.max()) // 6)
        counts = np.bincount(cell[:taken], minlength=size).reshape(-1, 2, 3)
        counts[: len(self.counts)] += self.counts
        self.decisions += taken
        if not len(over):
            self.counts, self.comparisons = counts, {key: step.carried() for key, step in steps.items()}
            return None, taken
        self.counts, self.comparisons, self.firsts = counts[:0], {}, {}
        return self._alarm(steps, taken - 1, counts, float(mean[taken - 1])), taken

    def _steps(self, cell: Codes) -> Iterator[tuple[str, _Step]]:
        """Yield each comparison's key and what new decisions add to it."""
        group, kind = cell // 6, cell % 6
        number = self.decisions + 1 + np.arange(len(cell))
        for rate in self.metric.rates:
            counted, of_hits = RATES[rate].counted, RATES[rate].hits
            rows = np.flatnonzero(counted.ravel()[kind])
            hits, member = of_hits.ravel()[kind[rows]].astype(np.float64), group[rows]
            if self.metric.kind == "share":
                sums = np.stack([np.ones(len(rows)), hits, *np.zeros((2, len(rows)))], axis=1)
                yield rate, self._step(rate, _Blocks(number[rows], rows, sums, []))
                continue
            known = {g for g in range(len(self.counts)) if f"{rate} {g}" in self.firsts}
            new, places = np.unique(member, return_index=True)
            for g, place in zip(new.tolist(), places, strict=True):
                self.firsts.setdefault(f"{rate} {g}", int(number[rows[place]]))
            for pair in combinations(sorted(known | set(new.tolist())), 2):
                key, waiting = f"{rate} {pair[0]} {pair[1]}", list[float]()
                if key in self.comparisons:
                    waiting = self.comparisons[key].waiting
                elif alone := known.intersection(pair):  # all its decisions have waited for the other group
                    g = alone.pop()
                    seen = float(self.counts[g][counted].sum()), float(self.counts[g][of_hits].sum())
                    waiting = [pair.index(g), *seen, self.firsts[f"{rate} {g}"]]
                both = np.flatnonzero((member == pair[0]) | (member == pair[1]))
                side = (member[both] == pair[1]).astype(np.int64)
                blocks = _blocks(side, hits[both], rows[both], number[rows[both]], waiting)
                yield key, self._step(key, blocks)

    def _step(self, key: str, blocks: _Blocks) -> _Step:
        bound, (n, hits, other_n, other_hits) = self.condition.bound, blocks.sums.T
        if self.metric.kind == "share":
            differences = (bound - hits)[None]
        else:
            first, second, gap = hits / n, other_hits / other_n, self.metric.kind == "gap"
            directions = (first, second), (second, first)
            differences = np.stack(
                [high - low - bound if gap else bound * high - low for high, low in directions]
            )
        gains = np.log1p(_BETS[:, None] * differences[:, None]).cumsum(-1)
        gains = np.pad(gains, ((0, 0), (0, 0), (1, 0)))
        old = self.comparisons.get(key) or _Comparison(np.full(gains.shape[:2], -np.inf).tolist())
        bets = np.concatenate([np.array(old.logs)[..., None], -gains[..., :-1]], axis=-1)
        rises = [stretch[0] for stretch in old.stretch] or [0.0] * len(differences)
        levels = np.array(rises)[:, None] + gains[:, _BETS == _DATING][:, 0]
        return _Step(old, blocks, gains + np.logaddexp.accumulate(bets, axis=-1), levels)

    def _alarm(self, steps: Mapping[str, _Step], place: int, counts: Codes, evidence: float) -> Alarm:
        """The alarm at a place: of the comparison and direction with most evidence there."""
        ends = {key: int(np.searchsorted(step.blocks.last, place, "right")) for key, step in steps.items()}
        of_direction = [
            (float(log), key, direction)
            for key, step in steps.items()
            for direction, log in enumerate(np.logaddexp.reduce(step.logs[..., ends[key]], axis=-1))
        ]
        _, key, direction = max(of_direction)
        _, onset, *inside = steps[key].stretch(direction, ends[key])
        rate, *codes = key.split()
        groups = [int(code) for code in codes]
        of_groups = [counts[group] for group in groups] or [counts.sum(0)]
        sums = [of[kinds].sum() for of in of_groups for kinds in (RATES[rate].counted, RATES[rate].hits)]
        before = (np.pad(sums, (0, 4 - len(sums))) - inside).tolist()
        if direction:  # the second group has the higher rate
            groups, inside, before = groups[::-1], [*inside[2:], *inside[:2]], [*before[2:], *before[:2]]
        return Alarm(rate, groups, int(onset), self.decisions, inside, before, evidence)


def _blocks(side: Codes, hits: Floats, place: Codes, number: Codes, waiting: list[float]) -> _Blocks:
    """Return the blocks of decisions (n,) of two groups, `side` 0 and 1, after a waiting run."""
    n = np.ones(len(side))
    if waiting:
        columns = zip(waiting, (side, n, hits, number), strict=True)
        side, n, hits, number = (np.concatenate([[value], column]) for value, column in columns)
        place = np.concatenate([[-1], place])
    runs = np.concatenate([[0], np.flatnonzero(np.diff(side)) + 1])
    index, length = np.arange(len(runs)), np.diff(runs, append=len(side))
    # The first row of a run ends the block before, unless that row was the run before: then it alternates.
    after_long = np.maximum.accumulate(np.where(length[:-1] >= 2, index[1:], 1))
    taken = (index - np.concatenate([[1], after_long])) % 2 == 0
    begins, opens = runs + taken, length > taken
    begin, end = begins[:-1][opens[:-1]], runs[1:][opens[:-1]]
    rows, found = (np.concatenate([[0.0], values.cumsum()]) for values in (n, hits))
    run = np.stack([rows[end] - rows[begin], found[end] - found[begin]], axis=1)
    last = np.stack([n[end], hits[end]], axis=1)
    sums = np.where(side[begin, None] == 0, np.hstack([run, last]), np.hstack([last, run]))
    rest = list[float]()
    if opens[-1]:
        at = begins[-1]
        rest = [float(side[at]), float(rows[-1] - rows[at]), float(found[-1] - found[at]), float(number[at])]
    return _Blocks(number[begin], place[end], sums, rest)
