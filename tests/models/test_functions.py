"""Any function as a model: what it may return, what becomes of what it should not, and how it is
called.
"""

import asyncio
import functools
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from fwc_llm import FunctionModel, Model, ProviderError, Reply, Result, evaluate
from fwc_llm.answers import parse_answer, probability
from fwc_llm.models import Messages, Usage
from fwc_llm.models.functions import LARGEST_BATCH, as_model
from fwc_llm.models.identity import qualified_name
from fwc_llm.tasks import Task
from tests.command import python
from tests.people import make_people, write_people
from tests.refusals import refused

MESSAGES = [{"role": "user", "content": "Is it?"}]


def says_yes(messages: Messages) -> str:
    return "Yes."


def ask(model: Model, times: int = 1) -> list[Reply]:
    async def go() -> list[Reply]:
        replies = await asyncio.gather(*(model.ask(MESSAGES) for _ in range(times)))
        await model.aclose()
        return list(replies)

    return asyncio.run(go())


def returning(value: Any) -> Callable[[Messages], Any]:
    def function(messages: Messages) -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    return function


@pytest.mark.parametrize(
    ("value", "answer", "p_yes"),
    [
        ("Well, no.", None, None),
        (0.25, "no", 0.25),
        (0.5, "yes", 0.5),
        (np.float32(0.75), "yes", 0.75),
        (Reply("Yes", usage=Usage(3, 1)), "yes", None),
        ("I cannot say", None, None),
    ],
)
def test_texts_numbers_and_replies_are_answers(
    value: Any, answer: str | None, p_yes: float | None
) -> None:
    (reply,) = ask(FunctionModel(returning(value)))
    assert (reply.error, parse_answer(reply).value, probability(reply)) == (
        None,
        answer,
        p_yes,
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "nothing (None)"),
        (math.nan, "nan, which is not a probability"),
        (True, "a bool"),
        (np.array([0.3]), "a ndarray"),
        (Reply("yes", logprobs=3), "logprobs is an int"),  # type: ignore[arg-type]
        (Reply("yes", p_yes=1.7), "p_yes is not a probability"),
        (Reply(text=None), "no text and no reason"),
        (
            ValueError("bad\nrow \x1b[31m"),
            "it raised ValueError: bad row \N{REPLACEMENT CHARACTER}[31m",
        ),
        (StopIteration(), "StopIteration"),
        (TimeoutError("theirs"), "TimeoutError: theirs"),
    ],
)
def test_nonsense_is_the_rows_error_and_says_what_it_was(
    value: Any, words: str
) -> None:
    (reply,) = ask(FunctionModel(returning(value)))
    said = str(reply.error)
    assert words in said
    assert (reply.text, said.isprintable()) == (None, True)
    assert len(said) <= 320


def test_a_provider_error_stops_the_run() -> None:
    with pytest.raises(ProviderError, match="gone"):
        ask(FunctionModel(returning(ProviderError("gone"))))


def test_replies_are_made_fit_for_the_journal() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    odd = Reply(
        "Yes \ud800",
        logprobs=(("Yes", -0.1), ("No", -math.inf)),
        raw=circle,
        latency=math.nan,
    )
    (reply,) = ask(FunctionModel(returning(odd)))
    assert (reply.text, reply.logprobs, reply.raw) == (
        "Yes \\ud800",
        (("Yes", -0.1),),
        None,
    )
    assert math.isfinite(reply.latency)
    (reply,) = ask(FunctionModel(returning(Reply("yes", p_yes=np.float32(0.5)))))  # type: ignore[arg-type]
    assert reply.p_yes == 0.5


def test_sync_async_objects_and_partials_are_called() -> None:
    class Later:
        async def __call__(self, messages: Messages) -> float:
            await asyncio.sleep(0)
            return 0.9

        def method(self, messages: Messages) -> str:
            return "no"

    async def later(messages: Messages, word: str = "yes") -> str:
        return word

    def hands_over(messages: Messages) -> Awaitable[str]:
        return later(messages)

    given: list[tuple[Any, str]] = [
        (Later(), "yes"),
        (Later().method, "no"),
        (later, "yes"),
        (hands_over, "yes"),
        (functools.partial(later, word="no"), "no"),
        (lambda messages: messages[0]["role"], "user"),
    ]
    for function, text in given:
        (reply,) = ask(FunctionModel(function))
        assert reply.text == text, function


