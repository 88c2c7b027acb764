"""Shared fixtures: the real data, and a wall against the network."""

import os
import signal
import socket
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

from fwc_llm.data import census as census_data
from fwc_llm.data.clean_table import CleanTables
from fwc_llm.errors import FwcError
from fwc_llm.models.inspect import require_inspect
from fwc_llm.taskfile import TaskFile
from fwc_llm.tasks import Task, load_task
from tests.command import fwc as fwc
from tests.people import three as three
from tests.people import two as two

# A suite in the background ignores Ctrl-C, and the programs that its tests start would inherit
# that.
signal.signal(signal.SIGINT, signal.default_int_handler)

CENSUS_TABLES = census_data.census_tables
CHECKOUT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
LONG = {"test_snippets.py", "test_quick.py", "test_site.py", "test_compiled.py"}
IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}

# A checkout with the data beside it needs no variables; both are only defaults. Empty: no data.
for _variable, _folder in (
    ("FWC_LLM_DATA", CHECKOUT.parent / "shared" / "data"),
    ("TIKTOKEN_CACHE_DIR", CHECKOUT.parent / "shared" / "data" / "tiktoken"),
):
    if _folder.is_dir():
        os.environ.setdefault(_variable, str(_folder))
# What a test keeps in the user's cache folder is gone with the session; other programs keep theirs.
_caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
os.environ.setdefault("MPLCONFIGDIR", str(_caches / "matplotlib"))
_cache = tempfile.TemporaryDirectory(prefix="fwc-llm-tests-")
os.environ["XDG_CACHE_HOME"] = _cache.name
# Programs that tests start keep their bytecode, as after an installation: compiling it anew takes a
# second.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# No test may find a real key.
for _variable in [name for name in os.environ if name.endswith("_API_KEY")]:
    del os.environ[_variable]

# No test depends on the clock, and a failure must come again: the same examples every time.
# Examples may share a folder.
hypothesis.settings.register_profile(
    "house",
    deadline=None,
    derandomize=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("house")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is skipped without data, so that `.ci/run` can run it after all else has run
    without.
    """
    for item in items:
        if {"data_dir", "rank_files"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("data")
    # Minutes' tests first: at the end all other processes would wait for them.
    items.sort(key=lambda item: item.path.name not in LONG)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a skipped test is a failure, whatever its reason."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if IN_CI and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def missing(what: str) -> None:
    """Skip with a reason on a user's machine, fail in CI: there nothing may go untested."""
    if IN_CI:
        pytest.fail(f"{what} (in CI this is a failure)")
    pytest.skip(what)


@pytest.fixture
def rng() -> np.random.Generator:
    """Draws that are the same every time."""
    return np.random.default_rng(0)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The folder of a run, which is not there yet."""
    return tmp_path / "run"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real data; tests that need it are skipped, and say so, where it is
    missing.
    """
    folder = os.environ.get("FWC_LLM_DATA")
    if not folder or not (Path(folder) / "adult" / "adult.data").is_file():
        missing(
            "real data is missing: set FWC_LLM_DATA to the folder that holds adult/adult.data"
        )
    return Path(str(folder))


@pytest.fixture(scope="session")
def built_in(data_dir: Path) -> Callable[[str], Task]:
    """A built-in task by its name, read once for all tests."""
    return cache(lambda name: load_task(name, data_dir))


@pytest.fixture(scope="session")
def adult(built_in: Callable[[str], Task]) -> Task:
    return built_in("adult")


@pytest.fixture(scope="session")
def census() -> Task:
    return load_task("census")


@pytest.fixture(scope="session")
def with_inspect() -> None:
    try:
        require_inspect("this test")
    except FwcError as error:
        missing(str(error))


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """Nothing in a test reaches beyond loopback: a connection elsewhere raises."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(
                socket.socket, name, on_loopback(getattr(socket.socket, name))
            )
        yield


@pytest.fixture(scope="session", autouse=True)
def small_census() -> Iterator[None]:
    """The simulated task has 5,000 rows, not 45,222, and they are drawn once: tests of anything
    else do not depend on their number.
    """

    def tables(adult: TaskFile, *sizes: int, **options: int) -> CleanTables:
        if not sizes:
            options = {"n_pool": 3_000, "n_test": 2_000} | options
        return CENSUS_TABLES(adult, *sizes, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(census_data, "simulate", cache(census_data.simulate))
        patch.setattr(census_data, "census_tables", tables)
        yield


@pytest.fixture(scope="module")
def whole_census() -> Iterator[None]:
    """The simulated task as other processes have it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(census_data, "census_tables", CENSUS_TABLES)
        yield


def on_loopback(connect: Callable[..., Any]) -> Callable[..., Any]:
    def checked(self: socket.socket, address: Any) -> Any:
        if isinstance(address, tuple) and address[0] not in _LOOPBACK:
            raise RuntimeError(
                f"a test tried to reach {address[0]}: tests stay on loopback"
            )
        return connect(self, address)

    return checked
