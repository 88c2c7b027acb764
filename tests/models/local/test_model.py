"""A real language model, from prompt to report: its chat template, tokens, log-probabilities and context.

Prompts are short and rows few: two busy cores read some 50 tokens a second.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fwc_llm import Client, Settings, evaluate
from fwc_llm.answers import p_yes
from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.models import Reply, open_model
from fwc_llm.models.local import model as local_model
from fwc_llm.models.local import model_file
from fwc_llm.models.local.engine import Engine
from tests.models.local.files import need_smollm2

pytestmark = pytest.mark.slow
QUESTION = [
    {"role": "system", "content": "Answer with one word, yes or no."},
    {"role": "user", "content": "Is Paris in France?"},
]
TWO_ROWS = Settings(n_test=2, base_parity=None)


@pytest.fixture(scope="module", autouse=True)
def smollm2() -> None:
    need_smollm2()


@pytest.fixture
def engine() -> Iterator[Engine]:
    opened = Engine(model_file("smollm2"), 256, 1, 1)
    yield opened
    opened.close()


def asked(model: Any, *conversations: list[dict[str, str]]) -> list[Reply]:
    async def go() -> list[Reply]:
        try:
            return [await model.ask(messages) for messages in conversations]
        finally:
            await model.aclose()

    return asyncio.run(go())


def digits(number: int) -> list[dict[str, str]]:
    """A question of about so many tokens: this model reads every digit as one."""
    return [{"role": "user", "content": "7" * number}]


def test_from_prompt_to_report_and_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    client, out = Client(max_tokens=1), tmp_path / "run"
    result = evaluate("census", "smollm2", arms=("zero",), settings=TWO_ROWS, client=client, out=out)
    answers = result.answers()
    assert len(answers) == 2
    assert answers["p_yes"].between(0.0, 1.0, inclusive="neither").all()
    assert answers["p_yes"].nunique() == 2  # it reads the rows
    journal = (out / "journal.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line) for line in journal.splitlines()[1:]]
    assert [record["p_yes"] for record in records] == [p_yes(record["logprobs"]) for record in records]
    first, *others = [record["usage"] for record in records]
    assert first["cached_tokens"] == 0
    assert all(usage["cached_tokens"] > 50 for usage in others)  # what all prompts begin with is read once
    described = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert len(described["parameters"]["gguf"]["sha256"]) == 64
    assert described["local"]
    assert result.data["returned_models"] == [
        "Smollm2 135M 8k Lc100K Mix1 Ep2 (llama, Q4_1, 135M parameters)"
    ]
    page = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "none: asked on this machine" in page
    again = evaluate("census", "smollm2", arms=("zero",), settings=TWO_ROWS, client=client, out=out)
    assert (out / "journal.jsonl").read_text(encoding="utf-8") == journal  # nothing was asked twice
    assert again.answers().equals(answers)
    said = capfd.readouterr()
    assert "llama" not in said.out
    assert not [line for line in said.err.splitlines() if "ggml" in line or "llama_" in line or "srv" in line]


def test_tokens_are_those_of_the_models_own_template(engine: Engine) -> None:
    counted = engine.count(QUESTION)
    question, answered = engine.ask({"messages": QUESTION, "max_tokens": 1, "temperature": 0}, 60.0)
    assert answered.result()["usage"]["prompt_tokens"] == counted
    assert not question.late


def test_text_that_no_json_holds_is_asked_about(engine: Engine) -> None:
    model = open_model("smollm2", max_tokens=1)
    (reply,) = asked(model, [{"role": "user", "content": "half \ud800 a pair, \0, <|im_end|>"}])
    assert reply.text
    assert engine.count([{"role": "user", "content": "\ud800"}]) > 0


def test_the_context_grows_with_the_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_model, "LEAST_CONTEXT", 256)
    opened: list[int] = []
    monkeypatch.setattr(local_model, "Engine", lambda *given: opened.append(given[1]) or Engine(*given))
    model = open_model("smollm2", max_tokens=1)
    short, long = asked(model, QUESTION, digits(250))
    assert short.usage is not None
    assert long.usage is not None
    assert long.usage.prompt_tokens > 250
    assert opened[0] < long.usage.prompt_tokens < opened[-1]


def test_a_context_that_is_too_small_says_what_is_needed() -> None:
    model = open_model("smollm2", params={"n_ctx": 200}, max_tokens=4)
    with pytest.raises(
        FwcError, match=r"the prompt has \d+ tokens .* --param n_ctx is 256: take --param n_ctx="
    ):
        model.check(digits(250))
    model.check([{"role": "user", "content": "?"}])
    long, short = asked(model, digits(250), [{"role": "user", "content": "?"}])
    assert long.text is None
    assert "needs a context of" in str(long.error)
    assert short.text is not None
    small, shown = Client(params={"n_ctx": 256}, max_tokens=1), TWO_ROWS.updated(m=4)
    with pytest.raises(FwcError, match=r"arm 'balanced', row census.test:\d+: the prompt has"):
        evaluate("census", "smollm2", arms=("balanced",), settings=shown, client=small)


def test_what_llama_cpp_refuses_stops_the_run_after_ten_rows() -> None:
    model = open_model("smollm2", params={"seed": "none"}, max_tokens=1)
    with pytest.raises(ProviderError, match=r"failed 10 times in a row .*seed"):
        asked(model, *([QUESTION] * 10))


def test_a_deadline_gives_the_row_up() -> None:
    (reply,) = asked(open_model("smollm2", deadline=1e-3), QUESTION)
    assert reply.text is None
    assert "no reply within the deadline of 0.001 s" in str(reply.error)


def test_a_question_that_is_given_up_leaves_no_thread() -> None:
    async def go() -> None:
        model = open_model("smollm2", params={"n_ctx": 2048})
        asking = [asyncio.create_task(model.ask(digits(1500 + place))) for place in range(3)]
        while not any(thread.name.startswith("fwc-llm-local") for thread in threading.enumerate()):
            await asyncio.sleep(0.01)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await model.aclose()

    asyncio.run(go())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fwc-llm-local")]


def test_ctrl_c_ends_a_run_at_once_and_quietly(tmp_path: Path) -> None:
    command = ["eval", "--task", "census", "--model", "smollm2", "--shots", "zero", "--out", "run"]
    started = subprocess.Popen(
        [sys.executable, "-m", "fwc_llm", *command], cwd=tmp_path, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": os.getcwd()},
    )  # fmt: skip
    journal = tmp_path / "run" / "journal.jsonl"
    while started.poll() is None and not (journal.is_file() and journal.read_bytes().count(b"\n") > 1):
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=120)
    assert started.returncode == 130, err
    assert "in this process: no network, no cost" in err
    assert "requests are answered" in err
    assert not out
    assert "Traceback" not in err
    assert "ggml" not in err


def test_llama_cpps_own_server_gives_the_same_answer_by_base_url() -> None:
    import xllamacpp

    given = xllamacpp.CommonParams()
    given.model.path, given.n_ctx, given.verbosity = str(model_file("smollm2")), 256, -1
    given.warmup, given.fit_params = False, False
    given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(given)
    served = open_model(
        "smollm2", base_url=f"{server.listening_address}/v1", max_tokens=1, logprobs=True, concurrency=1
    )
    (there,) = asked(served, QUESTION)
    (here,) = asked(open_model("smollm2", max_tokens=1), QUESTION)
    assert there.text == here.text
    assert p_yes(there.logprobs) == pytest.approx(p_yes(here.logprobs), abs=0.02)