def test_a_sync_function_is_called_in_a_thread_one_row_after_another() -> None:
    inside = 0
    most = 0
    mains = 0

    def watch(messages: Messages) -> str:
        nonlocal inside, most, mains
        inside += 1
        most = max(most, inside)
        mains += threading.current_thread() is threading.main_thread()
        time.sleep(0.002)
        inside -= 1
        return "yes"

    assert len(ask(FunctionModel(watch), times=8)) == 8
    assert (most, mains) == (1, 0)
    together = threading.Barrier(4, timeout=60)

    def meet(messages: Messages) -> str:
        together.wait()  # only four calls at once pass
        return "yes"

    replies = ask(FunctionModel(meet, threads=4), times=8)
    assert {reply.text for reply in replies} == {"yes"}


def test_what_hangs_is_given_up_and_many_of_it_end_the_run() -> None:
    stop = threading.Event()
    model = FunctionModel(lambda messages: stop.wait(60), timeout=0.01, threads=40)
    (reply,) = ask(model)
    assert reply.error == "it gave no answer within 0.01 s"
    with pytest.raises(ProviderError, match="has not returned from 10 calls"):
        ask(model, times=40)
    stop.set()

    async def forever(messages: Messages) -> str:
        await asyncio.sleep(60)
        return "yes"

    assert (
        ask(FunctionModel(forever, timeout=0.01))[0].error
        == "it gave no answer within 0.01 s"
    )

    async def leaves(messages: Messages) -> str:
        raise SystemExit(0)

    for function in (leaves, returning(SystemExit(0)), returning(KeyboardInterrupt())):
        with pytest.raises(
            ProviderError, match=r"raised (SystemExit|Keyb).*run is sto"
        ):
            ask(FunctionModel(function))


class Batches:
    def __init__(self, answers: Callable[[int], Any] | None = None) -> None:
        self.sizes: list[int] = []
        self.answers = answers or (lambda n: ["yes"] * n)

    def ask_many(self, conversations: Sequence[Messages]) -> Any:
        self.sizes.append(len(conversations))
        return self.answers(len(conversations))


def test_an_object_with_ask_many_is_asked_in_batches() -> None:
    batches = Batches(lambda n: [0.1, ValueError("row 2"), *["no"] * (n - 2)])
    replies = ask(FunctionModel(batches), times=6)
    assert batches.sizes == [6]
    assert [reply.text for reply in replies] == ["no", None, "no", "no", "no", "no"]
    assert replies[1].error == "it raised ValueError: row 2"

    async def later(n: int) -> Any:
        await asyncio.sleep(0)
        return np.full(n, 0.75)

    assert [reply.text for reply in ask(FunctionModel(Batches(later)), times=3)] == [
        "yes"
    ] * 3


def test_batches_are_bounded_in_size_and_in_time() -> None:
    batches = Batches()
    assert [reply.text for reply in ask(FunctionModel(batches), times=150)] == [
        "yes"
    ] * 150
    assert max(batches.sizes) == LARGEST_BATCH
    stop = threading.Event()
    hangs = FunctionModel(Batches(lambda n: stop.wait(60)), timeout=0.01)
    assert {reply.error for reply in ask(hangs, times=3)} == {
        "it gave no answer within 0.01 s"
    }
    stop.set()


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (lambda n: ["yes"] * (n - 1), "ask_many returned 2 answers to 3 rows"),
        (lambda n: "yes", "ask_many returned a str, not a list"),
        (lambda n: 1 / 0, "it raised ZeroDivisionError"),
    ],
)
def test_a_batch_that_goes_wrong_is_the_error_of_its_rows(
    answers: Any, words: str
) -> None:
    for reply in ask(FunctionModel(Batches(answers)), times=3):
        assert words in str(reply.error)


