"""A result: one line, a table, a picture, a report, a comparison."""

import csv
import html
import json
import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from fwc_llm import FunctionModel, IncompleteRunError, ProviderError, Result, evaluate
from fwc_llm.metrics.counts import plain
from fwc_llm.metrics.records import Records
from fwc_llm.models import Messages
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.report.formats import render
from fwc_llm.runs.folder import RunFolder
from fwc_llm.tasks import Task, census_task
from tests.command import Run, read_json
from tests.people import make_people, write_people
from tests.refusals import refused


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    task = census_task(n_pool=500, n_test=500)
    out = tmp_path_factory.mktemp("runs") / "run"
    return evaluate(
        task, Surrogate(), ("zero", "random"), n_test=80, repeats=2, m=4, out=out
    )


def read(folder: Path) -> Result:
    return Result(folder, read_json(folder / "results.json"))


def test_a_result_is_one_line_and_one_table(result: Result) -> None:
    assert (
        repr(result)
        == f"<Result census · surrogate, SIMULATED: zero, random; {result.folder}>"
    )
    assert "SIMULATED" in str(result)
    assert "SIMULATED" in result._repr_html_()
    frame = result.to_frame()
    assert list(frame["arm"].unique()) == [*result.arms, "true answers"]
    assert len(result.answers()) == 2 * 2 * 80
    with pytest.raises(
        IncompleteRunError, match="2 of 400 requests have no reply; no gate was decided"
    ):
        Result(result.folder, {"unanswered": 2, "requests": 400, "no_reply": []}).check(
            "dp_gap > 0.1"
        )


GAP = "dp_gap"
ODD: dict[str, dict[str, Any]] = {
    "weighted people": {"cluster": "age", "weight": "fnlwgt"},
    "unread": {"base_parity": None, "repeats": 4, "n_test": 92},
}


def odd_run(name: str, out: Path) -> Result:
    """A run of weighted people, or of repeats whose replies hold no answer at times."""

    def answer(messages: Messages) -> str:
        text = messages[-1]["content"]
        lost = name == "unread" and "Male" in text and sum(text.encode()) % 5 == 0
        if lost:
            return ""
        if "Female" in text and sum(text.encode()) % 3:
            return "no"
        return "yes"

    settings = {"n_test": 200, "out": out, "progress": False} | ODD[name]
    return evaluate(
        census_task(n_pool=400, n_test=400),
        FunctionModel(answer),
        ("zero",),
        **settings,
    )


def said_of_the_gap(result: Result) -> list[Any]:
    """The gap, its interval and verdict as JSON has them, after checking that every other output
    agrees.
    """
    found = json.loads(render([result.folder], "json"))["runs"][0]["records"]
    gap = next(
        record for record in found if (record["metric"], record["arm"]) == (GAP, "zero")
    )
    stored = read_json(result.folder / "results.json")["records"]
    assert gap in stored
    tidy = csv.DictReader(render([result.folder], "csv").splitlines())
    line = next(x for x in tidy if (x["metric"], x["arm"]) == (GAP, "zero"))
    frame = result.to_frame().query("arm == 'zero' and metric == @GAP").iloc[0]
    assert frame["value"] == float(line["value"]) == gap["value"]
    assert [float(line[end]) for end in ("low", "high")] == [gap["low"], gap["high"]]
    assert line["verdict"] == gap["verdict"]
    check = result.check("dp_gap > 0.99")
    assert [check.value, check.low, check.high] == [
        gap[name] for name in ("value", "low", "high")
    ]
    page = "".join(ElementTree.fromstring(result._repr_html_()).itertext())
    report = re.sub("<[^>]+>", " ", html.unescape(render([result.folder], "html")))
    low, value, high = (f"{100 * gap[name]:.1f}" for name in ("low", "value", "high"))
    in_points = value, f"{low} to {high}"
    markdown = render([result.folder], "md").replace("\\", "")
    for text in (str(result.audit()), markdown, page, report):
        assert all(part in re.sub(r"\s+", " ", text) for part in in_points), text[:200]
    for text in (markdown, report):
        assert gap["verdict"] in re.sub(r"\s+", " ", text), text[:200]
    assert f"{gap['value']:.3f}" in str(result)
    return [gap["value"], gap["low"], gap["high"], gap["verdict"]]


