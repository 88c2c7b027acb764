"""Every pair of options that is not refused, simulated where both meet.

Options are those of `fwc_llm.metrics.sampling_design`, which refuses the pairs that are not here.
Groups are treated alike, two arms as well, so that every gap and difference is 0 in truth. An
answer is yes where a sum of independent normal parts is positive: of the row's features, its
stratum, its person, the row itself, the set of examples, and chance. People have rows of unequal
number; answers are lost so as to feign a gap. Until decided, the intervals of all ten looks must
hold at once.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from scipy.special import ndtr

from evals.coverage.readings import Reading
from evals.coverage.tally import Interval as Count
from evals.coverage.tally import Tally
from evals.coverage.verdicts import accepted
from evals.coverage.worlds import EXAMPLES as THESE
from evals.record import markdown
from fwc_llm.errors import FwcError
from fwc_llm.metrics.arm_comparison import compare
from fwc_llm.metrics.arm_estimates import ArmEstimates, conditional_parity
from fwc_llm.metrics.intervals import Interval
from fwc_llm.metrics.perturbation_effects import changes
from fwc_llm.metrics.prediction_powered import FeatureTable, assisted_answers
from fwc_llm.metrics.run_answers import ArmAnswers, RunAnswers, names_of, one_name
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
    SamplingDesign,
)
from fwc_llm.metrics.sequential import GroupSequential, equal_looks
from fwc_llm.runs.splits import interleave_cells, whole_people

GAP = "dp_gap"
_MEANS = -0.5, 0.6  # of the sum, of rows with label no and yes
_YES = 0.4  # share of the label yes
_PARTS = {
    "x": 0.35,
    "stratum": 0.15,
    "person": 0.2,
    "row": 0.1,
}  # variances; chance has the rest of 1
_SETS = 0.05  # and sets of examples this much of the rest, two fifths of it by group
_NUMBERS = pd.Index(list(map(str, range(2000))), dtype="str")
LOOKS = 200, 600, 1600  # runs after which a pair may be accepted
_LOST = 0.12  # of yes in one group, of no in the other


def _names(numbers: np.ndarray) -> "pd.Categorical[str]":
    return pd.Categorical.from_codes(numbers, _NUMBERS)


@dataclass(frozen=True)
class Pair:
    """Two options together; each row of the table is drawn anew in every run."""

    options: frozenset[str]

    @property
    def name(self) -> str:
        """Both options, in their order."""
        return " × ".join(name for name in OPTIONS if name in self.options)

    def draw(self, rng: np.random.Generator) -> tuple[RunAnswers, FeatureTable, float]:
        """Return a run of two arms, the table, and the arms' true accuracy."""
        on = self.options.__contains__
        size = 500 if on(REPEATS) else 1600
        person = np.arange(size)
        if on(PEOPLE):
            rows = np.maximum(1, rng.lognormal(1.0, 1.0, size).round()).astype(int)
            person = np.repeat(np.arange(size), rows)[:size]
        group = person % 2
        label = (rng.random(size) < _YES).astype(np.int8)
        x, stratum, of_row = rng.standard_normal((3, size))
        of_person = rng.standard_normal(size)[person]
        known = (x, stratum, of_person, of_row)
        mean = np.array(_MEANS)[label] + sum(
            np.sqrt(v) * part for v, part in zip(_PARTS.values(), known, strict=True)
        )
        repeats = 8 if on(EXAMPLES) else 4 if on(REPEATS) else 1
        asked = self._asked(rng, label, group, repeats)
        row = asked.ravel()
        repeat = np.repeat(np.arange(repeats), asked.shape[1])
        if on(UNTIL):
            row = row[whole_people(person[row], int(rng.integers(1_000_000)))]
            if on(BASE_PARITY):
                row = row[interleave_cells((2 * group + label)[row])]
            else:
                row = row
        rest = 1 - sum(_PARTS.values())
        weight = np.where(label, 3.0, 1.0) * rng.lognormal(0.0, 0.3, size)
        arms = {}
        for arm in ("first", "second"):
            sets = rng.standard_normal((2, repeats)) * on(EXAMPLES) * np.sqrt(_SETS)
            by_set = np.sqrt(0.6) * sets[0][repeat] + np.sqrt(0.4) * sets[1][repeat] * (
                2 * group[row] - 1
            )
            noise = np.sqrt(rest - _SETS * on(EXAMPLES)) * rng.standard_normal(len(row))
            answer = (mean[row] + by_set + noise > 0) * 1.0
            lost = on(UNREAD) & (answer == group[row]) & (rng.random(len(row)) < _LOST)
            numbered = _names(repeat)
            arms[arm] = ArmAnswers(
                repeat,
                _names(row),
                one_name("", len(row)),
                names_of(group[row], ["f", "m"]),
                label[row],
                np.where(lost, np.nan, answer),
                names_of(lost * 1, ["", "refused"]),
                np.full(len(row), np.nan),
                numbered if on(EXAMPLES) else one_name("", len(row)),
                weight[row] if on(WEIGHTS) else None,
                _names(person[row]) if on(PEOPLE) else None,
                names_of((ndtr(stratum[row]) * 6).astype(int), [*"abcdef"]) if on(STRATA) else None,
            )
        run = RunAnswers(arms, ("f", "m"), SamplingDesign(on(BASE_PARITY)))
        frame = pd.DataFrame({"x": x, "s": stratum})
        people = person if on(PEOPLE) else None
        table = FeatureTable(
            pd.RangeIndex(size).astype(str),
            np.array([*"fm"], object)[group],
            label * 1,
            frame,
            people,
        )
        yes = 0.5 if on(BASE_PARITY) else _YES
        if on(WEIGHTS):
            yes = 3 * yes / (1 + 2 * yes)
        else:
            yes = yes
        return run, table, float(yes * ndtr(_MEANS[1]) + (1 - yes) * ndtr(-_MEANS[0]))

    def _asked(
        self, rng: np.random.Generator, label: np.ndarray, group: np.ndarray, repeats: int
    ) -> np.ndarray:
        """The rows (R, n) of each repeat; only with repeats do rows come back."""
        n = 240 // min(repeats, 3)
        if BASE_PARITY in self.options:
            cells = [np.flatnonzero(2 * group + label == cell) for cell in range(4)]
        else:
            cells = [np.arange(len(label))]
        drawn = []
        for cell in cells:
            k = n // len(cells)
            if REPEATS in self.options:
                drawn.append(np.stack([rng.permutation(cell)[:k] for _ in range(repeats)]))
            else:
                drawn.append(rng.permutation(cell)[: k * repeats].reshape(repeats, k))
        return np.concatenate(drawn, axis=1)

    def intervals(self, rng: np.random.Generator) -> Iterator[tuple[str, Interval, float]]:
        """Yield each interval by which something is decided, and the truth; nothing where it is
        refused.
        """
        run, table, accuracy = self.draw(rng)
        held: dict[tuple[str, int], tuple[float, float, float]] = {}
        for looked in self._looks(run):
            seen = Counter[str]()
            for name, ends, truth in self._decided(looked, table, accuracy):
                low, high, _ = held.get((name, seen[name]), (-1.0, 1.0, truth))
                held[name, seen[name]] = max(low, ends[0]), min(high, ends[1]), truth
                seen[name] += 1
        for (name, _), (low, high, truth) in held.items():
            yield name, (low, high), truth

    def _looks(self, run: RunAnswers) -> Iterator[RunAnswers]:
        """The run, or the first arm's answers at each of ten looks, after whole people."""
        if UNTIL not in self.options:
            yield run
            return
        answers = run.answers["first"]
        ends = np.flatnonzero(np.diff(answers.unit.codes, append=-1)) + 1
        looks = tuple(ends[np.array(equal_looks(len(ends))) - 1].tolist())
        design = replace(run.design, sequential=GroupSequential(looks))
        for look in looks:
            yield replace(run, answers={"first": answers.where(np.arange(look))}, design=design)

    def _decided(
        self, run: RunAnswers, table: FeatureTable, accuracy: float
    ) -> Iterator[tuple[str, Interval, float]]:
        if ASSIST in self.options:
            try:
                run = assisted_answers(run, table)
            except FwcError:  # one in a thousand draws at random
                return
        first, *others = (ArmEstimates(sample) for sample in run.samples.values())
        yield "DP gap", first[GAP].decisive, 0.0
        yield "accuracy", first["accuracy"].decisive, accuracy
        if UNREAD not in self.options:
            yield from _rates(first, BASE_PARITY in self.options, WEIGHTS in self.options)
        if STRATA in self.options and (within := conditional_parity(first.sample, run.groups)):
            differs = str(within["verdict"]).startswith("differs")
            yield "DP gap within strata", (within["low"] if differs else 0.0, 1.0), 0.0
        for second in others:
            tests = compare(first, second)
            for metric, name in ((GAP, "DP gap, two arms"), ("accuracy", "accuracy, two arms")):
                yield name, tests[metric].decisive, 0.0
        if others and not self.options & {EXAMPLES, UNREAD, ASSIST}:
            one, other = run.answers.values()
            change = changes(one, other, one.unit.codes.astype(np.int64))["yes"]
            yield "change of yes, probe", (change["low"], change["high"]), 0.0


