"""The wheel: what a user gets who never sees the checkout."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built and unpacked into a folder of its own."""
    wheels, site = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(CHECKOUT)],
        check=True,
    )
    (wheel,) = wheels.iterdir()
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    return site


def outside(installed: Path, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "FWC_LLM_DATA"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_carries_templates_and_task_files(installed: Path, tmp_path: Path) -> None:
    code = """if True:
        import fwc_llm
        from fwc_llm.prompts import templates
        from fwc_llm.resources import resource_dir
        print(fwc_llm.__file__)
        print(*templates())
        print(*sorted(path.stem for path in resource_dir("evals/tasks").glob("*.toml")))
    """
    done = outside(installed, tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    where, templates, tasks = done.stdout.splitlines()
    assert where.startswith(str(installed))
    assert templates.split() == ["decodingtrust", "default", "paper"]
    assert {"adult", "communities", "drug", "german"} <= set(tasks.split())


def test_the_demonstration_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    done = outside(installed, tmp_path, "-m", "fwc_llm", "eval", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "results.json").is_file()


def test_the_lowest_versions_that_are_tested_are_those_declared() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = [
        entry for name in ("parquet", "plot", "paper") for entry in project["optional-dependencies"][name]
    ]
    declared = [*project["dependencies"], *(entry for entry in extras if not entry.startswith("fwc-llm"))]
    lowest = (CHECKOUT / ".ci" / "lowest.txt").read_text().splitlines()[1:]
    assert lowest == [entry.partition(",")[0].replace(">=", "==") for entry in declared]
