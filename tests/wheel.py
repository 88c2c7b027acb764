"""Builds the wheel, and the files of a service that uses it without the solver and the SDK."""

import json
import zipfile
from pathlib import Path

from fwc_llm import load_task, save_shots, select_shots
from tests.command import python
from tests.conftest import CHECKOUT

LARGEST_WHEEL = 2**20  # bytes
SERVICE = ("jinja2", "pydantic")  # all that a prompt about one record needs
SERVE = """
import json
from pathlib import Path
from fwc_llm import build_prompt, load_shots, load_task

row = json.loads(Path("row.json").read_text())
print(len(build_prompt(load_task("task.json"), row, load_shots("shots.json"))))
"""


def build(folder: Path) -> Path:
    """Build the wheel into a folder, without a network: the build backend is that of this
    environment.
    """
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", folder, CHECKOUT)
    python("-m", "pip", "--quiet", "--disable-pip-version-check", "wheel", *options)
    (wheel,) = folder.glob("*.whl")
    return wheel


def contents(wheel: Path) -> set[str]:
    """The first two folders of every file in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        parts = [name.split("/") for name in archive.namelist()]
    return {"/".join(names[:2]) if len(names) > 2 else names[0] for names in parts}


def write_service(folder: Path) -> None:
    """Write what a service about the census reads: a frozen task, examples and one record."""
    census = load_task("census")
    census.freeze(folder / "task.json")
    save_shots(select_shots(census, "balanced", m=8), folder / "shots.json")
    (folder / "row.json").write_text(json.dumps(census.test().iloc[0].to_dict()))
