"""A real browser, and the report of a simulated run for it to open."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from fwc_llm.evaluation.evaluate import evaluate
from fwc_llm.models.base import Messages, Reply, Usage
from fwc_llm.report.formats import render
from fwc_llm.shots import select_shots
from fwc_llm.shots.base import Example, Shots
from fwc_llm.tasks import Task
from tests.conftest import missing
from tests.models.four_members import FourMembers

EVIL = (
    "</script><!--<script>document.title='owned'</script><img src=x "
    "onerror=\"document.title='owned'\">\u202e"
)


class Reader(FourMembers):
    """A simulated model that answers by numbers and sex and sometimes refuses, with a
    probability of yes.
    """

    name = "reader"
    simulated = True

    async def ask(self, messages: Messages) -> Reply:
        numbers = [
            int(found) for found in re.findall(r"\b\d+\b", messages[-1]["content"])
        ]
        score = (sum(numbers) % 97) / 97
        if score > 0.97:
            return Reply(
                f"I cannot say. {EVIL}", finish_reason="stop", usage=Usage(150, 9)
            )
        few = len(" ".join(message["content"] for message in messages)) > 3000
        if few or "female" not in messages[-1]["content"].lower():
            bar = 0.5
        else:
            bar = 0.75
        logprobs = (
            ("Yes", -0.1 if score > bar else -2.3),
            ("No", -2.3 if score > bar else -0.1),
        )
        return Reply(
            "Yes" if score > bar else "No",
            finish_reason="stop",
            usage=Usage(150, 1),
            logprobs=logprobs,
        )


@pytest.fixture(scope="session")
def run(
    built_in: Callable[[str], Task], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A run over German credit, with a script planted in a cell of an example and in replies."""
    task = built_in("german")
    fwc = select_shots(task, "fwc", m=8)
    first = fwc.examples[0]
    values = dict(first.values) | {"purpose": f"Bachelors{EVIL}"}
    examples = (
        Example(first.row, values, first.label, first.weight),
        *fwc.examples[1:],
    )
    planted = Shots("planted", fwc.task, fwc.fingerprint, 0, examples, fwc.certificate)
    out = tmp_path_factory.mktemp("runs") / "german"
    arms = ["zero", "balanced", planted]
    return evaluate(
        task, Reader(), arms, n_test=80, repeats=2, m=8, counterfactual=True, out=out
    ).folder


@pytest.fixture(scope="session")
def report(run: Path, data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render([run], "html"))
    return path


@pytest.fixture(scope="module")  # Playwright's event loop must not outlive this file
def browser() -> Iterator[Browser]:
    """Debian's chromium; without it the tests are skipped with a reason, in CI they fail."""
    chromium = shutil.which("chromium")
    if chromium is None:
        missing("chromium is not on the PATH: the report is not tested in a browser")
    arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
    ]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page on which no script may fail."""
    opened = browser.new_page(viewport={"width": 1280, "height": 800})
    failed = []
    opened.on("pageerror", lambda error: failed.append(str(error)))
    yield opened
    assert failed == []
    opened.close()