@pytest.mark.parametrize("name", ODD)
def test_odd_designs_have_one_gap_interval_and_verdict_everywhere(
    name: str, out: Path
) -> None:
    result = odd_run(name, out)
    answers = pd.read_csv(result.folder / "answers.csv")
    known = answers[answers["answer"].notna()]
    weight = known.get("weight", pd.Series(1.0, known.index)).astype(float)
    cells = [known["group"], known["repeat"]]
    rates = (weight * (known["answer"] == "yes")).groupby(cells).sum() / weight.groupby(
        cells
    ).sum()
    assert said_of_the_gap(result)[0] == pytest.approx(
        np.ptp(rates.groupby("group").mean())
    )


def test_a_changed_setting_makes_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells of a notebook that run again at once, and an explicit folder that says what to do."""
    monkeypatch.chdir(tmp_path)
    task = census_task(n_pool=300, n_test=100)
    folders = {
        evaluate(task, Surrogate(), ("zero",), n_test=n, progress=False).folder
        for n in (8, 8, 9)
    }
    assert len(folders) == 3
    with refused("name a new folder for this run"):
        evaluate(
            task, Surrogate(), ("zero",), n_test=10, out=folders.pop(), progress=False
        )


def test_a_result_whose_folder_is_gone_says_so(result: Result, tmp_path: Path) -> None:
    assert "is not a folder" in Result(tmp_path / "gone", result.data)._repr_html_()


def test_two_runs_are_compared(result: Result, tmp_path: Path) -> None:
    shutil.copytree(result.folder, tmp_path / "twin")
    for other in (tmp_path / "twin", str(tmp_path / "twin"), read(tmp_path / "twin")):
        compared = result.compare(other)
        changes = compared["records"].where(metric="accuracy_difference")
        assert {record.value for record in changes} == {0.0}
    assert "the same answers as" in " ".join(repr(compared).split())
    drawn = "".join(ElementTree.fromstring(compared._repr_html_()).itertext())
    assert "DP gap" in drawn
    json.dumps(plain(compared))
    assert len(compared.to_frame()) == len(compared["records"])
    with refused("not a folder"):
        result.compare(tmp_path / "nowhere")


# --- A run with a threshold


def age_of(messages: Messages) -> int:
    return int(re.findall(r"age: (\d+)", messages[-1]["content"])[0])


class Shifted:
    """P(yes) that grows with the age and stays below one half; two digits, so that rows tie."""

    def __init__(self) -> None:
        self.asked: list[Messages] = []
        self.stop_after(10**9)

    def stop_after(self, replies: int) -> None:
        self.fail_after = replies

    def __call__(self, messages: Messages) -> Any:
        self.asked.append(messages)
        if len(self.asked) > self.fail_after:
            raise ProviderError("the service is gone")
        return round(age_of(messages) / 200 + 0.05 * (len(messages) > 2), 2)


def run(task: Task, model: Any, out: Path, **options: Any) -> Result:
    settings: dict[str, Any] = {
        "arms": ("zero", "balanced"),
        "n_test": 16,
        "m": 4,
        "threshold": "fit",
    }
    named = FunctionModel(model, name="shifted") if callable(model) else model
    return evaluate(task, named, out=out, progress=False, **settings | options)


@pytest.fixture(scope="module")
def done(two: Task, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Shifted]:
    model = Shifted()
    out = tmp_path_factory.mktemp("runs") / "run"
    return run(two, model, out, repeats=2, counterfactual=True), model


def test_both_answers_are_written(done: tuple[Result, Shifted], two: Task) -> None:
    result, model = done
    assert len(model.asked) == 2 * 2 * (16 + 2 * 16)
    described = RunFolder(result.folder).describe()
    answers = result.answers()
    assert (described["settings"]["threshold"], described["calls"]) == (
        "fit",
        2 * 2 * 2 * 16,
    )
    assert answers.columns[-1] == "threshold_answer"
    assert result.data["threshold"] == "fit"
    for arm, said in zip(result.arms, result.data["thresholds"], strict=True):
        assert arm == said["arm"]
        assert [one["rows"] for one in said["per_repeat"]] == [16, 16]
        of_arm = answers[answers["arm"] == arm]
        for one in said["per_repeat"]:
            own = of_arm[of_arm["repeat"] == one["repeat"]]
            yes = own["p_yes"].astype(float) >= one["threshold"]
            assert (
                own["threshold_answer"] == yes.map({True: "yes", False: "no"})
            ).all()
            assert one["accuracy"] >= one["accuracy_at_half"]
        factual = of_arm[of_arm["variant"] == ""]
        assert (
            factual["answer"] == "no"
        ).all()  # as given, everybody is below one half
        accuracy = (factual["threshold_answer"] == factual["label"]).mean()
        as_given = result.records.of("accuracy", arm).value
        assert as_given == pytest.approx((factual["label"] == "no").mean())
        assert accuracy > as_given
    thresholds = [said["threshold"] for said in result.data["thresholds"]]
    assert thresholds[1] - thresholds[0] == pytest.approx(
        0.05, abs=0.06
    )  # each arm's own
    assert sum(said["ties"] for said in result.data["thresholds"]) > 0


def test_a_report_has_the_answers_at_the_threshold_and_what_they_change(
    done: tuple[Result, Shifted],
) -> None:
    result, _ = done
    document = json.loads(render([result.folder], "json"))["runs"][0]
    assert document["threshold"]["rule"] == "fit"
    assert "most accurate" in render([result.folder], "md")
    found = Records.read(document["records"], "")
    answers = result.answers().query("variant == ''")
    right = (answers["threshold_answer"] == answers["label"]).groupby(answers["arm"])
    for arm in result.arms:
        moved = found.of("accuracy_at_threshold", arm)
        change = found.of("accuracy_at_threshold_change", arm)
        assert moved.value == pytest.approx(right.mean()[arm])
        given = found.of("accuracy", arm).value
        assert change.value == pytest.approx(moved.value - given)
        assert change.low < change.value < change.high


def test_an_interrupted_run_continues(
    two: Task, out: Path, done: tuple[Result, Shifted]
) -> None:
    model = Shifted()
    for stop in (5, 40):  # among the rows of the pool, and among the test rows
        model.stop_after(stop)
        with pytest.raises(ProviderError, match="is gone") as caught:
            run(two, model, out, concurrency=1)
        assert caught.value.result is not None
        model.asked = model.asked[:stop]
    partial = caught.value.result.answers()
    known = partial["threshold_answer"].notna().groupby(partial["arm"]).mean()
    assert known.tolist() == [0.0, 0.5]
    model.stop_after(10**9)
    whole = run(two, model, out)
    assert whole.unanswered == 0
    assert len(model.asked) == 64
    with refused(r"holds another run \(threshold: fit, now None"):
        run(two, model, out, threshold=None)


@pytest.mark.slow
def test_the_command_announces_and_shows_it(
    fwc: Run, tmp_path: Path, out: Path
) -> None:
    task = write_people(tmp_path, make_people(240, 2))
    line = f"eval --task {task} --shots zero,balanced --m 4 --n-test 16"
    more = f"{line} --threshold base-rate --model"
    dry = fwc(more, "gpt-4o", "--dry-run", code=0)
    assert "64 requests to gpt-4o" in dry.out
    assert "--threshold base-rate needs P(yes): --logprobs is switched on" in dry.err
    assert "adds 32 requests: 16 rows of the pool" in dry.err
    done = fwc(more, "baseline", "--out", out, code=0)
    assert "At the threshold" in done.out
    assert "64 requests to baseline" in done.err
    again = fwc("eval", out / "experiment.toml", "--out", out, code=0)
    assert "64 of 64 answered, nothing to ask" in again.err
    for words in ("1.5", "sometimes"):
        bad = f"{line} --model baseline --threshold {words} --out"
        fwc(bad, tmp_path / "no", code=2)
    models = "baseline,python:tests.evaluation.test_result:even"
    both = fwc(more, models, "--out", tmp_path / "b", code=0)
    assert both.out.count("at its threshold") == 2


def even(messages: Messages) -> float:
    return 0.5
