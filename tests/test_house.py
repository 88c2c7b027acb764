"""The house rules that a reader relies on: what imports what, what stays light, what lies where."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "fwc_llm"

# Each room and what it may know of (architecture: imports run left to right only).
BASE = {"errors", "resources"}
KNOWS = {
    "errors": set(),
    "resources": set(),
    "taskfile": BASE,
    "data": BASE | {"taskfile", "tasks"},
    "tasks": BASE | {"taskfile", "data"},
    "coreset": BASE,
    "records": BASE | {"tasks"},
    "shots": BASE | {"tasks", "data", "coreset", "prompts", "models"},
    "prompts": BASE | {"tasks", "shots", "records", "models"},
    "models": BASE,
    "answers": BASE | {"models"},
    "metrics": BASE,
    "runs": BASE | {"tasks", "data", "coreset", "shots", "prompts", "models", "answers", "metrics"},
    "report": BASE | {"tasks", "data", "coreset", "shots", "prompts", "models", "answers", "metrics", "runs"},
}
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "cli" not in path.relative_to(PACKAGE).parts)


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fwc_llm."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("fwc_llm.")}
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_room_knows_only_the_rooms_before_it(path: Path) -> None:
    if path.parent == PACKAGE and path.stem in {"__init__", "__main__"}:
        return
    assert imported(path) - {room(path)} <= KNOWS[room(path)]


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
    ],
)
def test_imports_stay_light(statement: str, heavy: set[str]) -> None:
    assert not modules_after(statement) & heavy


def test_the_top_level_is_the_house_and_nothing_else() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    visible = {line.split("/")[0] for line in listed.stdout.splitlines() if not line.startswith(".")}
    assert visible == {
        "LICENSE", "NOTICE", "README.md", "evals", "fwc_llm", "prompts", "pyproject.toml", "tests",
    }  # fmt: skip


def test_only_the_command_line_prints() -> None:
    for path in SOURCES:
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call)
        ]
        assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"], path


def test_readme_and_ci_share_one_test_command() -> None:
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    script = (CHECKOUT / ".ci" / "run").read_text(encoding="utf-8")
    assert "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest" in readme
    for part in ("python3 -m venv .venv", "-e '.[test]'", ".venv/bin/pytest"):
        assert part in script
