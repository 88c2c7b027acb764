"""Simulated coverage of the tables of an audit: selection rates, impact ratios, precision, tests.

    python -m evals.coverage.impact            # records evals/results/impact.md
    python -m evals.coverage.impact --quick    # few runs; records nothing

Answers are drawn from the populations of `worlds`. Those of a design are read re-weighted to the
table, whose share of each group and label is given as known; the truth is weighted alike. The test
of two groups is tried where their true rates are equal.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np

from evals.coverage.populations import (
    ADULT_200,
    CROSSED,
    EDGE,
    MORE,
    RANDOM_200,
    RANDOM_UNEVEN,
    TENS,
    THREE,
    THREE_UNEVEN,
    TWO,
    UNBALANCED,
    UNREAD_BY_LABEL,
    Design,
)
from evals.coverage.readings import Reading, Verdict
from evals.coverage.tally import Interval, Tally, Verdicts
from evals.coverage.verdicts import faults
from evals.coverage.worlds import ARMS, EXAMPLES, Sample, World
from evals.frames import from_frame
from evals.record import RESULTS, command_line, markdown
from fwc_llm.metrics.adverse_impact import impact_tables

_NO_GAP = ((0.4, 0.4),) * 4
_RARE = ((0.01, 0.03),) * 4  # most runs select nobody of some group
_UNEQUAL = (
    (0.25, 0.7),
) * 2  # alike under each label, so that rates differ only by the groups' labels
_MARK = " at a true ratio of 1"


def worlds() -> Iterator[World]:
    """Every population of the record."""
    for design in (ADULT_200, TENS, UNBALANCED, RANDOM_200, RANDOM_UNEVEN):
        for name in ("equal arms", "no gap"):
            yield from _of(design, name, TWO[name])
        for name in ("rates near 0", "rates near 1"):
            yield design.world(name, EDGE[name], 1, correlation=1.0)
        yield design.world("the rarest rates", (_RARE[:2], _RARE[:2]), 1, correlation=1.0)
    for design in (THREE, THREE_UNEVEN, CROSSED):
        levels = len(design.table)
        for name, rates in {**MORE, "no gap": _NO_GAP, "the rarest rates": _RARE}.items():
            yield from _of(design, name, (rates[:levels], rates[:levels]))
    yield from _of(ADULT_200, "alike under each label", (_UNEQUAL, _UNEQUAL))
    unread = ADULT_200.world(
        "equal arms, unread by label", TWO["equal arms"], 1, parsed=UNREAD_BY_LABEL
    )
    yield unread
    yield replace(unread, name=unread.name.replace("R = 1", "R = 20"), repeats=20, correlation=0.5)


def _of(design: Design, name: str, pair: Any) -> Iterator[World]:
    yield design.world(name, pair, 1, correlation=1.0)
    yield design.world(name, pair, 20, correlation=1.0, group_shift=0.05)


def measure(world: World, runs: int, seed: int = 0) -> Tally:
    """Read the tables of so many runs; the same seed draws the same answers."""
    rng = np.random.default_rng([seed, crc32(world.name.encode())])
    found = Tally(runs, {}, {})
    for _ in range(runs):
        sample = world.draw(rng)
        for one in _read(sample):
            key = (one.quantity, "", one.of)
            if isinstance(one, Reading):
                found.intervals.setdefault(key, Interval()).add(one)
            else:
                found.tests.setdefault(key, Verdicts()).add(one)
    return found


def _read(sample: Sample) -> Iterator[Reading | Verdict]:
    designed = not isinstance(sample.world.rows, int)
    frame = sample.frame()
    design = "group and label" if designed else "group"
    answered = from_frame(
        frame[frame["arm"] == ARMS[0]], design, least_groups=1
    )  # chance may draw one
    cells = zip(sample.world.groups, sample.world.table, strict=True)
    counted = [{"group": group, "no": no, "yes": yes} for group, (no, yes) in cells]
    tables = impact_tables(answered, designed, counted)
    (view,) = tables["attributes"]
    (arm,) = view["arms"]
    true = _truths(sample, arm["of"])
    for name, group in arm["groups"].items():
        for kind, ends in _ENDS.items():
            limits = group[ends[0]], group[ends[1]]
            yield Reading(
                kind.replace("_", " "), name, arm["of"], group[kind], *limits, true[kind][name]
            )
        if group["p_value"] is not None and arm["reference"] != name:
            gap = true["selection_rate"][name] - true["selection_rate"][arm["reference"]]
            yield Verdict(
                "against the highest rate", name, arm["of"], group["p_adjusted"], gap, gap, False
            )
    for pair in arm["pairs"]:
        rates = [true["selection_rate"][pair[side]] for side in ("first", "second")]
        gap = rates[0] - rates[1]
        limits = pair["low"], pair["high"]
        yield Reading("difference of a pair", "", arm["of"], pair["difference"], *limits, gap)
        ratio = min(rates) / max(rates)
        if abs(gap) < 1e-12:
            mark = _MARK
        else:
            mark = ""
        folded = pair["ratio_low"], pair["ratio_high"]
        yield Reading(f"ratio of a pair{mark}", "", arm["of"], pair["ratio"], *folded, ratio)
        excluded = pair["low"] > 1e-9 or pair["high"] < -1e-9
        wrong = excluded != pair["significant"]
        yield Verdict("pair", "", arm["of"], pair["p_value"], pair["difference"], gap, wrong)


_ENDS = {
    "selection_rate": ("low", "high"),
    "impact_ratio": ("impact_ratio_low", "impact_ratio_high"),
    "true_positive_rate": ("true_positive_rate_low", "true_positive_rate_high"),
    "false_positive_rate": ("false_positive_rate_low", "false_positive_rate_high"),
    "precision": ("precision_low", "precision_high"),
}


def _truths(sample: Sample, of: str) -> dict[str, dict[str, float]]:
    """The truth of every group under the table's own mix of labels, or of the labels that are
    read.
    """
    found = sample.truths[of if of in sample.truths else EXAMPLES][0]
    kinds = ("false_positive_rate", "true_positive_rate")
    mix = np.asarray(sample.world.table, float)
    if isinstance(sample.world.rows, int):
        mix = mix * sample.world.read
    rates: dict[str, dict[str, float]] = {name: {} for name in _ENDS}
    for group, (no, yes) in zip(sample.world.groups, mix.tolist(), strict=True):
        false, true = (found[f"{kind} of {group}"] for kind in kinds)
        rates["selection_rate"][group] = (no * false + yes * true) / (no + yes)
        rates["precision"][group] = yes * true / (yes * true + no * false)
        rates["false_positive_rate"][group], rates["true_positive_rate"][group] = false, true
    top = max(rates["selection_rate"].values())
    rates["impact_ratio"] = {group: rate / top for group, rate in rates["selection_rate"].items()}
    return rates


def as_markdown(about: str, tallies: Mapping[str, Tally]) -> str:
    """The record: every quantity with its mean and least coverage, every test with its type-I
    error.
    """
    wrong = [
        f"* {name}: {'; '.join(found)}"
        for name, one in tallies.items()
        if (found := faults(one, strict=False))
    ]
    runs = sum(one.runs for one in tallies.values())
    intervals = [
        _interval_line(key, {name: one.intervals.get(key) for name, one in tallies.items()})
        for key in sorted({key for one in tallies.values() for key in one.intervals})
    ]
    tests = []
    for key in sorted({key for one in tallies.values() for key in one.tests}):
        found_tests = {name: one.tests[key] for name, one in tallies.items() if key in one.tests}
        known = {name: one for name, one in found_tests.items() if one.null}
        if known:
            tests.append(_test_line(key, known))
    if not wrong:
        accepted = "**Everything is accepted.**"
    else:
        accepted = "\n".join(["Not accepted:", "", *wrong])
    head = ["interval", "of", "mean coverage", "least", "where", "values outside", "not given"]
    return f"""# The tables of an audit