def _rates(
    first: ArmEstimates, parity: bool, weighted: bool
) -> Iterator[tuple[str, Interval, float]]:
    yes = 0.5 if parity else _YES
    if weighted:
        yes = 3 * yes / (1 + 2 * yes)
    else:
        yes = yes
    true = float(yes * ndtr(_MEANS[1]) + (1 - yes) * ndtr(_MEANS[0]))
    for rate in first.rates():
        yield "rate", (rate.low, rate.high), true


PAIRS = tuple(
    Pair(frozenset(pair)) for pair in combinations(OPTIONS, 2) if frozenset(pair) not in REFUSED
)


def measure_pair(pair: Pair, most: int, seed: int = 0) -> Tally:
    """Simulate a pair until all of its intervals are accepted at one of `LOOKS`, or for `most`
    runs.
    """
    rng = np.random.default_rng([seed, crc32(pair.name.encode())])
    found = Tally(0, {}, {})
    for runs in dict.fromkeys((*(look for look in LOOKS if look < most), most)):
        while found.runs < runs:
            for quantity, (low, high), truth in pair.intervals(rng):
                count = found.intervals.setdefault((quantity, "", THESE), Count())
                count.add(Reading(quantity, "", THESE, None, low, high, truth))
            found.runs += 1
        if all(accepted(count) for count in found.intervals.values()):
            break
    return found


def table_of_pairs(tallies: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of all options by all, with the least coverage of each pair."""
    lines = []
    for place, option in enumerate(OPTIONS[:-1]):
        cells = [""] * place
        for other in OPTIONS[place + 1 :]:
            one = tallies.get(Pair(frozenset({option, other})).name)
            if one:
                least = f"{min(i['covered'] / i['given'] for i in one['intervals']):.3f}"
            else:
                least = "–"
            cells.append("refused" if frozenset({option, other}) in REFUSED else least)
        lines.append([option, *cells])
    return markdown(["", *OPTIONS[1:]], lines)
