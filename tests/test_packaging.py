"""The wheel: what a user gets who never sees the checkout."""

import os
import re
import subprocess
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from fwc_llm.prompts import templates
from fwc_llm.tasks import task_names
from fwc_llm.version import __version__
from tests.command import python
from tests.conftest import CHECKOUT, PYPROJECT
from tests.wheel import LARGEST_WHEEL, SERVE, SERVICE, build, contents, write_service

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network."""
    return build(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked into a folder of its own."""
    site = (
        tmp_path_factory.mktemp("lib") / "site-packages"
    )  # Inspect knows an installed package by that name
    pip = ("-m", "pip", "--quiet", "--disable-pip-version-check")
    python(*pip, "install", "--no-deps", "--target", site, wheel)
    return site


def outside(
    installed: Path, tmp_path: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if name != "FWC_LLM_DATA"
    }
    return python(
        *arguments,
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(installed)},
        check=False,
    )


def test_the_wheel_is_small_and_holds_the_package_alone(wheel: Path) -> None:
    assert wheel.stat().st_size < LARGEST_WHEEL
    found = contents(wheel)
    info = f"fwc_llm-{__version__}.dist-info"
    assert {name.partition("/")[0] for name in found} == {"fwc_llm", info}
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
        headers = archive.read(f"{info}/METADATA").decode()
    assert not [
        name
        for name in files
        if "/tests/" in name or "/results/" in name or name.endswith(".pyc")
    ]
    evals = [name for name in files if name.startswith("fwc_llm/_resources/evals")]
    assert all("/tasks/" in name for name in evals)
    assert (
        "fwc_llm/_resources/evals/tasks/recorded/journal.jsonl.gz" in evals
    )  # `fwc-llm eval recorded`
    assert f"\nVersion: {__version__}\n" in headers
    assert re.findall(r"^Project-URL: (\w+), https://", headers, re.M)


def test_the_source_is_small_and_makes_the_wheel(wheel: Path, tmp_path: Path) -> None:
    command = ("-m", "hatchling", "build", "-d", tmp_path)
    python(*command, "-t", "sdist", cwd=CHECKOUT)
    (source,) = tmp_path.glob("*.tar.gz")
    assert source.stat().st_size < LARGEST_WHEEL
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    python(*command, "-t", "wheel", cwd=tmp_path / source.name[:-7])
    assert contents(next(tmp_path.glob("*.whl"))) == contents(wheel)


def test_copies_are_made_and_the_census_is_asked_from_the_wheel(
    installed: Path, tmp_path: Path
) -> None:
    code = """if True:
        import fwc_llm, fwc_llm.prompts, fwc_llm.tasks
        print(fwc_llm.__file__, *fwc_llm.prompts.templates(), *fwc_llm.tasks.task_names())
    """
    where, *names = outside(installed, tmp_path, "-c", code).stdout.split()
    assert where.startswith(str(installed))
    assert names == [*templates(), *task_names()]
    asked = "eval --task census --model surrogate --shots balanced --n-test 8 --out run"
    for words in ("template init wording", "task copy german", asked):
        done = outside(installed, tmp_path, "-m", "fwc_llm", *words.split())
        assert done.returncode == 0, done.stderr
    for made in ("wording/query.j2", "german.toml", "run/results.json"):
        assert (tmp_path / made).is_file()


def test_a_service_needs_two_packages(installed: Path, tmp_path: Path) -> None:
    write_service(tmp_path)
    base = {
        re.split(r"\W", need)[0].lower()
        for need in metadata.requires("fwc-llm") or ()
        if "extra" not in need
    }
    heavy = {"scikit": "sklearn"}
    hidden = [heavy.get(name, name) for name in sorted(base - set(SERVICE))]
    assert {"pandas", "numpy", "numba", "openai", "sklearn"} <= set(hidden)
    code = f"import sys\nsys.modules.update(dict.fromkeys({hidden!r}))\n{SERVE}"
    done = outside(installed, tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 18


def test_the_wheel_brings_its_fixture_to_pytest(
    installed: Path, tmp_path: Path
) -> None:
    """By entry point, in a project that knows nothing of it; a call that nobody expects fails by
    name.
    """
    (tmp_path / "test_it.py").write_text(
        "import openai\n"
        "def test_yes(fwc_openai):\n"
        "    fwc_openai.use('Yes')\n"
        "    asked = [{'role': 'user', 'content': '?'}]\n"
        "    openai.OpenAI().chat.completions.create(model='x', messages=asked)\n"
        "    assert len(fwc_openai.calls) == 1\n"
        "def test_no(fwc_openai):\n"
        "    openai.OpenAI().models.list()\n"
    )
    done = outside(installed, tmp_path, "-m", "pytest", "-p", "no:cacheprovider", "-q")
    assert "1 passed" in done.stdout, done.stdout
    assert "calls that the test did not expect: GET /v1/models" in done.stdout


def test_inspect_finds_the_tasks_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = """if True:
        from inspect_ai._util.registry import registry_lookup
        from inspect_ai.model import get_model
        print(registry_lookup("task", "fwc_llm/census") is not None, get_model("fwc/surrogate"))
    """
    done = outside(installed, tmp_path, "-c", code)
    assert done.stdout.split() == ["True", "fwc/surrogate"], done.stderr


def test_the_lowest_versions_that_are_tested_are_those_declared() -> None:
    project = PYPROJECT["project"]
    named = project["optional-dependencies"]
    tested = ("parquet", "excel", "dask", "plot", "inspect", "local", "paper", "docs")
    extras = [entry for name in tested for entry in named[name]]
    declared = [
        *project["dependencies"],
        *(entry for entry in extras if not entry.startswith("fwc-llm")),
    ]
    lowest = (CHECKOUT / ".ci" / "lowest.txt").read_text().splitlines()[1:]
    assert lowest == [entry.partition(",")[0].replace(">=", "==") for entry in declared]