{about}

{len(tallies)} populations, {runs:,} runs. {_KEY}

{accepted}

{markdown(head, intervals)}
{markdown(["test, true rates equal", "of", "tests", "type-I error", "worst", "where"], tests)}"""


_KEY = (
    "Accepted are a coverage from 0.93 on (nominal 0.95) and a type-I error up to 0.06 (nominal "
    "0.05), two "
    "standard errors of the simulation aside, no value outside its own interval, and no test that "
    "says otherwise than the interval beside it. A ratio is not given where no group has a yes, a "
    "precision "
    "where its group has none. Tests of a pair are before the correction for several pairs, those "
    "against "
    "the highest rate after it."
)


def _interval_line(key: tuple[str, str, str], found: Mapping[str, Interval | None]) -> list[Any]:
    known = {name: one for name, one in found.items() if one is not None and one.given}
    shares = {name: one.covered / one.given for name, one in known.items()}
    if not shares:
        return [key[0], key[2], "–", "–", "", 0, "100%"]
    least = min(shares, key=lambda name: shares[name])
    outside = sum(one.outside for one in known.values())
    absent = sum(one.absent for one in found.values() if one is not None)
    missing = absent / (absent + sum(one.given for one in known.values()))
    mean = sum(shares.values()) / len(shares)
    return [key[0], key[2], f"{mean:.3f}", f"{shares[least]:.3f}", least, outside, f"{missing:.1%}"]


def _test_line(key: tuple[str, str, str], found: Mapping[str, Verdicts]) -> list[str]:
    shares = {name: one.null_rejected / one.null for name, one in found.items()}
    worst = max(shares, key=lambda name: shares[name])
    number = sum(one.null for one in found.values())
    rejected = sum(one.null_rejected for one in found.values()) / number
    return [key[0], key[2], f"{number:,}", f"{rejected:.3f}", f"{shares[worst]:.3f}", worst]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 when an interval or a test is not accepted."""
    parser = command_line(__doc__)
    parser.add_argument("--runs", type=int, default=400, help="runs a population")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="30 runs of each; records nothing")
    parser.add_argument(
        "--only", default="", help="populations whose name holds this text; records nothing"
    )
    given = parser.parse_args(arguments)
    if given.quick:
        runs = 30
    else:
        runs = given.runs
    chosen = [world for world in worlds() if given.only in world.name]
    tallies = {world.name: measure(world, runs, given.seed) for world in chosen}
    about = f"Made by `python -m evals.coverage.impact --runs {runs}`, seed {given.seed}."
    page = as_markdown(about, tallies)
    if not (given.quick or given.only):
        (RESULTS / "impact.md").write_text(page, encoding="utf-8")
    print(page)
    if any(faults(one, strict=False) for one in tallies.values()):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
