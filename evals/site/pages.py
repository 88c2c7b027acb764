"""Which pages the site has, in which order, and how their links read there.

Pages are plain Markdown that a forge shows too. In the site those of `docs/` are at its root, all
others where they are in the checkout.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
DOCS = CHECKOUT / "docs"
START = "docs/README.md"
# The menu: paths in the checkout or of generated pages; a pattern stands for what is not listed
# before it. A page that does not exist (yet) is left out.
MENU: dict[str, tuple[str, ...]] = {
    "Using it": (
        "docs/start.md",
        "docs/choosing.md",
        "docs/notebooks/choosing.ipynb",
        "docs/own-data.md",
        "evals/walks/own-table.md",
        "evals/walks/safe-defaults.md",
        "evals/walks/monitor.md",
        "docs/notebooks/audit.ipynb",
        "docs/data-sets.md",
        "docs/report.md",
        "docs/duties.md",
        "docs/numbers.md",
        "docs/glossary.md",
        "docs/faq.md",
    ),
    "Models and runs": (
        "docs/models.md",
        "docs/decision-models.md",
        "evals/results/fairer-examples.md",
        "evals/real_model/counter/plan.md",
        "evals/results/real-model.md",
        "evals/real_model/plan.md",
        "docs/local-models.md",
        "docs/providers.md",
        "docs/in-your-application.md",
        "docs/running.md",
        "docs/tune.md",
        "docs/gates.md",
        "docs/monitor.md",
        "docs/fewer-questions.md",
        "docs/scaling.md",
        "docs/scikit-learn.md",
        "docs/cookbook.md",
        "docs/[!R]*.md",
    ),
    "Reference": (
        "reference/commands.md",
        "reference/fwc_llm.md",
        "reference/fwc_llm-*.md",
        "reference/fwc_llm.*.md",
        "evals/tasks/README.md",
        "prompts/README.md",
    ),
    "Background": (
        "docs/method.md",
        "docs/protocol.md",
        "docs/statistics.md",
        "docs/baselines.md",
        "evals/README.md",
        "evals/surrogate.md",
        "evals/results/*.md",
        "evals/results/paper/*.md",
    ),
    "Project": (
        "CONTRIBUTING.md",
        "docs/architecture.md",
        "docs/decisions/README.md",
        "docs/decisions/*.md",
        "SECURITY.md",
        "CHANGELOG.md",
    ),
}
UNLISTED = ("docs/releasing.md",)  # for maintainers: linked, and in no menu
_LATER = {
    "docs/method.md",
    "docs/protocol.md",
    "docs/statistics.md",
    "docs/baselines.md",
    "docs/architecture.md",
    "docs/releasing.md",
}
_FENCE = re.compile(r"^(?P<fence>```+)[^\n]*\n.*?^(?P=fence)[ \t]*$", re.S | re.M)
_LINK = re.compile(
    r"(?P<text>!?\[(?:[^][]|\[[^]]*\])*\])\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)"
)


def menu(made: Path) -> dict[str, list[str]]:
    """The menu with its patterns filled in, from the checkout and the generated pages in `made`."""
    taken: set[str] = {START}
    filled: dict[str, list[str]] = {}
    for caption, patterns in MENU.items():
        filled[caption] = []
        for pattern in patterns:
            if pattern.startswith("reference/"):
                root = made
            else:
                root = CHECKOUT
            found = sorted(path.relative_to(root).as_posix() for path in root.glob(pattern))
            plain = "*" not in pattern
            fresh = [one for one in found if one not in taken and (plain or one not in _LATER)]
            filled[caption] += fresh
            taken |= set(fresh)
    return filled


def place(source: str) -> str:
    """Where a page of the checkout is in the site's sources."""
    if source in {START, "README.md"}:
        return "index.md"
    return source.removeprefix("docs/").removesuffix(".ipynb") + (
        ".md" if source.endswith(".ipynb") else ""
    )


def stage(made: Path) -> dict[str, list[str]]:
    """Copy all pages of the checkout into `made`, with their links; return the menu."""
    filled = menu(made)
    listed = [START, *UNLISTED, *(page for pages in filled.values() for page in pages)]
    for page in listed:
        if page.endswith(".md") and not page.startswith("reference/"):
            text = (CHECKOUT / page).read_text(encoding="utf-8")
            alone = "---\norphan: true\n---\n\n" if page in UNLISTED else ""
            write(made, place(page), alone + moved(text, page, set(listed), made))
    index = made / "index.md"
    index.write_text(
        index.read_text(encoding="utf-8") + "\n".join(_contents(filled)), encoding="utf-8"
    )
    return filled


def write(made: Path, where: str, text: str) -> None:
    """Write a page of the site's sources."""
    path = made / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def moved(text: str, page: str, listed: set[str], made: Path) -> str:
    """The text of a page with the links of its place in the site; files that are no pages come
    along.
    """
    here = (CHECKOUT / page).parent

    def link(found: re.Match[str]) -> str:
        target = found["target"]
        anchor = found["anchor"] or ""
        if not target or re.match(r"[a-z]+:", target):
            return found[0]
        path = (here / target).resolve()
        there = path.relative_to(CHECKOUT).as_posix()
        if path.is_dir() and (path / "README.md").exists():
            path = path / "README.md"
            there = f"{there}/README.md"
        if there not in listed and there != "README.md":
            if path.is_dir():
                return f"{found['text'][1:-1]}"  # a folder without a page is only named
            copy = made / place(there)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        relative = os.path.relpath(place(there), os.path.dirname(place(page)) or ".")
        return f"{found['text']}({relative}{anchor})"

    return "".join(part if fenced else _LINK.sub(link, part) for fenced, part in _parts(text))


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """The text in pieces, with whether each is a fenced block."""
    end = 0
    for block in _FENCE.finditer(text):
        yield False, text[end : block.start()]
        yield True, block[0]
        end = block.end()
    yield False, text[end:]


def _contents(filled: dict[str, list[str]]) -> Iterator[str]:
    """The menu as hidden tables of contents."""
    for caption, pages in filled.items():
        yield f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n:titlesonly:\n"
        for page in pages:
            where = place(page).removesuffix(".md")
            yield f"Notebook: {Path(page).stem} <{where}>" if page.endswith(".ipynb") else where
        yield "```\n"