def test_the_identity_of_a_function_is_its_name_its_code_and_what_the_user_names() -> (
    None
):
    here = f"{__name__}:says_yes"
    model = FunctionModel(says_yes)
    code = model.parameters["code"]
    assert (model.name, model.parameters["function"]) == (f"python:{here}", here)
    named = FunctionModel(says_yes, name="mine", parameters={"version": 2})
    assert named.name == "mine"
    assert named.parameters == {"function": here, "code": code, "version": 2}
    assert qualified_name(Batches()) == f"{__name__}:Batches"
    unnamed = FunctionModel(lambda _: "yes")
    assert unnamed.name.startswith(f"python:{__name__}:test_the_identity_of_a_function")
    assert unnamed.name.endswith(".<locals>.<lambda>")
    assert isinstance(model, Model)


LIMIT = 40


class Rule:
    def __init__(self, limit: int) -> None:
        self.limit, self.asked = limit, 0

    def __call__(self, messages: Messages) -> float:
        self.asked += 1
        return float(self.limit > LIMIT)


def _with(limit: Any) -> Any:
    return lambda _: float(limit > LIMIT)


def test_functions_that_answer_differently_share_no_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def identity(function: Any) -> Any:
        return FunctionModel(function).parameters

    def different() -> list[Any]:
        return [
            lambda _: 0.2,
            lambda _: 0.9,
            lambda _, p=0.2: p,
            lambda _, p=0.9: p,
            _with(1),
            _with(2),
            _with({"limit": 1}),
            _with({"limit": 2}),
            _with([Rule(1)]),
            _with([Rule(2)]),
            functools.partial(says_yes, 1),
            functools.partial(says_yes, [2]),
            Rule(1),
            Rule(2),
            Rule(1).__call__,
            Rule(2).__call__,
            functools.partial(max, LinearRegression().fit([[0], [1]], [0, 1])),
            functools.partial(max, LinearRegression().fit([[0], [1]], [0, 2])),
        ]

    first, again = ([*map(identity, different())] for _ in range(2))
    assert first == again
    assert not any(one == other for one, other in combinations(first, 2))
    rule = Rule(1)
    before = identity(rule)
    rule([])  # counts: no parameter
    assert identity(rule) == before
    seen: list[Messages] = []
    cache: dict[str, float] = {}

    def remembers(messages: Messages) -> float:
        seen.append(messages)
        cache[str(messages)] = 0.5
        return cache[str(messages)]

    before = identity(remembers)
    remembers([])
    assert identity(remembers) == before
    monkeypatch.setitem(globals(), "LIMIT", 41)
    assert identity(_with(1)) not in first


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (None, r"the model is nothing \(None\): give a name, a function"),
        (SimpleNamespace(name="half", ask=print), "which lacks parameters, aclose"),
        (Batches, r"the class Batches: give an object, Batches\(…\)"),
        (
            SimpleNamespace(name=3, parameters={}, ask=print, aclose=print),
            "is not a model",
        ),
    ],
)
def test_what_is_no_model_is_refused(model: Any, words: str) -> None:
    with refused(words):
        as_model(model)


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"timeout": math.nan},
        {"threads": 0},
        {"name": " "},
        {"name": "\x1b[31mred"},
        {"parameters": 5},
        {"parameters": {"x": object()}},
        {"parameters": {"x": [math.nan]}},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with refused(next(iter(options))):
        FunctionModel(says_yes, **options)


class Grumpy:
    def __init__(self) -> None:
        self.mended = (
            threading.Event()
        )  # of another package: what it holds is not compared
        self.asked = 0

    def __call__(self, messages: Messages) -> Any:
        self.asked += 1
        age = int(messages[-1]["content"].split("age: ")[1].split()[0].strip(",.;\n"))
        return 0.8 if self.mended.is_set() or age < 50 else None


