"""The site builds without a warning, asks no other host, leaves out no name; its notebooks are
true.
"""

import json
import re
import struct
import tomllib
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from playwright.sync_api import Browser

from evals.site import api, build, commands, notebooks, pages
from tests.browser.conftest import browser as browser

# MyST's own use of what Sphinx 11 will drop.
pytestmark = pytest.mark.filterwarnings("ignore:.*MystReferenceResolver")
CHECKOUT = pages.CHECKOUT
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
NOTEBOOKS = sorted(notebooks.FOLDER.glob("*.ipynb"))


class Links(HTMLParser):
    """What a page refers to: links, what it loads by itself, and the places in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.places: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        elif tag == "link" and given.get("rel") != "canonical":
            self.loaded.add(given.get("href", ""))
        if "src" in given:
            self.loaded.add(given["src"])


def links_lead_somewhere_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    read = {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(read) > 50
    for path, found in read.items():
        assert not [one for one in found.loaded if re.match(r"(?:[a-z]+:)?//", one)], path
        for link in found.links | found.loaded:
            if re.match(r"(?:https?|mailto|data):", link):
                continue
            target, place = urldefrag(link)
            if target:
                there = (path.parent / unquote(target.partition("?")[0])).resolve()
            else:
                there = path
            assert there.is_file(), f"{path.name} links to {link}"
            if there.suffix == ".html":
                assert unquote(place) in read[there].places, (
                    f"{path.name} links to {link}: no such place"
                )
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), (
            style
        )


def every_page_of_the_manual_is_in_the_menu(site: Path) -> None:
    menu = (site / "index.html").read_text(encoding="utf-8")
    for page in [*pages.DOCS.rglob("*.md"), *NOTEBOOKS]:
        where = pages.place(page.relative_to(CHECKOUT).as_posix()).removesuffix(".md")
        unlisted = page.relative_to(CHECKOUT).as_posix() in pages.UNLISTED
        assert (
            where == "index" or unlisted or f'"{where}.html"' in menu or f'"{where}.html#' in menu
        ), page


def every_public_name_and_every_option_has_its_place(site: Path) -> None:
    for module in api.MODULES:
        page = (site / "reference" / f"{module}.html").read_text(encoding="utf-8")
        for name in import_module(module).__all__:
            assert f">{name}</span></code>" in page, f"{module}.{name}"
    for name, command in commands.every_command():
        page = (site / "reference" / f"{name.replace(' ', '-')}.html").read_text(encoding="utf-8")
        for one in command.params:
            for option in one.opts if one.param_type_name == "option" and not one.hidden else ():
                assert f">{option}</span>" in page, f"{name} {option}"


def pages_ask_no_other_host_fit_a_phone_and_can_be_searched(site: Path, browser: Browser) -> None:
    for page, width in (("index", 390), ("reference/fwc_llm", 390), ("notebooks/choosing", 1300)):
        window = browser.new_page(viewport={"width": width, "height": 800})
        asked: list[str] = []
        window.on("request", lambda request, asked=asked: asked.append(request.url))  # type: ignore[misc]
        window.goto((site / f"{page}.html").as_uri())
        assert asked
        assert not [url for url in asked if not url.startswith(("file:", "data:"))]
        assert window.evaluate("document.documentElement.scrollWidth <= innerWidth"), page
        assert window.evaluate("[...document.images].every(one => one.naturalWidth > 0)"), page
        window.close()
    window = browser.new_page(viewport={"width": 1280, "height": 900})
    wide = "[...document.querySelectorAll('pre')].some(one => one.scrollWidth > one.clientWidth)"
    for page in (*api.TOPICS, *api.MODULES):
        window.goto((site / "reference" / f"{page}.html").as_uri())
        assert window.evaluate("document.documentElement.scrollHeight") < 13_000, page
        assert not window.evaluate(wide), page
    window.goto((site / "search.html").as_uri() + "?q=plain+words")
    window.wait_for_selector("ul.search li a")
    assert "The numbers in plain words" in window.inner_text("ul.search")
    window.close()


@pytest.mark.slow
def test_the_site(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> None:
    """Built once; a warning fails it, and the broken link is named on standard error."""
    site = tmp_path_factory.mktemp("site")
    assert build.build(tmp_path_factory.mktemp("made"), site) == 0
    links_lead_somewhere_and_nothing_is_loaded_from_elsewhere(site)
    every_page_of_the_manual_is_in_the_menu(site)
    every_public_name_and_every_option_has_its_place(site)
    pages_ask_no_other_host_fit_a_phone_and_can_be_searched(site, browser)


def said(notebook: dict[str, object]) -> list[str]:
    """What the cells print and the text of their values; without pictures and choices of the
    solver.

    Nor is the notice counted that some of the solver is compiled: which tests ran before decides on
    that.
    """
    passing = ("<Figure", "census.data:", "compiling the solver for this machine")
    return [
        text for text in notebooks.texts(notebook) if not any(words in text for words in passing)
    ]


@pytest.mark.slow
def test_notebooks_run_in_one_folder_and_say_what_they_said(tmp_path: Path) -> None:
    """Prints are compared; pictures, and rows that the solver chose, may change with versions."""
    for path in NOTEBOOKS:
        kept = json.loads(path.read_text(encoding="utf-8"))
        assert len(said(kept)) >= 4
        assert said(notebooks.run(path, tmp_path)) == said(kept)
        assert "image/png" in path.read_text(encoding="utf-8")
        first = next(
            "".join(cell["source"]) for cell in kept["cells"] if cell["cell_type"] == "code"
        )
        assert "%pip install" in first.partition("\n")[0]


def test_notebooks_keep_no_error_and_no_path_of_a_machine() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["audit", "choosing"]
    for path in NOTEBOOKS:
        text = path.read_text(encoding="utf-8")
        assert '"output_type": "error"' not in text
        assert not re.search(r"/(?:home|root|tmp|Users)/", text)
        assert path.stat().st_size < 200_000


def test_every_address_of_the_readme_is_a_file_of_the_checkout() -> None:
    host = r"https://(?:raw\.githubusercontent|github)\.com"
    found = re.findall(rf"\({host}(/[\w-]+/[\w.-]+)/(?:blob/)?main/([^)#]+)(#[^)]*)?\)", README)
    assert len(found) > 10
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {url.removesuffix("/") for url in project.get("urls", {}).values()}
    (base,) = {f"https://github.com{repository}" for repository, _, _ in found}
    assert not declared or base in declared, (
        f"README.md links to {base}; pyproject.toml says {declared}"
    )
    for _, path, section in found:
        assert (CHECKOUT / path).is_file(), path
        assert not section, "sections move; link to the page"
    relative = re.findall(r"\]\((?!https?://)([^)]*)\)", README)
    assert not [one for one in relative if not one.startswith("#")], (
        "the package index cannot follow these"
    )


def test_the_readme_is_one_screen_and_shows_a_small_picture() -> None:
    assert len(README.splitlines()) <= 100
    picture = (CHECKOUT / "docs" / "pictures" / "recorded.png").read_bytes()
    width, height = struct.unpack(">II", picture[16:24])
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 200_000
    assert 600 < width < 1600
    assert height > 400
