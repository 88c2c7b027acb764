"""Shared fixtures: the real data, and a wall against the network."""

import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.command import fwc as fwc
from tests.people import three as three
from tests.people import two as two

# A suite in the background ignores Ctrl-C, and the programs that its tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

CHECKOUT = Path(__file__).resolve().parent.parent
IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}

# A checkout with the data beside it needs no variables; both are only defaults.
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
# No test may find a real key.
for _variable in [name for name in os.environ if name.endswith("_API_KEY")]:
    del os.environ[_variable]

# No test depends on the clock, and a failure must come again: the same examples every time in CI.
hypothesis.settings.register_profile("house", deadline=None, derandomize=IN_CI)
hypothesis.settings.load_profile("house")


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


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real data; tests that need it are skipped, and say so, where it is missing."""
    folder = os.environ.get("FWC_LLM_DATA")
    if not folder or not (Path(folder) / "adult" / "adult.data").is_file():
        missing("real data is missing: set FWC_LLM_DATA to the folder that holds adult/adult.data")
    return Path(str(folder))


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """Nothing in a test reaches beyond loopback: a connection elsewhere raises."""
    genuine, genuine_ex = socket.socket.connect, socket.socket.connect_ex

    def check(address: Any) -> None:
        if isinstance(address, tuple) and address[0] not in _LOOPBACK:
            raise RuntimeError(f"a test tried to reach {address[0]}: tests stay on loopback")

    def connect(self: socket.socket, address: Any) -> None:
        check(address)
        return genuine(self, address)

    def connect_ex(self: socket.socket, address: Any) -> int:
        check(address)
        return genuine_ex(self, address)

    socket.socket.connect, socket.socket.connect_ex = connect, connect_ex  # type: ignore[method-assign, assignment]
    yield
    socket.socket.connect, socket.socket.connect_ex = genuine, genuine_ex  # type: ignore[method-assign]
