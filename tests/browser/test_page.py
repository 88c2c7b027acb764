"""The report in a real browser: three widths, light and dark, phone and paper."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Error, Page

from fwc_llm.report.formats import render
from tests.browser.conftest import EVIL
from tests.command import Run, read_json
from tests.report.conftest import write_run

pytestmark = pytest.mark.slow

WIDTHS = (360, 400, 1280, 1600)
SCHEMES = ("light", "dark")
# Elements whose right edge lies beyond the window, what only shows on paper or is meant to be cut
# left out.
OVERFLOWING = """() => [...document.querySelectorAll('body *')].filter(element => {
  if (element.closest('.watermark') || element.closest('thead') || element.closest('svg')) return false;
  if (element.closest('.scroll') && !element.matches('.scroll')) return false;
  const box = element.getBoundingClientRect();
  return box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map(element => element.outerHTML.slice(0, 120))"""

# Heads of columns and rows in which a word stands on two lines.
HEADS = r"""() => [...document.querySelectorAll('th')].filter(head => {
  const part = head.closest('thead'), hidden = part && getComputedStyle(part).position === 'absolute';
  if (hidden || !head.getBoundingClientRect().width) return false;
  const nodes = document.createTreeWalker(head, NodeFilter.SHOW_TEXT), range = document.createRange();
  for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
    for (const word of node.textContent.matchAll(/[^\s+\u002d]+/g)) {
      if (word[0].length > 30) continue;  // of no language
      range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) return true;
    }
  }
  return false;
}).map(head => head.textContent)"""
# Texts of the first screen that are smaller than 11 px.
SMALL = """() => [...document.querySelectorAll('.first *')].filter(
  element => element.textContent.trim() && parseFloat(getComputedStyle(element).fontSize) < 11
).map(element => element.outerHTML.slice(0, 120))"""


View = tuple[Page, list[str]]


@pytest.fixture(scope="module", params=zip(WIDTHS, SCHEMES * 2, strict=True), ids=str)
def view(
    browser: Browser, report: Path, request: pytest.FixtureRequest
) -> Iterator[View]:
    """The report opened from disk at every width, light and dark, all its parts unfolded; its
    requests.
    """
    width, scheme = request.param
    opened = browser.new_page(
        viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    sent: list[str] = []
    opened.on("request", lambda one: sent.append(one.url))
    opened.goto(report.as_uri(), wait_until="networkidle")
    opened.evaluate(
        "document.querySelectorAll('details').forEach(element => element.open = true)"
    )
    yield opened, sent
    opened.close()


def test_nothing_overflows_and_no_head_of_a_column_splits_in_a_word(view: View) -> None:
    assert view[0].evaluate(OVERFLOWING) == view[0].evaluate(HEADS) == []
    assert view[0].evaluate("document.documentElement.scrollWidth <= innerWidth")
    scrolling = (
        "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > "
        "e.clientWidth).length"
    )
    assert view[0].evaluate(scrolling) == 0


def test_no_request_leaves_the_page(view: View, report: Path) -> None:
    assert view[1] == [report.as_uri()]


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1280, "dark")])
def test_axe_finds_nothing(
    browser: Browser, report: Path, width: int, scheme: Any
) -> None:
    """Each width and each colour scheme, all parts unfolded (axe takes seconds, so not all
    pairs).
    """
    opened = browser.new_page(
        viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    opened.goto(report.as_uri())
    opened.evaluate(
        "document.querySelectorAll('details').forEach(element => element.open = true)"
    )
    # The charts' hundreds of dots are one image each to a reader: axe need not look at every dot.
    violations = (
        Axe().run(opened, context={"exclude": [["svg > *"]]}).response["violations"]
    )
    assert [
        (one["id"], [node["html"][:150] for node in one["nodes"]][:3])
        for one in violations
    ] == []
    opened.close()


def test_a_planted_script_stays_text(page: Page, report: Path) -> None:
    page.goto(report.as_uri())
    assert page.evaluate("[...document.scripts].map(e => e.type)") == [
        "application/json",
        "",
    ]  # ours
    page.evaluate(
        "document.querySelectorAll('details').forEach(element => element.open = true)"
    )
    assert page.locator("img").count() == 0
    assert EVIL[:-1] in page.locator("table.examples").all_inner_texts()[-1]
    assert "owned" not in page.title()


def test_the_pages_policy_stops_scripts_and_requests(page: Page, report: Path) -> None:
    """A second wall: markup that slipped through could neither run nor load."""
    page.goto(report.as_uri())
    page.evaluate(
        """() => { const script = document.createElement('script');
        script.append("document.title = 'owned'"); document.body.append(script); }"""
    )
    with pytest.raises(Error, match="TrustedHTML"):
        page.evaluate("document.body.innerHTML = '<b>markup from text</b>'")
    with page.expect_event("requestfailed") as stopped:
        page.evaluate("() => { new Image().src = 'http://127.0.0.1:9/x.png'; }")
    assert stopped.value.failure == "csp"
    assert "owned" not in page.title()


def test_it_reads_without_javascript(browser: Browser, report: Path) -> None:
    opened = browser.new_page(java_script_enabled=False)
    opened.goto(report.as_uri())
    assert opened.locator(".first table tbody tr").count() == 4  # true answers too
    opened.locator("summary", has_text="One full prompt").click()
    opened.locator("summary", has_text="zero").last.click()
    assert opened.locator("details[open] pre").first.is_visible()
    opened.close()


def test_a_term_is_defined_for_pointer_and_keyboard(page: Page, report: Path) -> None:
    page.goto(report.as_uri())
    tip = "e => getComputedStyle(e, '::after').content"
    term = page.locator(".first abbr").nth(1)
    assert term.evaluate(tip) == "none"
    term.focus()
    assert "difference in rates of yes between groups" in term.evaluate(tip)
    page.locator("h1").hover()
    page.keyboard.press("Tab")
    term.hover()
    assert "difference in rates of yes between groups" in term.evaluate(tip)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated report of ten arms, several of which differ, with a warning of lost rows."""
    folder = tmp_path_factory.mktemp("many")
    men = (0.3, 0.85)
    rates = {
        f"arm-{place}": {"Female": (0.1, 0.4 + place / 20), "Male": men}
        for place in range(10)
    }
    run = write_run(
        folder / "run", rates=rates, repeats=1, per_cell=(100, 300), simulated=True
    )
    results = read_json(run / "results.json")
    warning = (
        "groups lose rows unequally: Female 17.5%, Male 5.0%; results do not speak of who is left "
        "out"
    )
    lost = {
        "read": 1000,
        "kept": 900,
        "lost": 100,
        "reasons": {"no value in age": 100},
        "groups": [],
    }
    (run / "results.json").write_text(
        json.dumps(results | {"rows": lost | {"warning": warning}})
    )
    (folder / "page.html").write_text(render([folder / "run"], "html"))
    return folder / "page.html"


