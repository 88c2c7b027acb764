"""Decision models from prompt to report: the surrogate over HTTP, a service of these tests, a
real model.
"""

import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fwc_llm import Client, Messages, Reply, evaluate
from fwc_llm.evaluation.tune import tune
from fwc_llm.models.openai.prices import price_of
from fwc_llm.report.cost import cost
from fwc_llm.report.formats import render
from fwc_llm.report.table_model import as_text
from fwc_llm.report.terminal import runs_table
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.journal import Journal
from fwc_llm.runs.recorded_run import score_run as score
from fwc_llm.tasks import census_task
from tests.conftest import missing
from tests.faults.loopback import serving
from tests.people import named
from tests.refusals import refused

CENSUS = named(census_task(300, 400), "small-census")  # the whole one takes a while
SMALL: dict[str, Any] = {"arms": ("zero", "random"), "n_test": 16, "m": 4}


@pytest.mark.slow
def test_the_surrogate_says_the_same_however_it_is_asked(tmp_path: Path) -> None:
    chat = evaluate(CENSUS, "surrogate", out=tmp_path / "chat", **SMALL)
    assert chat.data["api"] == "chat"
    with serving() as url:
        api = "decisions"
        options = {**SMALL, "base_url": url, "api": api}
        asked = evaluate(CENSUS, "surrogate", out=tmp_path / api, **options)
        columns = ["arm", "row", "answer"]
        assert asked.answers()[columns].equals(chat.answers()[columns])
        p_yes = chat.answers()["p_yes"].tolist()
        assert asked.answers()["p_yes"].tolist() == pytest.approx(p_yes, abs=2e-6)
        assert (asked.data["api"], asked.data["simulated_answers"]) == (api, True)
        settings = RunFolder(asked.folder).describe()["settings"]
        assert (settings["api"], settings["template"]) == (api, "decision")
        experiment = (asked.folder / "experiment.toml").read_text()
        assert f'api = "{api}"' in experiment
        again = evaluate(CENSUS, "surrogate", out=asked.folder, **options)
        with Journal(again.folder) as journal:
            assert again.data == score(RunFolder(again.folder), journal)[0]
        options = {**SMALL, "base_url": url, "api": "decisions"}
        with refused("api: chat, now decisions"):
            evaluate(CENSUS, "surrogate", out=tmp_path / "chat", **options)
    assert "a decision model" not in chat.report(tmp_path / "report.md").read_text()
    page = asked.report(tmp_path / "report.md", force=True).read_text()
    said = "surrogate (a decision model by /decisions: P(yes), yes from 0.5 on)"
    assert said in page


def test_a_model_that_takes_chats_alone_is_refused(out: Path) -> None:
    usual: dict[str, Any] = {"api": "decisions", "arms": ("zero",), "out": out}
    for model, options, words in (
        ("surrogate", {}, "surrogate does not support api='decisions'"),
        (
            "azure:mine",
            {"base_url": "http://127.0.0.1:9"},
            "azure:mine does not support api='decisions'",
        ),
        (
            "gpt-6-luna",
            {"batch": True},
            "batch=True does not work with api='decisions'",
        ),
        ("gpt-6-luna", {"logprobs": True}, "'logprobs' is for chats"),
        (
            "surrogate",
            {"api": "chat", "template": "decision"},
            "'decision' is for decision models",
        ),
    ):
        with refused(words):
            evaluate(CENSUS, model, **usual | options)
    assert not out.exists()


