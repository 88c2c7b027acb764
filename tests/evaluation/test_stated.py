"""Stated probabilities from prompt to report: a service, batches, functions, the surrogate."""

from pathlib import Path
from typing import Any

import pytest

from fwc_llm import Result, evaluate
from fwc_llm.evaluation.tune import tune
from fwc_llm.evaluation.verification import verify
from fwc_llm.report.table_model import as_text
from fwc_llm.report.terminal import runs_table
from fwc_llm.runs import batch as batch_module
from fwc_llm.tasks import census_task
from tests.faults.batch_service import BatchService
from tests.faults.loopback import Service, serve_in_thread
from tests.refusals import refused

CENSUS = census_task(600, 300)
SMALL: Any = {"n_test": 40, "m": 4, "base_parity": None, "progress": False}
STATED: Any = SMALL | {"answer_format": "probability"}


def states(messages: Any) -> str:
    """A per cent that follows from the row; some are out of range."""
    return f"P(yes) = {sum(messages[-1]['content'].encode()) % 120} %"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    service = Service(lambda body: f"<think>0.2?</think>{states(body['messages'])}")
    asked = STATED | {"threshold": 0.3, "out": tmp_path_factory.mktemp("run") / "run"}
    with serve_in_thread(service) as url:
        result = evaluate(CENSUS, "m", ("zero", "fwc"), base_url=f"{url}/v1", **asked)
    assert "logprobs" not in service.bodies[0], "a threshold needs none"
    return result


def test_answers_follow_the_stated_probability(run: Result) -> None:
    answers = run.answers()
    unread = answers["reply"].str.contains("10[1-9]|11. %")
    assert (unread == answers["p_yes"].isna()).all()
    read = answers[~unread]
    assert ((read["answer"] == "yes") == (read["p_yes"] >= 0.5)).all()
    assert ((read["threshold_answer"] == "yes") == (read["p_yes"] >= 0.3)).all()
    assert run.records.of("auc", "fwc").known


def test_every_output_says_that_they_are_stated(run: Result, tmp_path: Path) -> None:
    assert run.data["p_yes"] == "stated"
    assert "Remedy: a reply has to state one" in run.data["unread"]
    for kind in ("html", "md", "json"):
        assert "stated P(yes)" in run.report(tmp_path / f"run.{kind}").read_text()
    assert "Stated probabilities" in as_text(runs_table([run.run], verbose=True))


def test_a_run_is_verified_and_continued_in_its_format(run: Result) -> None:
    (left,) = verify(run.folder, CENSUS)["findings"]
    assert left["file"] == "experiment.toml"
    with refused("answer_format: probability, now word"):
        evaluate(CENSUS, "m", run.arms, out=run.folder, threshold=0.3, **SMALL)


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("baseline", {}, "baseline does not support answer_format probability"),
        ("gpt-6-luna", {"api": "decisions"}, "luna does not support answer_format"),
        ("gpt-4", {"logprobs": True}, "logprobs=True.*leave out one of the two"),
        (lambda messages: "Yes", {}, r"“Yes”\): a reply has to state one.*'word'"),
    ],
)
def test_what_states_no_probability_is_refused(
    model: Any, options: Any, words: str, tmp_path: Path
) -> None:
    with refused(words):
        evaluate(CENSUS, model, ("zero",), out=tmp_path, **STATED | options)


def test_batches_functions_and_tuning_read_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_module, "FIRST_POLL_SECONDS", 0.0)
    live = evaluate(CENSUS, states, ("zero",), out=tmp_path / "live", **STATED)
    with serve_in_thread(BatchService(answer=states)) as url:
        asked = {"base_url": f"{url}/v1", "batch": True, "out": tmp_path / "batch"}
        batch = evaluate(CENSUS, "m", ("zero",), **STATED | asked)
    assert batch.answers()["p_yes"].equals(live.answers()["p_yes"])
    tuned = tune(CENSUS, states, 0.9, candidates=2, out=tmp_path / "tuned", **STATED)
    assert tuned.front  # else no reply would be read
