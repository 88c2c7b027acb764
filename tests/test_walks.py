"""How many functions a value passes on its way, counted at run time; docs/architecture.md has
the numbers.
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from fwc_llm import FairCoreset, Reply, evaluate
from fwc_llm.models import Messages
from fwc_llm.report.document import make_document
from fwc_llm.report.formats import FORMATS, write_document
from tests.conftest import CHECKOUT

PACKAGE = str(CHECKOUT / "fwc_llm")


def stack(frame: FrameType | None) -> list[str]:
    """The functions of the package that wait for this one, outermost first."""
    names: list[str] = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(
            PACKAGE
        ) and not frame.f_code.co_name.startswith("<"):
            names.insert(0, frame.f_code.co_qualname)
        frame = frame.f_back
    return names


def walk(call: Callable[[], Any], arrives: Callable[[FrameType], bool]) -> list[str]:
    """The functions between a call and the first one in the package that the value `arrives` in."""
    found: list[str] = []

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if (
            event == "call"
            and frame.f_code.co_filename.startswith(PACKAGE)
            and arrives(frame)
        ):
            sys.setprofile(None)
            found.extend(stack(frame))

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def check(value: str, functions: list[str]) -> None:
    """No more functions than the architecture's page says."""
    page = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (line,) = re.findall(rf"^\| {re.escape(value)} \|.*\| (\d+) \|$", page, re.M)
    assert 0 < len(functions) <= int(line), functions


class Listening:
    """A model that keeps who waited for its first answer."""

    name, parameters = "listening", dict[str, Any]()

    def __init__(self) -> None:
        self.functions: list[str] = []

    async def ask(self, messages: Messages) -> Reply:
        self.functions = self.functions or stack(inspect.currentframe())
        return Reply("Yes" if len(messages[-1]["content"]) % 3 else "No")

    async def aclose(self) -> None: ...


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    model = Listening()
    out = tmp_path_factory.mktemp("walk") / "run"
    before = walk(
        lambda: evaluate("census", model, ["zero"], out=out, n_test=80, progress=False),
        lambda frame: (
            frame.f_code.co_name == "run_async"
        ),  # requests are made in a thread of its own
    )
    return before + model.functions, out


def test_settings_reach_the_first_request(run: tuple[list[str], Path]) -> None:
    check("`Settings`", run[0])
    assert run[0][0] == "evaluate"


def test_x_reaches_the_inner_problem() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    group = rng.integers(0, 2, 60)
    label = rng.integers(0, 2, 60)
    functions = walk(
        lambda: FairCoreset(m=8).fit(x, label, group),
        lambda frame: frame.f_code.co_filename.endswith("inner_problem.py"),
    )
    check("`X`", functions)
    assert functions[:2] == [
        "_named.<locals>.call",
        "CoresetFit.fit",
    ]  # errors name FairCoreset


@pytest.mark.parametrize(
    "name", [name for name in FORMATS if name != "ll144"]
)  # it has ratios, no gaps
def test_a_gap_reaches_each_format(run: tuple[list[str], Path], name: str) -> None:
    document = make_document([run[1]])
    gap = next(r.value for r in document["runs"][0]["records"] if r.metric == "dp_gap")

    def arrives(frame: FrameType) -> bool:
        """The number is an argument or stands in one; JSON and CSV are written whole."""
        names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
        values = [frame.f_locals.get(name) for name in names]
        values += [
            item
            for value in values
            if isinstance(value, Mapping)
            for item in value.values()
        ]
        held = any(isinstance(value, float) and value == gap for value in values)
        return held or frame.f_code.co_name in ("json_text", "as_csv")

    check("a gap", walk(lambda: write_document(document, name), arrives))
