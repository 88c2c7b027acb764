"""`until_decided`: asking stops when all is decided, and what is said then holds at every look."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fwc_llm import Client, FwcError, Result, Settings, evaluate
from fwc_llm.metrics.arm_estimates import estimate
from fwc_llm.metrics.confidence_sequences import ConfidenceSequence, simulate
from fwc_llm.metrics.statistics import statistics
from fwc_llm.report.verification import verify
from fwc_llm.runs.recorded_run import read_run
from fwc_llm.runs.splits import interleave_cells
from tests.command import Run
from tests.faults.loopback import HttpReply, HttpRequest, completion, refusal, serve_in_thread

GAP = "demographic_parity_difference"
OPTIONS: dict[str, Any] = {"arms": ["zero", "balanced"], "m": 4, "n_test": 400}
OPTIONS["until_decided"] = ("dp > 0.1",)


def unequal(messages: Any) -> str:
    return "yes" if "Female" in messages[-1]["content"] else "no"


def alike(request: HttpRequest) -> HttpReply:
    """Both groups are told the same: it takes hundreds of rows."""
    return HttpReply(completion("yes" if "Private" in request.json()["messages"][-1]["content"] else "no"))


def rows_of(folder: Path, file: str) -> list[str]:
    lines = map(json.loads, (folder / file).read_text().splitlines()[1:])
    return [line["row"] if file == "journal.jsonl" else line[2] for line in lines]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return evaluate("census", unequal, out=tmp_path_factory.mktemp("until") / "run", **OPTIONS)


def test_asking_stops_and_everything_is_of_the_rows_that_were_asked(stopped: Result, tmp_path: Path) -> None:
    rows = stopped.data["until_decided"]["rows"]
    assert 60 <= rows < 150
    assert (stopped.data["requests"], stopped.unanswered) == (2 * rows, 0)
    whole = evaluate("census", unequal, out=tmp_path / "whole", **OPTIONS | {"until_decided": ()})
    order = list(dict.fromkeys(rows_of(whole.folder, "questions.jsonl")))
    assert set(rows_of(stopped.folder, "journal.jsonl")) == set(order[:rows])  # a beginning of what was drawn
    content = verify(stopped.folder)
    assert (content["differs"], content["not_verified"]) == (0, 0), content
    described = statistics(read_run(stopped.folder).answered)
    assert f"Asked until decided: {rows} of at most 400 rows, {400 - rows} questions" in described["notes"][0]
    assert described["comparisons"][0][GAP]["p_value"] is None
    assert "a fixed number of rows does not hold" in described["comparisons"][0]["reason"]
    sample = read_run(stopped.folder).answered.samples["zero"]
    gap, fixed = estimate(sample)[GAP], estimate(read_run(whole.folder).answered.samples["zero"])[GAP]
    assert gap.high - gap.low > 1.3 * (fixed.high - fixed.low)
    assert (gap.p_value < 0.05) == (gap.low > 0)


def test_a_run_goes_on_and_ends_where_it_would_have_ended(stopped: Result, tmp_path: Path) -> None:
    asked: list[int] = []

    def service(request: HttpRequest) -> HttpReply:
        asked.append(1)
        if len(asked) == 90:
            return refusal(401, "No such key")
        return HttpReply(completion(unequal(request.json()["messages"])))

    with serve_in_thread(service) as url:
        client = Client(base_url=f"{url}/v1", concurrency=3)
        with pytest.raises(FwcError, match="No such key"):
            evaluate("census", "test-model", out=tmp_path / "run", client=client, **OPTIONS)
        again = evaluate("census", "test-model", out=tmp_path / "run", client=client, **OPTIONS)
    assert again.data["until_decided"] == stopped.data["until_decided"]
    assert len(asked) == again.data["requests"] + 1  # nothing was asked twice
    assert [arm["rates"] for arm in again.data["arms"]] == [arm["rates"] for arm in stopped.data["arms"]]


def test_a_limit_of_cost_ends_it_at_a_look_that_is_whole(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('source = "x"\ndate = 2026-11-01\n[models."my-model"]\ninput = 10.0\noutput = 10.0\n')
    with serve_in_thread(alike) as url:
        client = Client(base_url=f"{url}/v1", prices=prices, concurrency=1)
        few, some = (
            evaluate("census", "my-model", out=tmp_path / str(c), client=client, max_cost=c, **OPTIONS)
            for c in (0.05, 0.25)
        )
    assert "--max-cost" in few.data["stopped"]  # before the first look
    assert (some.data["stopped"], some.unanswered) == (None, 0)
    assert "--max-cost" in some.data["until_decided"]["ended"]
    note = statistics(read_run(some.folder).answered)["notes"][0]
    assert "--max-cost" in note
    assert "saved" not in note
    assert 60 <= some.data["until_decided"]["rows"] < 400
    assert len(rows_of(some.folder, "journal.jsonl")) > some.data["requests"]  # what is under way is kept


def test_a_row_that_is_always_refused_counts_as_unparsed_and_asking_goes_on(tmp_path: Path) -> None:
    refused: list[str] = []

    def service(request: HttpRequest) -> HttpReply:
        text = request.json()["messages"][-1]["content"]
        refused.append(text) if not refused else None
        return refusal(400, "filtered") if text == refused[0] else alike(request)

    with serve_in_thread(service) as url:
        client = Client(base_url=f"{url}/v1", concurrency=1)
        options = OPTIONS | {"arms": ["zero"], "n_test": 160}
        found = [evaluate("census", "m", out=tmp_path, client=client, **options) for _ in range(2)]
    assert [result.unanswered for result in found] == [1, 1]
    assert found[0].data["until_decided"] == found[1].data["until_decided"]
    assert found[0].data["until_decided"]["rows"] == 160  # beyond the first look


def test_other_commands_withhold_what_a_fixed_number_of_rows_would_give(fwc: Run, stopped: Result) -> None:
    change = stopped.compare(stopped.folder)["arms"][0]
    assert "fixed number of rows does not hold" in change["reason"]
    assert change[GAP]["p_value"] is change[GAP]["low"] is None
    assert "asked until it was decided" in fwc("power", "--task", "census", "--run", stopped.folder).line
    assert "of the population, at every look" in stopped.check("dp[zero] > 0.1").reason
    with pytest.raises(FwcError, match="names the arm 'other'"):  # before anything is asked
        evaluate("census", unequal, **OPTIONS | {"until_decided": "dp[other] > 0.1"})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"until_decided": ("dp[a] - dp[b] > 0",)}, "differences between arms"),
        ({"until_decided": ("auc > 0.1",)}, "no intervals for auc"),
        ({"until_decided": ("dp >",)}, "cannot read the condition"),
        ({"repeats": 2}, "does not go with repeats"), ({"counterfactual": True}, "go with counterfactual"),
    ],
)  # fmt: skip
def test_what_no_sequence_exists_for_is_refused_by_name(options: dict[str, Any], why: str) -> None:
    with pytest.raises(FwcError, match=why):
        Settings(**{"until_decided": ("dp > 0.1",), **options})


def test_the_command_says_what_it_saved_and_what_to_expect(fwc: Run, tmp_path: Path) -> None:
    asked = ("eval", "--task", "census", "--model", "surrogate", "--shots", "zero", "--until-decided")
    result = fwc(*asked, "--n-test", 600, "--out", tmp_path / "run", code=0)
    assert re.search(r"Asked until decided: \d+ of at most 600 rows", " ".join(result.out.split()))
    fwc("eval", tmp_path / "run" / "experiment.toml", "--out", tmp_path / "b", code=0)
    assert (tmp_path / "b" / "answers.csv").read_text() == (tmp_path / "run" / "answers.csv").read_text()
    for command in (("power",), ("eval", "--until-decided", "--dry-run")):
        output = fwc(*command, "--fail-if", "dp > 0.1", "--task", "census").out
        assert "until dp > 0.1 is decided, at most 2,000 rows (simulated" in " ".join(output.split())


def test_every_beginning_of_the_order_has_the_same_shares() -> None:
    cells = np.random.default_rng(0).permutation(np.repeat([0, 1, 2, 3], [15, 45, 45, 15]))
    for n in (16, 40, 80):
        share = np.bincount(cells[interleave_cells(cells)][:n], minlength=4) / n
        np.testing.assert_allclose(share, [0.125, 0.375, 0.375, 0.125], atol=1.01 / n)


@pytest.mark.parametrize("rates", [[0.45, 0.55], [0.02, 0.12], [0.5, 0.6, 0.5, 0.5]])
def test_wrong_verdicts_at_the_bound_are_rare_at_all_looks_together(rates: list[float]) -> None:
    _, failed = simulate(rates, [1.0] * len(rates), 0.1, ConfidenceSequence(1, 2000), 2000)
    assert (failed == 1).mean() <= 0.054
    assert (failed == 0).mean() <= 0.054
    rows, failed = simulate([0.4, 0.6], [0.5, 0.5], 0.1, ConfidenceSequence(1, 2000), 500)
    assert rows.mean() < 0.5 * 2000
    assert np.isnan(failed).mean() < 0.1


def test_the_reach_of_a_look_and_its_p_value_agree() -> None:
    looks = ConfidenceSequence(3, 1000)
    for rows in (60, 300, 1000):
        assert looks.p_value(looks.reach(rows, 3, 2), rows, 3, 2) == pytest.approx(0.05)
        assert looks.reach(rows, 3, 2) > looks.reach(rows) > 2.5