def test_only_the_input_costs_and_the_price_is_marked(tmp_path: Path) -> None:
    price: Any = price_of("gpt-6-luna", api="decisions")
    assert (price.input, price.output) == (0.10, 0.0)
    assert "third parties" in price.source
    assert price_of("gpt-5", api="decisions") is None, "what chats cost says nothing"
    assert price_of("gpt-6-luna", api="systemone") is None
    results = {
        "model": "gpt-6-luna",
        "api": "decisions",
        "simulated": False,
        "usage": {
            "prompt_tokens": 2_000_000,
            "completion_tokens": 5_000,
            "cached_tokens": 0,
        },
    }
    assert cost(results, {})["dollars"] == pytest.approx(0.2)
    assert cost(results, {})["words"].endswith(
        "$0.20 by prices of 2026-11-21 (a third party's)"
    )
    mine = tmp_path / "prices.toml"
    mine.write_text(
        'date = "2026-01-01"\n[models]\n"jev" = { input = 1, output = 2 }\n'
    )
    price = price_of("jev", mine, "systemone")
    assert price.input == 1.0, "a file with one list means it for all"
    both = tmp_path / "both.toml"
    both.write_text(
        mine.read_text() + '[decisions.models]\n"jev" = { input = 3, output = 4 }\n'
    )
    for api in ("decisions", "systemone"):
        price = price_of("jev", both, api)
        assert price.input == 3.0, "both ask for decisions"


@pytest.mark.slow
def test_tuning_asks_a_decision_model_too(tmp_path: Path) -> None:
    with serving() as url:
        found = tune(
            CENSUS,
            "surrogate",
            0.1,
            rows=40,
            candidates=2,
            m=4,
            n_test=16,
            strategies=["random"],
            api="decisions",
            client=Client(base_url=url),
            out=tmp_path / "tuned",
        )
    assert found.template == "decision"
    with Journal(tmp_path / "tuned") as journal:
        assert all(record["p_yes"] is not None for record in journal.records())


# --- a real decision model, which nobody here wrote


@pytest.fixture(scope="module")
def sparrow() -> Iterator[str]:
    if importlib.util.find_spec("sparrow_decider") is None:
        missing("the real decision model is missing: pip install sparrow-decider")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "sparrow_decider.cli",
        "serve",
        "--port",
        str(port),
    ]
    serving = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                httpx.get(f"http://127.0.0.1:{port}")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        serving.terminate()
        serving.wait(10)


@pytest.mark.slow
def test_a_real_model_from_prompt_to_report(sparrow: str, tmp_path: Path) -> None:
    result = evaluate(
        CENSUS,
        "sparrow",
        arms=("zero", "balanced"),
        n_test=40,
        api="systemone",
        base_url=sparrow,
        out=tmp_path / "run",
    )
    for arm in result.arms:
        coverage = result.records.of("coverage", arm)
        assert (coverage.n, coverage.value) == (40, 1.0)
    assert result.data["returned_models"] == ["sparrow-nano-general-v1.1"]
    assert not result.data["simulated_answers"]
    p = result.answers().set_index("arm")["p_yes"]
    assert 0.3 < p["zero"].min() < p["zero"].max() < 0.7
    shown = " ".join(as_text(runs_table([result.run], verbose=True), 400).split())
    assert "balanced: P(yes) is 0." in shown
    assert "whatever the row (40 answers): it hardly depends on the row" in shown
    assert "zero: P(yes)" not in shown
    page = result.report().read_text()
    assert "sparrow (a decision model by /systemone" in page
    assert "it hardly depends on the row" in page
    with refused(r"has no POST /decisions.*\(404: not found\)"):
        evaluate(
            CENSUS,
            "sparrow",
            api="decisions",
            base_url=sparrow,
            out=tmp_path / "no",
            **SMALL,
        )


def test_answers_about_a_part_of_a_row_are_counted_where_results_are_shown(
    out: Path,
) -> None:
    def cut_off(messages: Messages) -> Reply:
        return Reply("yes", truncated="age: 4" in messages[-1]["content"])

    result = evaluate(CENSUS, cut_off, arms=("zero",), n_test=40, out=out)
    forties = result.data["truncated"]
    assert 0 < forties < 40
    page = render([result.folder], "md")
    assert f"the service truncated {forties} inputs" in page
    assert f"the service truncated {forties} inputs" in cost(result.data, {})["words"]
