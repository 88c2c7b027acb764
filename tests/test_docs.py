"""The pages are true: links and citations resolve, versions agree, the architecture is that of
the code.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import fwc_llm
from fwc_llm import coreset
from fwc_llm.cli.program import every_command
from fwc_llm.version import __version__
from tests.conftest import CHECKOUT, PYPROJECT
from tests.test_house import PACKAGE, SOURCES, nodes

FENCE = re.compile(
    r"^(?P<fence>```+)(?P<kind>\w*)[^\n]*\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.S | re.M
)
_PAGE = re.compile(r"[\w./-]*\w\.md\b")
_CITATION = re.compile(
    r'(?P<page>docs/[\w./-]+\.md)(?P<sections>(?:(?:,| and|, and)? "[^"]+")*)'
)


def tracked(*patterns: str) -> list[Path]:
    """Files of the repository, those not yet committed included."""
    command = [
        "git",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        *patterns,
    ]
    listed = subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout
    return sorted(
        CHECKOUT / line
        for line in set(listed.splitlines())
        if (CHECKOUT / line).is_file()
    )


def name(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


PAGES = tracked("*.md")
MODULES = tracked("fwc_llm/*.py", "evals/*.py", "tests/*.py")


@cache
def titles(page: Path) -> tuple[str, ...]:
    """The headings of a page as a reader sees them."""
    text = FENCE.sub("", page.read_text())
    return tuple(
        re.sub(r"[`*]", "", found) for found in re.findall(r"^#+ +(.+?) *$", text, re.M)
    )


def docstrings(path: Path) -> Iterator[str]:
    """The docstrings of a file, each on one line."""
    for node in nodes(path):
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ):
            yield " ".join((ast.get_docstring(node) or "").split())


def prose(path: Path) -> Iterator[str]:
    """Docstrings and blocks of comments, each on one line."""
    yield from docstrings(path)
    comments: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] > last + 1:
                yield " ".join(comments)
                comments = []
            comments.append(token.string.lstrip("# "))
            last = token.start[0]
    yield " ".join(comments)


def test_every_page_and_section_that_code_cites_exists() -> None:
    citing = [path for path in MODULES if ".md" in path.read_text()]
    for module, text in ((path, text) for path in citing for text in prose(path)):
        for page in _PAGE.findall(text):
            assert (CHECKOUT / page).is_file(), (
                f"{name(module)} cites {page}: no such page"
            )
        for found in _CITATION.finditer(text):
            for section in re.findall('"([^"]+)"', found["sections"]):
                assert section in titles(CHECKOUT / found["page"]), (
                    f"{name(module)} cites {found[0]}"
                )


def test_citation_and_changelog_have_the_version() -> None:
    citation = (CHECKOUT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.+)$", citation, re.M) == [__version__]
    changelog = (CHECKOUT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{re.escape(__version__)}\]", changelog, re.M)
    assert "## [Unreleased]" in changelog


def test_readme_and_hooks_run_what_ci_runs() -> None:
    script = (CHECKOUT / ".ci" / "run").read_text()
    hooks = (CHECKOUT / ".pre-commit-config.yaml").read_text()
    in_ci = re.findall(r"^ *((?:ruff|mypy|pytest)\b.*?) *$", script, re.M)
    entries = re.findall(r"^ +entry: (.+)$", hooks, re.M)
    assert entries == list(dict.fromkeys(line for line in in_ci if " -m " not in line))
    page = (CHECKOUT / "CONTRIBUTING.md").read_text()
    assert all(f"`{entry}`" in page for entry in entries)
    readme = (CHECKOUT / "README.md").read_text()
    assert (
        "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest"
        in readme
    )
    for part in (
        "python3 -m venv ",
        "pip install --quiet --no-compile -e '.[test]'",
        " pytest\n",
    ):
        assert part in script


def test_the_way_to_every_room_is_named_and_no_file_that_is_gone() -> None:
    text = (CHECKOUT / "CONTRIBUTING.md").read_text()
    page = text.partition("## Find your way")[2].partition("\n## ")[0]
    for folder in {path.parent for path in SOURCES if path.parent.parent == PACKAGE}:
        assert f"{folder.name}/" in page, (
            f"CONTRIBUTING.md does not name {name(folder)}"
        )
    for row in page.splitlines():
        rooms = [
            PACKAGE,
            CHECKOUT,
        ]  # and those that the row has named, whose files stand without them
        for path in re.findall(r"`([\w/]*(?:/|\.py))(?=[ `])", row):
            files = [room / path for room in rooms if (room / path).exists()]
            assert files, f"{path} is gone"
            rooms.insert(0, files[0] if path.endswith("/") else files[0].parent)


def test_the_manual_is_short_and_each_page_opens_with_a_command() -> None:
    texts = {page: page.read_text() for page in PAGES if name(page.parent) == "docs"}
    assert len(texts) <= 20
    words = [
        word
        for text in texts.values()
        for word in re.sub(r"\]\([^)]*\)", "]", FENCE.sub("", text)).split()
        if re.search("[a-z]", word, re.I)
    ]
    assert len(words) <= 16_000, "words outside code and addresses"
    for page, text in texts.items():
        heading, _, opening = text.partition("\n")
        assert heading.startswith("# "), name(page)
        before_command, _, command = opening.partition("```")
        assert "fwc" in command.partition("```")[0], name(page)
        assert len(before_command.split()) <= 120, name(page)


def options(command: Any) -> Iterator[Any]:
    """The options and arguments of a command and its subcommands, with help."""
    yield from (option for option in command.params if getattr(option, "help", None))
    for inner in getattr(command, "commands", {}).values():
        yield from options(inner)


def defaults() -> dict[str, set[str]]:
    """The defaults of every flag, over all commands."""
    found: dict[str, set[str]] = {}
    for option in options(every_command()):
        words = re.search(r"\[default: ([\d.]+)", option.help)
        found.setdefault(option.opts[0], set()).add(
            words[1].rstrip(".") if words else str(option.default)
        )
    return found


def test_defaults_on_pages_are_those_of_the_code() -> None:
    """`--flag` (N), `--flag` word (N), N words (`--flag`), and rows of a table `--flag` |
    meaning | N |.
    """
    known = defaults()
    seen = set()
    for page in PAGES:
        if page.parent.name == "docs":
            text = page.read_text()
        else:
            text = ""
        stated = re.findall(r"`(--[a-z-]+)`(?: [a-z]+)?\s\(([\d.,]+)\)", text)
        stated += re.findall(r"^\| `(--[a-z-]+)` \|[^|]*\| ([\d.,]+) \|$", text, re.M)
        stated += [
            pair[::-1]
            for pair in re.findall(r"\b([\d,]+) [a-z ]+\s\(`(--[a-z-]+)`\)", text)
        ]
        for flag, number in stated:
            assert float(number.replace(",", "")) in {
                float(value) for value in known[flag] if re.fullmatch(r"[\d.]+", value)
            }, f"{name(page)}: {flag} ({number})"
            seen.add(flag)
    assert {"--m", "--epsilon", "--seed", "--candidates"} <= seen


def test_every_public_name_has_an_example_on_a_page() -> None:
    """A name that is imported alone has none; and every public attribute of a task has one."""
    pages = [page.read_text() for page in PAGES if name(page).startswith("docs/")]
    blocks = FENCE.finditer("\n".join(pages))
    code = "".join(block["body"] for block in blocks if block["kind"] == "python")
    nodes_of = list(ast.walk(ast.parse(code)))
    shown = {getattr(node, "id", "") for node in nodes_of}
    shown |= {f".{getattr(node, 'attr', '')}" for node in nodes_of}
    assert {*fwc_llm.__all__, *coreset.__all__} <= shown
    of_tasks = {*dir(fwc_llm.Task), *fwc_llm.Task.__dataclass_fields__}
    assert {f".{name}" for name in of_tasks if name[0] != "_"} <= shown


def test_every_extra_that_is_named_exists() -> None:
    for path in (*SOURCES, *(page for page in PAGES if page.name != "CHANGELOG.md")):
        text = path.read_text()
        named = re.findall(
            r"fwc-llm\[(\w+)\]|\bextra \[?`?(\w+)[\]`]|Extra: `?(\w+)", text
        )
        for extra in filter(None, (word for found in named for word in found)):
            assert extra in PYPROJECT["project"]["optional-dependencies"], (
                f"{name(path)} names the extra {extra}"
            )
