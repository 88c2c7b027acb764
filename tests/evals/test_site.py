"""The site builds without a warning, asks no other host, leaves out no name; its notebooks are
true.
"""

import inspect
import re
import struct
from importlib import import_module
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from evals.site import notebooks
from tests.browser.conftest import browser as browser
from tests.command import python, read_json
from tests.conftest import PYPROJECT

CHECKOUT = notebooks.CHECKOUT
README = (CHECKOUT / "README.md").read_text()
MODULES = (
    "fwc_llm",
    "fwc_llm.coreset",
    "fwc_llm.shots",
    "fwc_llm.models",
    "fwc_llm.gates",
    "fwc_llm.testing",
    "fwc_llm.inspect",
)
NOTEBOOKS = sorted(notebooks.FOLDER.glob("*.ipynb"))


def every_public_name_and_every_option_has_its_place(site: Path) -> None:
    reference = site / "evals" / "site" / "reference"
    described = "".join(path.read_text() for path in reference.glob("*.html"))
    for module in MODULES:
        package = import_module(module)
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                assert f'<span class="pre">{name}</span></span>' in described, name
    for option in ("--fail-if", "--prices", "--negative"):
        assert option in described, option


def pages_ask_no_other_host_fit_a_phone_and_can_be_searched(
    site: Path, browser: Browser
) -> None:
    for page, width in (
        ("index", 390),
        ("evals/site/reference/fwc_llm", 390),
        ("docs/notebooks/choosing", 1300),
    ):
        window = browser.new_page(viewport={"width": width, "height": 800})
        asked: list[str] = []
        window.on("request", lambda request, asked=asked: asked.append(request.url))  # type: ignore[misc]
        window.goto((site / f"{page}.html").as_uri())
        window.wait_for_selector(
            "article"
        )  # the first page forwards to that of the manual
        assert asked
        assert not [url for url in asked if not url.startswith(("file:", "data:"))]
        assert window.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            page
        )
        assert window.evaluate(
            "[...document.images].every(one => one.naturalWidth > 0)"
        ), page
        window.close()
    window = browser.new_page(viewport={"width": 1280, "height": 900})
    window.goto((site / "search.html").as_uri() + "?q=plain+words")
    window.wait_for_selector("ul.search li a")
    assert "The numbers in plain words" in window.inner_text("ul.search")
    window.close()


@pytest.mark.slow
def test_the_site(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> None:
    """Sphinx fails for a broken link, and for a page that the menu lacks.

    In a process of its own: autodoc writes annotations into Pydantic's BaseModel, after which no
    class that allows other fields can be made.
    """
    site = tmp_path_factory.mktemp("site")
    python("-m", "evals.site", "-o", site, cwd=CHECKOUT)
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
        text
        for text in notebooks.texts(notebook)
        if not any(words in text for words in passing)
    ]


@pytest.mark.slow
def test_notebooks_run_in_one_folder_and_say_what_they_said(tmp_path: Path) -> None:
    """Prints are compared; pictures, and rows that the solver chose, may change with versions."""
    for path in NOTEBOOKS:
        kept = read_json(path)
        assert len(said(kept)) >= 4
        assert said(notebooks.run(path, tmp_path)) == said(kept)
        assert "image/png" in path.read_text()
        first = next(
            "".join(cell["source"])
            for cell in kept["cells"]
            if cell["cell_type"] == "code"
        )
        assert "%pip install" in first.partition("\n")[0]


def test_notebooks_keep_no_error_and_no_path_of_a_machine() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["audit", "choosing"]
    for path in NOTEBOOKS:
        text = path.read_text()
        assert '"output_type": "error"' not in text
        assert not re.search(r"/(?:home|root|tmp|Users)/", text)
        assert path.stat().st_size < 200_000


def test_every_address_of_the_readme_is_a_file_of_the_checkout() -> None:
    host = r"https://(?:raw\.githubusercontent|github)\.com"
    found = re.findall(
        rf"\({host}(/[\w-]+/[\w.-]+)/(?:blob/)?main/([^)#]+)(#[^)]*)?\)", README
    )
    assert len(found) > 10
    declared = {url.removesuffix("/") for url in PYPROJECT["project"]["urls"].values()}
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
