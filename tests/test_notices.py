"""Notices and messages: the same in Python and on the command line, each in its own words."""

import ast
import asyncio
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fwc_llm
from fwc_llm import FunctionError, FwcError, aevaluate, evaluate, load_task
from fwc_llm.models.client import Client
from fwc_llm.notices import (
    LOG,
    SWITCHES,
    DataWarning,
    RunWarning,
    spoken,
    tell,
    to_command_line,
)
from fwc_llm.runs.settings import Settings
from tests.command import Run, corpus
from tests.people import SMALL_CENSUS, approvals
from tests.refusals import refused

PACKAGE = Path(fwc_llm.__file__).parent


def people(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.integers(20, 70, n),
        "sex": rng.choice(["F", "M"], n),
        "income": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
        "number": range(n),
        "approved": rng.integers(0, 2, n),
    }
    return pd.DataFrame(columns)


@pytest.mark.parametrize(("flags", "arguments"), corpus("options"))
def test_options_are_named_as_the_caller_writes_them(
    flags: str, arguments: str
) -> None:
    assert str(FwcError(flags)) == spoken(flags) == arguments
    with to_command_line(print):
        assert str(FwcError(flags)) == spoken(flags) == flags


def test_a_command_without_a_flag_takes_it_by_set() -> None:
    without = {"epsilon", "min_group", "cluster", "assist"}
    written = {
        "use --epsilon none.": "use --set epsilon=none.",
        "lower --min-group 12, or --n-test 8": "lower --set min_group=12, or --n-test 8",
        "name --cluster 'of whom'": "name --set cluster='of whom'",
        "--cluster counts people": "--set cluster=… counts people",
        "leave out --assist": "leave out --set assist=true",
        "--set epsilon=none": "--set epsilon=none",
        "`fwc-llm shots --epsilon 0`": "`fwc-llm shots --epsilon 0`",
    }
    with to_command_line(print, lambda: without):
        assert {text: str(FwcError(text)) for text in written} == written


def test_switches_are_the_options_without_a_value() -> None:
    fields = Settings.model_fields | Client.model_fields
    switches = {name for name, field in fields.items() if field.annotation is bool}
    assert switches <= {*SWITCHES}


def test_no_message_of_the_library_keeps_a_flag_in_python() -> None:
    flag = re.compile(r"(?<![\w(-])--[a-z][\w-]*")
    kept = set[str]()
    for path in set(PACKAGE.rglob("*.py")) - set((PACKAGE / "cli").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                kept |= {*flag.findall(re.sub("`[^`]*`", "", spoken(node.value)))}
    assert kept == {"--no-deps"}  # of pip


def test_the_command_line_prints_each_notice_once() -> None:
    printed = []
    with to_command_line(printed.append):
        for _ in range(2):
            tell("--n-test 7 is rounded", RunWarning)
        warnings.warn("another package's", UserWarning, stacklevel=1)
        LOG.warning("20 yes")
    assert printed == ["--n-test 7 is rounded", "20 yes"]


def test_guesses_about_a_frame_are_warnings() -> None:
    with pytest.warns(DataWarning) as caught:
        approvals(people())
    (warning,) = caught
    assert "column number: every value differs" in str(warning.message)
    assert "with bands" in str(warning.message)
    assert warning.filename == __file__
    assert "was taken for yes" in str(warning.message)
    assert '* question = "Should this case be approved?"' in str(warning.message)
    with warnings.catch_warnings(action="error"):
        plain = people()[["sex", "approved"]].assign(points=np.arange(300) % 40)
        names = {"protected": "sex", "outcome": "approved"}
        load_task(plain, **names, positive=1, question="Should it be approved?")


@pytest.mark.parametrize("kind", ["int64", "float64", "str"])
def test_an_outcome_of_1_and_2_is_refused_until_somebody_says_which_is_yes(
    kind: str,
) -> None:
    frame = people()
    frame["approved"] = (frame["approved"] + 1).astype(kind)
    with refused("say which means yes: positive='2' or positive='1'"):
        approvals(frame)
    task = approvals(frame, positive=2)
    assert task.labels(task.pool()).mean() == pytest.approx(people()["approved"].mean())


@pytest.mark.parametrize(("rows", "times"), [(8, 8), (40, 12)])
def test_a_function_that_always_raises_ends_the_run_with_its_exception(
    rows: int, times: int, out: Path
) -> None:
    def divide(messages):
        return 1 / 0

    with pytest.raises(
        FunctionError, match=rf"\({times} times: it raised ZeroDivisionError"
    ) as caught:
        evaluate(SMALL_CENSUS, divide, ("zero",), n_test=rows, out=out)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "--" not in str(caught.value)


def test_notices_of_a_run_point_at_the_callers_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"arms": ("zero",), "n_test": 21, "base_parity": 0.1}

    async def awaited() -> None:
        await aevaluate(SMALL_CENSUS, says_no, **options, out=tmp_path / "two")

    def says_no(messages: object) -> str:
        return "no"

    for call in (
        lambda: evaluate(SMALL_CENSUS, says_no, **options, out=tmp_path / "one"),
        lambda: asyncio.run(awaited()),
    ):
        with pytest.warns(RunWarning, match=r"^n_test=21: .* are drawn") as caught:
            call()
        (warning,) = caught  # progress is no warning, which could end the run
        assert warning.filename == __file__
    assert caplog.text.count("the first 20 replies: 20 no") == 2


def test_rows_without_a_reply_are_named_with_their_reason(out: Path) -> None:
    def divide(messages):
        return 1 / 0

    with pytest.warns(
        RunWarning, match="4 of 4 requests have no reply; it raised ZeroDivision"
    ):
        result = evaluate(
            SMALL_CENSUS, divide, ("zero",), n_test=4, no_watch=True, out=out
        )
    for ask in (result.audit, lambda: result.check("dp_gap > 0.1")):
        with refused("ZeroDivisionError") as caught:
            ask()
        assert "--" not in str(caught.value)
        assert "fwc-llm" not in str(caught.value)


def test_replies_without_an_answer_are_quoted(out: Path) -> None:
    said = iter(range(1_000))
    with pytest.warns(
        RunWarning, match="among the replies without an answer: 5 times “dunno”"
    ):
        evaluate(
            SMALL_CENSUS,
            lambda _: "yes" if next(said) % 2 else "dunno",
            ("zero",),
            n_test=10,
            out=out,
        )


def test_the_command_line_says_it_too(fwc: Run, out: Path) -> None:
    outcome = fwc(
        "eval",
        "--task",
        "census",
        "--shots",
        "zero",
        "--n-test",
        21,
        "--base-parity",
        0.1,
        "--rpm",
        3,
        "--out",
        out,
        code=0,
    )
    assert "--n-test 21: " in outcome.err
    assert "surrogate does not take --rpm" in outcome.err
    assert outcome.err.count("does not take --rpm") == 1
