"""In a folder full of a stranger's Python files, no command and no step of the Action runs one
of them.
"""

import csv
import json
import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

import pytest

from fwc_llm.cli.program import MODULES
from tests.command import python
from tests.test_action import ACTION, GitHub, audit, github

__all__ = ["github"]

_IMPORTS = re.compile(rb"^[ \t]*(?:import|from)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_PLANTED = (
    "import os\nopen(os.environ['RAN'], 'a').write(__name__ + '\\n')\nraise "
    "ImportError(__name__)\n"
)
_MAIN = """
import json, shlex, sys
from fwc_llm.cli import main
for line in json.loads(sys.argv.pop(1)):
    sys.argv[1:] = shlex.split(line)
    try:
        main()
    except SystemExit as ended:
        sys.exit(f"{line} ended with {ended.code}")
"""
_RULES = """
def choose(request):
    import helpers
    return helpers.first(request)


def ask(messages):
    return "Yes"
"""
_HELPERS = """
from fwc_llm.shots.examples import make_shots


def first(request):
    return make_shots(request, "first", range(request.m))
"""
_ASKED = "--task loans.toml --n-test 12"
_OWN = "--model python:rules:ask"
_DECISIONS = "decisions.csv --answer said --protected sex"
COMMANDS = [
    "task init loans.csv -o loans.toml --outcome paid --protected sex",
    "task check loans.toml",
    "task copy adult",
    "task freeze loans.toml -o frozen.json",
    "template init wording",
    "tasks",
    "prompt --task loans.toml --shots zero --row 1",
    "power --task loans.toml --n-test 12",
    "shots --task loans.toml --m 4",
    f"eval {_ASKED} --model baseline --shots fwc --m 4 --out run",
    "report run",
    "compare run run",
    "gate run --fail-if 'dp_gap > 1' --undecided pass",
    "verify run",
    "rescore run",
    f"audit {_DECISIONS} --report audit.html",
    f"monitor {_DECISIONS} --key id --state state.db --fail-if 'dp_gap > 0.9'",
    "warm-up",
    # At the end: these find the user's own files, and still none that they did not name.
    f"eval {_ASKED} {_OWN} --shots zero --out own-model",
    f"tune {_ASKED} {_OWN} --rows 40 --target-dp 0.9 --out tuned",
    f"eval {_ASKED} --model baseline --shots rules:choose --out own-strategy",
]


def _imported() -> set[str]:
    """All names that our dependencies and theirs import somewhere, also where it is optional."""
    found = set[str]()
    left = ["fwc-llm", "inspect-ai", "pyarrow", "openpyxl", "matplotlib"]
    seen = set[str]()
    while left:
        name = re.split(r"[^\w.-]", left.pop())[0].lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            left += [line for line in requires(name) or [] if "extra ==" not in line]
            files = distribution(name).files or []
        except PackageNotFoundError:  # of another system
            continue
        for file in files:
            if file.suffix == ".py" and "tests" not in file.parts:
                names = _IMPORTS.findall(Path(str(file.locate())).read_bytes())
                found.update(name.decode() for name in names)
    return found


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Plant a module of every name in the current folder; the file lists those that ran."""
    path = tmp_path / "ran.txt"
    path.write_text("")
    monkeypatch.setenv("RAN", str(path))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in _imported() | sys.stdlib_module_names:
        (folder / f"{name}.py").write_text(_PLANTED)
    for package in ("pip", "tiktoken_ext", "fwc_llm"):
        (folder / f"{package}.py").unlink(missing_ok=True)
        (folder / package).mkdir()
        for file in ("__init__.py", "__main__.py", "planted.py"):
            (folder / package / file).write_text(_PLANTED)
    (folder / ".numba_config.yaml").write_text("cache_dir: compiled\n")
    monkeypatch.chdir(folder)
    return path


def test_no_command_and_no_step_of_the_action_runs_a_file_of_the_folder(
    ran: Path, github: GitHub
) -> None:
    """One test: the folder takes long to fill."""
    assert {line.split()[0] for line in COMMANDS} == set(MODULES)
    Path("rules.py").write_text(_RULES)
    Path("helpers.py").write_text(_HELPERS)
    with open("loans.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["income", "job", "sex", "paid"])
        for n in range(400):
            lines.writerow(
                [n % 97, "abc"[n % 3], "mw"[n % 2], "yes" if n % 5 < 2 else "no"]
            )
    with open("decisions.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["id", "sex", "said"])
        lines.writerows(
            [n, "mw"[n % 2], "yes" if n % 5 < 2 else "no"] for n in range(200)
        )
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("NUMBA_")
    }
    # As the console script: without -c, the current folder is not on the path.
    done = python("-P", "-c", _MAIN, json.dumps(COMMANDS), env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert ran.read_text() == ""
    assert not Path("compiled").exists()
    code, printed, _ = audit(Path.cwd(), github, fail_if="dp_gap > 0.9")
    assert code == 0, printed
    install = next(
        step["run"]
        for step in ACTION["runs"]["steps"]
        if "INSTALL" in step.get("env", {})
    )
    environment = os.environ | {
        "INSTALL": "./no-such-package",
        "PATH": f"bin:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-c", install], env=environment, capture_output=True, check=False
    )
    assert done.returncode != 0
    assert ran.read_text() == ""
