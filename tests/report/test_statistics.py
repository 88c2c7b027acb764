"""The statistics of a run: what its answers were made of comes out again, and oddities are said."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator

from fwc_llm import Result, audit, evaluate, load_task
from fwc_llm.metrics.counts import BY_KEY
from fwc_llm.metrics.records import ASSISTED, READINGS, Record
from fwc_llm.metrics.statistics import statistics
from fwc_llm.models.openai.prices import price_of
from fwc_llm.report.cost import cost
from fwc_llm.report.narrative import findings, missed
from fwc_llm.report.sections import first
from fwc_llm.report.table_model import Scale
from fwc_llm.runs.recorded_run import PREDICTIONS, read_run
from fwc_llm.tasks import Task
from tests.people import make_people, write_people
from tests.refusals import refused
from tests.report.conftest import MakeRun

# --- Where the charts' marks stand


def test_the_first_picture_has_each_group_at_its_rate(make_run: MakeRun) -> None:
    """Arms by their gap, the true answers last and beside every arm; gaps in points."""
    found = statistics(read_run(make_run(unparsed=0.0)).answered)
    table = first(found)
    assert table.rows[-1][0] == "true answers"
    assert found.lead == "label_gap"
    gaps = [BY_KEY[key].title for key in ("label_gap", "dp_gap")]
    assert table.headings == ["Asked", "Limits", "Yes, %", *gaps, "Accuracy %"]
    arms = [row[0].removesuffix("-shot") for row in table.rows]
    order = [found.of("label_gap", arm).value for arm in arms[:-1]]
    assert order == sorted(order)
    true = {group: rate.value for group, rate in found.rates("true answers").items()}
    for arm, row in zip(arms, table.rows, strict=True):
        for group, rate, right in row[2].dots:
            assert rate == found.of("selection_rate", arm, group).value
            assert right == (None if arm == "true answers" else true[group])
        assert row[3].text == f"{100 * found.of('label_gap', arm).value:.1f}"
        assert row[4].text == f"{100 * found.of('dp_gap', arm).value:.1f}"
    perfect = f"a gap of {100 * found.of('dp_gap', 'true answers').value:.1f} points"
    assert perfect in findings(found)[0]
    assert Scale(0.0, 0.5).at(2.0) == 100.0


def test_true_answers_are_of_the_rows_that_have_a_reply(rng: Generator) -> None:
    """In an interrupted run; a row that one arm answered counts, as in that arm."""
    n = 300
    frame = pd.DataFrame({"row": np.arange(n), "group": ["a", "b", "b"] * (n // 3)})
    frame["label"] = np.where(frame["row"] < 150, "yes", rng.choice(["no", "yes"], n))
    frame["answer"] = rng.choice(["no", "yes"], n)
    zero = frame.assign(arm="zero", reason=np.where(frame["row"] < 200, "", "error"))
    fwc = frame.assign(arm="fwc", reason=np.where(frame["row"] < 180, "", "error"))
    both = pd.concat([zero, fwc])
    both["answer"] = both["answer"].where(both["reason"] == "", "")
    replied = both[both["row"] < 200]
    found, own = audit(both).statistics, audit(replied).statistics
    for key in ("dp_gap", "accuracy"):
        assert found.of(key, "true answers").value == own.of(key, "true answers").value
    rates = {name: rate.value for name, rate in own.rates("true answers").items()}
    truth = frame[frame["row"] < 200].groupby("group")["label"]
    assert rates == pytest.approx(
        (truth.apply(lambda of: (of == "yes").mean())).to_dict()
    )
    assert {
        name: rate.value for name, rate in found.rates("true answers").items()
    } == rates


# --- What a run used and cost


def results(**changes: Any) -> dict[str, Any]:
    tokens = {
        "prompt_tokens": 1_000_000,
        "completion_tokens": 1_000,
        "cached_tokens": 0,
    }
    return {
        "model": "gpt-4o",
        "simulated": False,
        "requests": 5,
        "unanswered": 0,
        "usage": tokens,
        **changes,
    }


def test_dollars_are_tokens_times_prices() -> None:
    price = price_of("gpt-4o")
    found = cost(results(), {})
    assert found["dollars"] == pytest.approx(price.input + price.output / 1000)
    assert found["price_date"] == price.date


def test_a_simulation_and_an_unknown_model_have_no_dollars() -> None:
    assert "dollars" not in cost(results(simulated=True), {})
    assert "dollars" in cost(results(simulated=True, simulated_answers=False), {}), (
        "a real model, simulated rows"
    )
    assert "dollars" not in cost(results(model="my-model"), {})
    told = [cost(results(model=model), {})["words"] for model in ("my-model", "gpt-4")]
    assert all(words.startswith("used 1,000,000 prompt tokens") for words in told)
    assert [("$" in words) for words in told] == [False, True]


# --- What a design finds and misses


def answers(repeats: int) -> pd.DataFrame:
    """Rows of their own in every repeat; arms that differ on a fifth of them."""
    rng = np.random.default_rng(0)
    row = np.arange(200 * repeats)
    asked = pd.DataFrame(
        {"repeat": row // 200, "row": row, "group": np.array(["a", "b"])[row % 2]}
    )
    asked["label"], zero = rng.choice(["no", "yes"], (2, len(row)))
    fwc = np.where(
        rng.random(len(row)) < 0.2, np.where(zero == "yes", "no", "yes"), zero
    )
    examples = asked["repeat"].astype(str)
    arms = {"zero": zero, "fwc": fwc}.items()
    parts = [
        asked.assign(arm=arm, answer=said, examples=arm + examples)
        for arm, said in arms
    ]
    return pd.concat(parts, ignore_index=True)


def test_a_run_says_what_it_would_miss() -> None:
    found = audit(answers(1)).statistics
    of: Any = {"arm": "fwc", "against": "zero"}
    least = found.of("accuracy_difference_detectable", **of).value
    # A fifth of the answers differ.
    assert least == pytest.approx(2.8016 * np.sqrt(0.2 / 200), rel=0.15)
    gap = found.of("dp_gap_difference_detectable", **of).value
    alone = [found.of("dp_gap_detectable", arm).value for arm in ("zero", "fwc")]
    assert alone[0] == pytest.approx(2.8016 * 2 * np.sqrt(0.25 / 200), rel=0.1)
    *_, note = missed(found)
    told = f"With 200 rows a gap below {100 * max(alone):.1f} points may stay unseen"
    assert told in note
    told = (
        f"below {100 * gap:.1f} points of gap or {100 * least:.1f} points of accuracy"
    )
    assert f"between two ways of asking (these examples), a difference {told}." in note
    unread = answers(1)
    unread.loc[unread.index % 10 == 0, "answer"] = ""
    lost = audit(unread).statistics
    for metric, arm, against in (
        ("dp_gap", "zero", ""),
        ("dp_gap_difference", "fwc", "zero"),
    ):
        cells: Any = {"metric": metric, "arm": arm, "against": against}
        room = lost.of(**cells, scope=READINGS).high - lost.of(**cells).value
        cells["metric"] += "_detectable"
        assert room > 0.05
        assert lost.of(**cells).value > found.of(**cells).value + 0.9 * room


# --- Assisted values of a run


GAP = "dp_gap"


def run(task: Task, out: Path, **options: Any) -> Result:
    return evaluate(
        task, "baseline", ["zero"], out=out, n_test=80, base_parity=None, **options
    )


def gap(result: Result, scope: str | None = None) -> Record:
    return read_run(result.folder).statistics.records.find(GAP, "zero", scope=scope)


def test_predictions_are_made_when_asked_for_and_kept(two: Task, out: Path) -> None:
    result = run(two, out)
    assert not (result.folder / PREDICTIONS).is_file()
    result.assisted()
    beside = gap(result, ASSISTED)
    assert beside.n is not None
    assert beside.n > 80
    told = f"effective sample size about {float(f'{beside.n:.2g}'):,.0f}"
    assert any(told in note for note in read_run(result.folder).statistics.notes)
    assisted = result.assisted()
    assert assisted.statistics.assisted
    judged = assisted.records.of(GAP, "zero")
    assert (judged.value, *judged.ends) == (beside.value, *beside.ends)
    assert judged.high - judged.low < gap(result).high - gap(result).low


def test_assist_said_before_asking_is_in_verdicts_and_gates(
    two: Task, tmp_path: Path
) -> None:
    plain, assisted = (
        run(two, tmp_path / str(assist), assist=assist) for assist in (False, True)
    )
    narrow = plain.assisted().records.of(GAP, "zero")
    assert gap(assisted).value == narrow.value
    bound = (narrow.high + gap(plain).high) / 2
    assert assisted.check(f"dp_gap > {bound:.6f}").outcome == "within"
    assert plain.check(f"dp_gap > {bound:.6f}").outcome == "cannot say"


def test_predictions_of_other_answers_or_another_table_are_not_used(
    two: Task, tmp_path: Path
) -> None:
    result = run(two, tmp_path / "run")
    result.assisted()
    kept = result.folder / PREDICTIONS
    kept.write_text(kept.read_text().replace('"answers": "', '"answers": "x'))
    assert not gap(result, ASSISTED).known
    result.assisted()  # made again from the task's table
    assert gap(result, ASSISTED).known
    kept.write_text("{}")
    other = load_task(write_people(tmp_path / "other", make_people(240, 2, seed=9)))
    with refused("not the table"):
        Result(result.folder, result.data, other).assisted()
