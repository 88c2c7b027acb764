"""The house rules that a reader relies on: what imports what, what stays light, what lies where."""

import ast
import graphlib
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import fwc_llm
from tests.command import python
from tests.conftest import CHECKOUT

PACKAGE = CHECKOUT / "fwc_llm"

# The rooms from the ground up: each may know of those above it in this list, none of those below,
# and `ALONE` narrows that where a room is meant to stand alone.
ORDER = (
    "sanitize",
    "number_format",
    "notices",
    "errors",
    "apportion",
    "files",
    "lazy",
    "user_code",
    "version",
    "notebook",
    "plotting",
    "validation",
    "options",
    "words",
    "taskfile",
    "cell_rules",
    "meaning",
    "coreset",
    "metrics",
    "progress",
    "data",
    "tasks",
    "prompt_rows",
    "shots",
    "models",
    "answers",
    "testing",
    "prompts",
    "gates",
    "runs",
    "report",
    "evaluation",
    "inspect",
    "cli",
)
BASE = set(ORDER[: ORDER.index("taskfile")])
ALONE = {
    "taskfile": BASE,
    "coreset": BASE,
    "metrics": BASE,
    "models": BASE | {"coreset", "metrics"},
    "data": BASE | {"taskfile", "cell_rules", "meaning", "progress"},
}
SOURCES = sorted(PACKAGE.rglob("*.py"))


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
    return list(ast.walk(ast.parse(path.read_text())))


def modules(path: Path) -> set[str]:
    """The modules of the package that a file imports, wherever in it, for types alone too."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            # A package is needed only for names of its own; its modules stand for themselves.
            found |= parts if parts <= KNOWN else parts | {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("fwc_llm.")}


def test_every_room_knows_only_the_rooms_before_it() -> None:
    for path in SOURCES:
        if path.parent == PACKAGE and path.stem in {"__init__", "__main__"}:
            continue
        here = room(path)
        below = set(ORDER[: ORDER.index(here)])
        imported = {name.split(".")[1] for name in modules(path)} & set(ORDER)
        assert imported - {here} <= ALONE.get(here, below), path


def test_no_modules_import_each_other_in_a_circle() -> None:
    edges = {dotted(path): (modules(path) & KNOWN) - {dotted(path)} for path in SOURCES}
    try:
        tuple(graphlib.TopologicalSorter(edges).static_order())
    except graphlib.CycleError as error:
        pytest.fail(f"imports run in a circle: {' -> '.join(error.args[1])}")


# Names of files that rooms still share; nothing new may come to them.
SHARED_FILES = {"base", "monitor", "registry", "tune", "warm_up"}


def test_no_two_classes_and_no_two_files_have_one_name() -> None:
    classes = Counter(
        n.name for path in SOURCES for n in nodes(path) if isinstance(n, ast.ClassDef)
    )
    files = Counter(path.stem for path in SOURCES if path.stem != "__init__")
    assert {name for name, number in classes.items() if number > 1} == set()
    assert {name for name, number in files.items() if number > 1} <= SHARED_FILES


# In this order: each loads nothing that a later one must not load.
LIGHT = (
    ("import fwc_llm.testing.plugin", {"numpy", "openai", "httpx2", "inspect_ai"}),
    (
        "from fwc_llm import FwcError, Client, Model, Shots",
        {"numpy", "openai", "rich", "jinja2"},
    ),
    (
        "from fwc_llm import load_task\nload_task('adult').features; load_task('census').shown",
        {"numpy", "openai"},
    ),
    (
        "from fwc_llm import evaluate",
        {"pandas", "openai", "numba", "scipy", "rich", "IPython"},
    ),
    ("from fwc_llm import build_prompt", {"httpx2"}),
    ("import fwc_llm.inspect.log", {"pandas", "scipy", "inspect_ai"}),
    ("import fwc_llm.shots.baselines", {"openai", "numba", "sklearn"}),
    ("import fwc_llm.shots.coresets", {"sklearn", "scipy.stats", "scipy.optimize"}),
    ("import fwc_llm.coreset.estimator", {"dask"}),
)


def test_imports_stay_light() -> None:
    steps = [
        f"{statement}\nprint({heavy} & {{*sys.modules}})" for statement, heavy in LIGHT
    ]
    loaded = python("-c", "\n".join(["import sys", *steps])).stdout.splitlines()
    assert loaded == ["set()"] * len(LIGHT)


def private_names(path: Path) -> list[str]:
    """The private names that a file imports, reads off an object or replaces; `self._x` and
    `__x__` may.
    """
    names: list[str] = []
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") not in {
            "self",
            "cls",
        }:
            names.append(node.attr)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "setattr":
            names += [
                str(node.value)
                for node in node.args[1:2]
                if isinstance(node, ast.Constant)
            ]
    return [name for name in names if re.fullmatch(r"_[^_].*(?<!_)", name)]


def test_tests_use_public_names_alone() -> None:
    for path in (CHECKOUT / "tests").rglob("*.py"):
        assert private_names(path) == [], path


def test_only_the_command_line_prints() -> None:
    for path in (path for path in SOURCES if room(path) != "cli"):
        calls = [node for node in nodes(path) if isinstance(node, ast.Call)]
        assert not [
            c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"
        ], path


WRITERS = {
    "write_bytes",
    "to_csv",
    "to_parquet",
    "to_excel",
    "to_json",
    "savefig",
    "tofile",
    "copyfile",
    "copytree",
}
ELSEWHERE = {  # written in memory, into a temporary folder, or as a new folder
    ("report/records_csv.py", "to_csv"),
    ("plotting.py", "savefig"),
    ("evaluation/verification.py", "copytree"),
    ("cli/task.py", "copytree"),
}


def writes(node: ast.AST) -> str:
    """The name of a function that is called to write a file; empty for all other nodes."""
    if not isinstance(node, ast.Call):
        return ""
    name = str(getattr(node.func, "attr", getattr(node.func, "id", "")))
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    modes = [value.value for value in values if isinstance(value, ast.Constant)]
    opens = any(re.fullmatch(r"[rbt]*[wxa+][rwxabt+]*", str(mode)) for mode in modes)
    alone = name in WRITERS or (
        name == "write_text" and len(node.args) == 1
    )  # of `RunFolder` it takes two
    if alone or (opens and name in {"open", "fdopen", "ZipFile"}):
        return name
    return ""


def test_percentages_have_one_form() -> None:
    """That of `number_format.percent`, with a space; no format of Python's."""
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r":[.,\d]*%\}|\d\}%[\s)]", path.read_text())
    }
    assert not found


