"""The house rules that a reader relies on: what imports what, what stays light, what lies where."""

import ast
import graphlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "fwc_llm"

# The rooms from the ground up: each may know of those above it in this list, none of those below, and
# `KNOWS` narrows that where a room is meant to stand alone.
ORDER = (
    "errors", "apportion", "files", "lazy", "resources", "untrusted", "version", "notebook", "schema",
    "options", "taskfile",
    "coreset", "metrics", "data", "tasks", "records", "progress", "shots", "models", "answers",
    "testing", "prompts", "gates", "runs", "report", "evaluation", "inspect", "cli",
)  # fmt: skip
BASE = {
    "apportion", "errors", "files", "lazy", "notebook", "options", "resources", "schema", "untrusted",
    "version",
}  # fmt: skip
ALONE = {
    "taskfile": BASE,
    "coreset": BASE,
    "metrics": BASE,
    "models": BASE | {"coreset", "metrics"},
    "data": BASE | {"taskfile"},
}
SOURCES = sorted(path for path in PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def dotted(path: Path) -> str:
    """The module's full name."""
    parts = path.relative_to(CHECKOUT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


KNOWN = {dotted(path) for path in SOURCES}


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All of a file's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def modules(path: Path, types: bool = False) -> set[str]:
    """The modules of the package that a file imports, wherever in it; `types`: also those only types need."""
    for_types = {
        id(inner)
        for node in nodes(path)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found: set[str] = set()
    for node in nodes(path):
        if id(node) in for_types and not types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            # A package is needed only for names of its own; its modules stand for themselves.
            found |= parts if parts <= KNOWN else parts | {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("fwc_llm.")}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fwc_llm."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("fwc_llm.")}
    return names


def test_every_room_knows_only_the_rooms_before_it() -> None:
    for path in SOURCES:
        if path.parent == PACKAGE and path.stem in {"__init__", "__main__"}:
            continue
        here = room(path)
        below = set(ORDER[: ORDER.index(here)])
        assert imported(path) - {here} <= ALONE.get(here, below), path


def test_no_modules_import_each_other_in_a_circle() -> None:
    edges = {dotted(path): (modules(path, types=True) & KNOWN) - {dotted(path)} for path in SOURCES}
    try:
        tuple(graphlib.TopologicalSorter(edges).static_order())
    except graphlib.CycleError as error:
        pytest.fail(f"imports run in a circle: {' -> '.join(error.args[1])}")


def modules_after(statement: str) -> set[str]:
    command = [sys.executable, "-c", f"{statement}\nimport sys; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import fwc_llm", {"numpy", "pandas", "openai", "numba", "scipy", "jinja2"}),
        ("from fwc_llm import build_prompt", {"pandas", "openai", "numba", "scipy", "httpx2"}),
        ("import fwc_llm.cli", {"pandas", "openai", "numba", "scipy", "matplotlib", "jinja2"}),
        ("from fwc_llm import load_task", {"openai", "numba", "scipy"}),
        (
            "from fwc_llm import FwcError, Client, Model, Shots",
            {"numpy", "pandas", "openai", "rich", "jinja2"},
        ),
        ("import fwc_llm.testing.plugin", {"numpy", "pandas", "openai", "httpx2", "inspect_ai"}),
        ("import fwc_llm.inspect.log", {"pandas", "openai", "numba", "scipy", "inspect_ai"}),
        ("from fwc_llm import evaluate", {"pandas", "openai", "numba", "scipy", "rich", "IPython"}),
    ],
)
def test_imports_stay_light(statement: str, heavy: set[str]) -> None:
    assert not modules_after(statement) & heavy


def test_the_top_level_is_the_house_and_its_papers() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    visible = {line.split("/")[0] for line in listed.stdout.splitlines() if not line.startswith(".")}
    folders = {"docs", "evals", "fwc_llm", "prompts", "tests"}
    papers = {name for name in visible if name.endswith((".md", ".cff")) or name in {"LICENSE", "NOTICE"}}
    assert visible - papers - {"docs"} == (folders - {"docs"}) | {"Containerfile", "pyproject.toml"}


def private_names(path: Path) -> list[str]:
    """The private names that a file imports, reads off an object or replaces; `self._x` and `__x__` may."""
    names: list[str] = []
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") not in {"self", "cls"}:
            names.append(node.attr)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "setattr":
            names += [str(node.value) for node in node.args[1:2] if isinstance(node, ast.Constant)]
    return [name for name in names if re.fullmatch(r"_[^_].*(?<!_)", name)]


def test_tests_use_public_names_alone() -> None:
    assert {
        path: names for path in (CHECKOUT / "tests").rglob("*.py") if (names := private_names(path))
    } == {}


def test_only_the_command_line_prints() -> None:
    for path in (path for path in SOURCES if room(path) != "cli"):
        calls = [node for node in nodes(path) if isinstance(node, ast.Call)]
        assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"], path


def test_readme_and_ci_share_one_test_command() -> None:
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    script = (CHECKOUT / ".ci" / "run").read_text(encoding="utf-8")
    assert "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest" in readme
    for part in ("python3 -m venv ", "pip install --quiet -e '.[test]'", "\npytest\n"):
        assert part in script