@pytest.mark.parametrize("arms", [3, 10])
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (400, 1350)])
def test_the_first_screen(
    browser: Browser, report: Path, many: Path, width: int, height: int, arms: int
) -> None:
    opened = browser.new_page(viewport={"width": width, "height": height})
    opened.goto((report if arms == 3 else many).as_uri())
    assert opened.locator(".first tbody tr").count() == arms + 1  # true answers too
    for part in ("p.answer", ".first table", ".first .line"):
        box = opened.locator(part).first.bounding_box()
        assert box["y"] + box["height"] <= height, part
    assert opened.locator("details[open]").count() == 0
    assert opened.evaluate(HEADS) == opened.evaluate(SMALL) == []
    assert pages(opened.pdf(format="A4")) <= 3
    opened.close()


def test_on_paper(
    page: Page, report: Path, run: Path, data_dir: Path, tmp_path: Path
) -> None:
    page.goto(report.as_uri())
    page.emulate_media(media="print", color_scheme="light")
    page.set_viewport_size({"width": 700, "height": 1000})
    assert (
        page.evaluate(OVERFLOWING) == page.evaluate(HEADS) == page.evaluate(SMALL) == []
    )
    assert page.locator(".legend").is_visible()
    assert (
        page.evaluate("getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert page.locator(".record .signature").is_visible()
    short = pages(page.pdf(format="A4"))
    assert short <= 3
    whole = tmp_path / "whole.html"
    whole.write_text(render([run], appendix=True))
    page.goto(whole.as_uri())
    page.emulate_media(media="print")
    assert (
        page.locator("details:not([open]) pre").first.evaluate(
            "e => e.getBoundingClientRect().height"
        )
        > 0
    )
    assert pages(page.pdf(format="A4")) > short


LOST = """() => [...document.querySelectorAll('.first td:has(.range)')].filter(td => {
  const [value, range] = ['.value', '.range'].map(e => td.querySelector(e).getBoundingClientRect());
  const apart = range.top >= value.bottom - 1 || value.right <= range.left;
  return !range.height || !apart;
}).length"""
MARKERS = """() => [...document.querySelectorAll('ul')].filter(ul => {
  const of = getComputedStyle(ul);
  return parseFloat(of.paddingLeft) < 1.25 * parseFloat(of.fontSize);
}).length"""


@pytest.mark.parametrize(("media", "width"), [("print", 700), ("screen", 400)])
def test_many_groups_keep_their_intervals_and_lists_their_marks(
    page: Page, fwc: Run, tmp_path: Path, media: Any, width: int
) -> None:
    decisions = pd.DataFrame({"group": [*"abcdefghij"] * 60})
    decisions["said"] = np.random.default_rng(0).choice(["yes", "no"], 600)
    decisions.to_csv(tmp_path / "decisions.csv", index=False)
    audit = f"audit {tmp_path / 'decisions.csv'} --answer said --protected group"
    fwc(f"{audit} --report {tmp_path / 'page.html'}", code=0)
    page.goto((tmp_path / "page.html").as_uri())
    page.emulate_media(media=media)
    page.set_viewport_size({"width": width, "height": 1000})
    assert page.locator(".first td .range").count() > 10
    assert page.evaluate(LOST) == page.evaluate(MARKERS) == 0


def pages(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page[^s]", pdf))