def test_files_are_written_by_one_module() -> None:
    """`write_whole` and `whole_file` write whole files, or none, and follow no planted link."""
    found = {
        (path.relative_to(PACKAGE).as_posix(), writes(node))
        for path in SOURCES
        for node in nodes(path)
    }
    assert {
        (file, name) for file, name in found if name and file != "files.py"
    } == ELSEWHERE


# --- The public functions explain every parameter they take


PUBLIC = [
    ("fwc_llm", "load_task"),
    ("fwc_llm", "select_shots"),
    ("fwc_llm", "build_prompt"),
    ("fwc_llm", "evaluate"),
    ("fwc_llm", "Settings"),
    ("fwc_llm", "Client"),
    ("fwc_llm.coreset", "FairCoreset"),
    ("fwc_llm.coreset.transport.inner_problem", "fair_transport"),
    ("fwc_llm.models", "open_model"),
    ("fwc_llm.models.openai.chat", "ChatModel"),
    ("fwc_llm.shots", "load_shots"),
    ("fwc_llm.shots", "save_shots"),
    ("fwc_llm.runs.splits", "draw_split"),
    ("fwc_llm", "parse_answer"),
    ("fwc_llm.answers", "p_yes"),
]


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=str)
def test_every_parameter_is_explained(module: str, name: str) -> None:
    documented: Callable[..., Any] = getattr(importlib.import_module(module), name)
    words = set(re.findall(r"\w+", inspect.getdoc(documented) or ""))
    for parameter in inspect.signature(documented).parameters.values():
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            assert parameter.name in words


# --- The public face


def test_every_public_name_is_there_for_type_checkers_too() -> None:
    for name in fwc_llm.__all__:
        assert getattr(fwc_llm, name) is not None
    with pytest.raises(AttributeError, match="evaluat"):
        fwc_llm.evaluat  # type: ignore[attr-defined]  # noqa: B018
    imports = [
        node
        for node in nodes(PACKAGE / "__init__.py")
        if isinstance(node, ast.ImportFrom)
    ]
    names = {alias.asname or alias.name for node in imports for alias in node.names}
    assert names - {"TYPE_CHECKING", "__version__", "lazy_names"} == set(
        fwc_llm.__all__
    )
    assert dir(fwc_llm) == fwc_llm.__all__ == sorted(fwc_llm.__all__)


def test_one_statement_does_one_thing() -> None:
    """Packed assignments, conditional expressions and `:=`, of 1,000 statements; fmt: skip hides lines."""
    statements = 0
    found = Counter[str]()
    for path in SOURCES:
        for node in nodes(path):
            statements += isinstance(node, ast.stmt)
            found["conditional"] += isinstance(node, ast.IfExp)
            found["walrus"] += isinstance(node, ast.NamedExpr)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
                found["packed"] += isinstance(node.targets[0], ast.Tuple)
        text = path.read_text(encoding="utf-8")
        assert "fmt: skip" not in text, path
        assert max(map(len, text.splitlines()), default=0) <= 100, path
    share = {kind: 1000 * number / statements for kind, number in found.items()}
    assert share["packed"] <= 8
    assert share["conditional"] <= 30
    assert share["walrus"] <= 3
