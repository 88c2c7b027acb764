"""The browser of rows: it finds rows, shows everything about one, and draws only what is in
view.
"""

import re
from pathlib import Path

import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page

from fwc_llm.evaluation.evaluate import evaluate
from fwc_llm.models.base import Messages, Reply
from fwc_llm.report.audit_file import audit_of_file
from fwc_llm.report.audit_options import AuditOptions
from fwc_llm.report.formats import render
from fwc_llm.report.html import page as make_page
from fwc_llm.runs.settings import Settings
from fwc_llm.tasks import Task
from tests.browser.conftest import EVIL, Reader

pytestmark = pytest.mark.slow

LIST = ".rows-list"
ITEMS = ".rows-list tbody tr"
ONE = ".rows-one"
SHOWN = 60
MANY = 10_000


class Partial(Reader):
    """Says yes to men and to those that it is shown examples for, always as surely."""

    async def ask(self, messages: Messages) -> Reply:
        yes = len(messages) > 2 or "sex: Male" in messages[-1]["content"]
        sure = Reply(
            "Yes" if yes else "No",
            logprobs=(("Yes", -0.1 if yes else -2.3), ("No", -2.3)),
        )
        reply = await super().ask(messages)
        return sure if reply.logprobs else reply


@pytest.fixture(scope="module")
def report(census: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run over rows as they fall, each asked once."""
    out = tmp_path_factory.mktemp("rows")
    arms = ["zero", "balanced"]
    settings = Settings(m=4, n_test=SHOWN, base_parity=None, counterfactual=True)
    folder = evaluate(
        census, Partial(), arms, settings=settings, out=out / "run"
    ).folder
    (out / "report.html").write_text(render([folder]))
    return out / "report.html"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of an audit of 10,000 decisions."""
    out = tmp_path_factory.mktemp("large")
    half = MANY // 2
    third = MANY // 3
    frame = pd.DataFrame(
        {"sex": ["f", "m"] * half, "label": ["yes", "no", "no"] * third + ["no"]}
    )
    frame.assign(answer=["yes", "no"] * half).to_csv(out / "decisions.csv", index=False)
    made = audit_of_file(
        out / "decisions.csv",
        AuditOptions(protected=("sex",), answer="answer", label="label"),
    )
    (out / "audit.html").write_text(make_page(made.report(with_rows=True)))
    return out / "audit.html"


def browse(page: Page, report: Path) -> None:
    page.goto(report.as_uri())
    page.locator("details:has(> div.rows)").evaluate("part => part.open = true")
    page.locator(ITEMS).first.wait_for()


def choose(page: Page, place: int = 0) -> None:
    page.locator(f"{ITEMS} th button").nth(place).click()


def field(page: Page, name: str) -> Locator:
    return page.locator(f"[data-filter={name}]")


def count(page: Page) -> int:
    return int(
        page.locator(".rows-count").inner_text().partition(" ")[0].replace(",", "")
    )


def test_ten_thousand_rows_are_fifty_lines(page: Page, large: Path) -> None:
    """What is drawn does not grow with the rows, nor is it parsed before anybody looks."""
    page.goto(large.as_uri())
    assert page.locator(ITEMS).count() == 0
    browse(page, large)
    assert count(page) == MANY
    assert page.locator(ITEMS).count() == 50
    page.locator(".rows-later").click()
    assert (
        page.locator(f"{ITEMS} th").first.inner_text() == "row 52"
    )  # of the file, with its header
    assert page.locator(".rows-page").inner_text() == "51 to 100"
    page.locator(".rows-earlier").click()
    assert page.locator(".rows-earlier").is_disabled()
    assert large.stat().st_size < 1_000_000


def test_a_heading_sorts_by_its_column(page: Page, report: Path) -> None:
    browse(page, report)
    head = page.locator(f"{LIST} thead th").nth(1)
    for order, wanted in (
        ("ascending", sorted),
        ("descending", lambda texts: sorted(texts, reverse=True)),
    ):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == order
        groups = page.locator(f"{ITEMS} td:nth-child(2)").all_inner_texts()
        assert groups == wanted(groups)
    assert len(set(groups)) == 2


def test_filters_search_and_the_row_itself(page: Page, report: Path) -> None:
    browse(page, report)
    assert count(page) == SHOWN
    field(page, "show").select_option("unanswered")
    refused = count(page)
    assert 0 < refused < SHOWN
    field(page, "show").select_option("")
    field(page, "q").fill("i CANNOT say")
    assert count(page) == refused
    field(page, "q").fill("no row has this")
    assert count(page) == 0
    field(page, "q").fill("")
    field(page, "show").select_option("flips")
    field(page, "arm").select_option("zero")
    flips = count(page)
    field(page, "group").select_option("Female")
    assert 0 < count(page) < flips
    choose(page)
    shown = page.locator(ONE).inner_text()
    assert "shown as Male" in shown
    assert "(changed)" in shown
    assert re.search(r"\d\d\.\d %", shown)  # P(yes)
    assert page.locator(f"{ONE} pre").count() == 0  # on demand
    page.locator(f"{ONE} summary", has_text="Prompt of zero, shown as Male").click()
    assert "sex: Male" in page.locator(f"{ONE} pre").last.inner_text()


def test_what_a_model_wrote_stays_text(page: Page, report: Path) -> None:
    browse(page, report)
    field(page, "show").select_option("unanswered")
    choose(page)
    reply = page.locator(f"{ONE} td.reply").first.inner_text()
    assert reply == f"I cannot say. {EVIL}".replace("\u202e", "⟨U+202E⟩")
    assert page.locator("img").count() == 0
    assert "owned" not in page.title()


def test_the_keyboard_goes_everywhere(page: Page, report: Path) -> None:
    browse(page, report)
    page.locator(f"{ITEMS} th button").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.className") == "rows-one"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_axe_finds_nothing_and_nothing_overflows(
    browser: Browser, report: Path
) -> None:
    page = browser.new_page(viewport={"width": 400, "height": 800}, color_scheme="dark")
    browse(page, report)
    choose(page, 3)
    page.evaluate(
        "document.querySelectorAll('.rows-one details').forEach(part => part.open = true)"
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    violations = (
        Axe().run(page, context={"include": [["div.rows"]]}).response["violations"]
    )
    assert [
        (one["id"], [node["html"][:150] for node in one["nodes"]][:3])
        for one in violations
    ] == []
    page.close()


def test_paper_and_a_page_without_scripts_have_the_rest(
    browser: Browser, page: Page, report: Path
) -> None:
    browse(page, report)
    page.emulate_media(media="print")
    assert not page.locator(LIST).is_visible()
    plain = browser.new_page(java_script_enabled=False)
    plain.goto(report.as_uri())
    assert not plain.locator(LIST).is_visible()
    plain.locator("summary", has_text="Every row").click()
    assert "needs JavaScript" in plain.locator("div.rows").inner_text()
    plain.close()