def test_a_run_names_the_rows_that_went_wrong_and_asks_only_them_again(
    two: Task, tmp_path: Path, out: Path
) -> None:
    grumpy = Grumpy()

    def go() -> Result:
        return evaluate(two, grumpy, ("zero",), n_test=16, out=out, progress=False)

    result = go()
    assert 0 < result.unanswered < 16
    assert result.data["no_reply"][0]["reason"].startswith("it returned nothing (None)")
    answers = result.answers()
    wrong = set(answers[answers["reason"] == "error"]["row"])
    assert len(wrong) == result.unanswered
    grumpy.mended.set()
    assert go().unanswered == 0
    assert grumpy.asked == 16 + len(wrong)
    assert go().data["model"] == f"python:{__name__}:Grumpy"
    with refused("holds another run"):
        evaluate(
            two, FunctionModel(grumpy, name="another"), ("zero",), n_test=16, out=out
        )
    with refused("no Batch API"):
        evaluate(two, grumpy, ("zero",), n_test=16, out=tmp_path / "batch", batch=True)


@pytest.mark.slow
@pytest.mark.parametrize(("awake", "notebook"), [(True, False), (False, True)])
def test_ctrl_c_ends_a_run_whose_function_hangs(
    out: Path, awake: bool, notebook: bool
) -> None:
    # A signal that another thread receives does not wake the main one: as if it came just before a
    # sleep.
    program = textwrap.dedent(
        f"""
        import asyncio, signal, threading, time
        from fwc_llm import InterruptedRunError, evaluate
        def hangs(messages):
            print("begun", flush=True)
            if not {awake}:
                time.sleep(1)  # the main thread sleeps by now
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            threading.Event().wait()
        def ask():
            try:
                evaluate("census", hangs, ("zero",), n_test=8, out={str(out)!r}, progress=False)
            except InterruptedRunError as error:
                print("stopped", error.result.unanswered, flush=True)
        async def cell():
            ask()
        asyncio.new_event_loop().run_until_complete(cell()) if {notebook} else ask()
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "begun\n"
        if awake:
            os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "stopped 8\n"
        assert process.wait(30) == 0


def test_a_function_that_tells_its_keys_tells_them_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an exception, a reply, a print, a warning, a log: not in a file, not on the screen."""
    keys = {
        "SERVICE_PAT": "INVENTED/0123456789",
        "OPENAI_API_KEY": "INVENTED-abcdefghij",
    }
    (tmp_path / "telling.py").write_text(
        """
import logging, os, sys, urllib.parse, warnings

KEYS = os.environ["SERVICE_PAT"] + " " + os.environ["OPENAI_API_KEY"] + " ghp_" + 9 * "INVENTED"

class Odd(Exception):
    def __str__(self):
        raise ValueError(KEYS)

def fails(messages):
    raise OSError("x" * 280 + KEYS)

def fails_oddly(messages):
    raise Odd(KEYS)

def says(messages):
    print(KEYS)
    print("quoted", urllib.parse.quote(KEYS), file=sys.stderr)
    logging.warning(KEYS)
    warnings.warn(KEYS)
    return f"<think>{KEYS}</think> Yes"
"""
    )
    monkeypatch.syspath_prepend(tmp_path)
    for variable, key in keys.items():
        monkeypatch.setenv(variable, key)
    task = write_people(tmp_path / "people", make_people(240, 2))
    line = f"-m fwc_llm eval --task {task} --shots zero --n-test 16 --model"
    for name in ("fails", "fails_oddly", "says"):
        out = tmp_path / name
        command = [*line.split(), f"python:telling:{name}", "--out", out]
        process = python(*command, check=False, cwd=tmp_path)
        assert process.returncode == (0 if name == "says" else 3), process.stderr
        assert process.stderr.count("quoted [key]%20[key]%20[key]") == (
            16 if name == "says" else 0
        )
        assert "INVENTED" not in process.stdout + process.stderr
        for path in out.rglob("*.*"):
            assert "INVENTED" not in path.read_text(), path
