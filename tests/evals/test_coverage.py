"""The simulation harness: its worlds are what they say, it sees what is wrong, and the audit
passes it.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from evals.coverage.__main__ import RUNS, main, run
from evals.coverage.pairs import LOOKS, PAIRS, Pair, measure_pair
from evals.coverage.populations import ADULT_200, TWO, quick_populations
from evals.coverage.readings import Reading, Verdict
from evals.coverage.tally import Interval, Tally, Verdicts, measure
from evals.coverage.verdicts import accepted, faults
from evals.coverage.worlds import EXAMPLES, STRATEGY, World, truth
from fwc_llm.metrics.sampling_design import OPTIONS, REFUSED

EQUAL = TWO["equal arms"]


@pytest.mark.slow
@pytest.mark.parametrize("world", quick_populations(), ids=lambda world: world.name)
def test_the_short_version_is_accepted(world: World) -> None:
    """Statistics that count a row anew in every repeat fail on most of these populations."""
    tally = measure(world, runs=80)
    assert not faults(tally, strict=False)
    assert min(one.given for one in tally.intervals.values()) > 0


def test_a_true_coverage_of_091_is_found_out_nine_times_in_ten() -> None:
    rng = np.random.default_rng(0)
    accepting = {}
    for looks in ((RUNS,), LOOKS):
        for true in (0.91, 0.95):
            steps = rng.binomial(np.diff(looks, prepend=0), true, (4000, len(looks))).cumsum(1)
            looked = (zip(looks, run, strict=True) for run in steps)
            some = [any(accepted(Interval(n, covered=k)) for n, k in look) for look in looked]
            accepting[looks, true] = np.mean(some)
    assert max(accepting[looks, 0.91] for looks in ((RUNS,), LOOKS)) <= 0.1
    assert min(accepting[looks, 0.95] for looks in ((RUNS,), LOOKS)) > 0.99


def test_every_pair_of_options_is_simulated_or_refused() -> None:
    assert len(PAIRS) + len(REFUSED) == len(OPTIONS) * (len(OPTIONS) - 1) / 2


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_short_version_of_a_pair_is_accepted(pair: Pair) -> None:
    assert not faults(measure_pair(pair, 60), strict=False)


def test_sets_of_examples_move_the_truth_of_these_examples_alone() -> None:
    world = ADULT_200.world("equal arms", EQUAL, 5, group_shift=0.1)
    gaps = [
        [
            sample.truths[of][0]["rate of B"] - sample.truths[of][0]["rate of A"]
            for of in (EXAMPLES, STRATEGY)
        ]
        for sample in map(world.draw, np.random.default_rng(0).spawn(400))
    ]
    assert np.std([one for one, _ in gaps]) == pytest.approx(0.1 * np.sqrt(2 / 5), rel=0.1)
    assert np.ptp([of_all for _, of_all in gaps]) < 1e-12
    assert np.mean([one - of_all for one, of_all in gaps]) == pytest.approx(0, abs=0.01)


def test_the_truth_of_a_population_by_hand() -> None:
    yes = np.array([[0.2, 0.6], [0.1, 0.9]])
    weights = np.array([[0.3, 0.1], [0.2, 0.4]])
    found = truth(yes, weights, np.array([[1.0, 0.5], [1.0, 1.0]]), ["a", "b"])
    assert found["accuracy"] == pytest.approx(
        (0.3 * 0.8 + 0.05 * 0.6 + 0.2 * 0.9 + 0.4 * 0.9) / 0.95
    )
    assert found["rate of a"] == pytest.approx((0.3 * 0.2 + 0.05 * 0.6) / 0.35)
    assert found["rate of b"] == pytest.approx((0.02 + 0.36) / 0.6)
    assert found["dp_gap"] == pytest.approx(found["rate of b"] - found["rate of a"])
    assert found["dp_ratio"] == pytest.approx(found["rate of a"] / found["rate of b"])
    assert found["eo_gap"] == pytest.approx(0.3)
    assert found["coverage of a"] == pytest.approx(0.35 / 0.4)


def test_misses_of_every_kind_are_faults() -> None:
    interval = Interval()
    test = Verdicts()
    for place in range(400):
        value = 0.5 if place else 0.9
        interval.add(
            Reading("accuracy", "first", EXAMPLES, value, 0.4, 0.6, 0.5 if place % 10 else 0.3)
        )
        p = 0.5 if place % 10 else 0.01
        test.add(Verdict("gap", "", EXAMPLES, p, 0.1, 0.0, contradicts=place == 7))
    test.add(Verdict("gap", "", EXAMPLES, None, 0.1, 0.0, contradicts=False))
    interval.add(Reading("accuracy", "first", EXAMPLES, None, None, None, 0.5))
    key = ("it", "here", EXAMPLES)
    found = faults(Tally(400, {key: interval}, {key: test}))
    assert found == [
        "it, here, these examples: covers 0.900 of 400",
        "it, here, these examples: 1 of 400 values lie outside their own interval",
        "it, here, these examples: rejects 0.100 of 400 true nulls",
        "it, here, these examples: 1 tests contradict what is printed beside them",
    ]
    assert (interval.absent, test.absent) == (1, 1)


def test_the_command_records_what_it_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(
        [
            "--quick",
            "--runs",
            "10",
            "--only",
            "groups of 10",
            "--out",
            str(tmp_path),
            "--processes",
            "1",
        ]
    )
    record = json.loads((tmp_path / "coverage.json").read_text())
    assert record["command"].startswith("python -m evals.coverage --quick --runs 10")
    assert [one["name"] for one in record["populations"]] == ["groups of 10, rates near 0, R = 1"]
    page = (tmp_path / "coverage.md").read_text()
    assert (
        page.strip() == capsys.readouterr().out.strip()
    )  # the bar leaves lines, by the version of rich
    assert "nan" not in page


def test_parts_that_are_kept_are_not_measured_again(tmp_path: Path) -> None:
    (world,) = [one for one in quick_populations() if "groups of 10" in one.name]
    kept = tmp_path / "parts.jsonl"
    whole = run([world], 60)
    first = run([world], 50, kept=kept)
    assert (first[world.name].runs, len(kept.read_text().splitlines())) == (50, 1)
    kept.write_text(kept.read_text().replace('"covered": 4', '"covered": 104', 1))
    again = run([world], 60, kept=kept)[world.name]
    more = sum(one.covered for one in again.intervals.values())
    assert more == sum(one.covered for one in whole[world.name].intervals.values()) + 1000
