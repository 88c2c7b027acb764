"""The same on a cluster of two processes: workers that die, rows that stay, parts that travel."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.streaming.blocks import Block
from fwc_llm.coreset.streaming.cluster.client import check_versions
from fwc_llm.coreset.streaming.cluster.source import DaskSource
from fwc_llm.errors import InputError
from fwc_llm.version import __version__

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
QUICK = {
    "distributed.comm.timeouts.connect": "20s",
    "distributed.scheduler.allowed-failures": 1,
    "distributed.scheduler.active-memory-manager.start": False,
}
HOST: Any = {"host": "127.0.0.1", "dashboard_address": ":0", "silence_logs": "CRITICAL"}


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        dask.config.set(QUICK),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit=None,
            **HOST,
        ) as cluster,
        distributed.Client(cluster, timeout="20s") as client,
    ):
        yield client


@dataclass(frozen=True)
class Sums:
    """Sums of whole numbers by column, and how many rows each process read; may end its process once."""

    flag: str = ""  # a file that says that it has happened
    at: int = -1  # the partition where it happens; −2: at each one, always

    def __call__(self, block: Block) -> dict[Any, Any]:
        if block.index == self.at and not os.path.exists(self.flag):
            Path(self.flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.at == -2:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.at == -3 and block.index == 5:
            raise InputError(f"a value in {block.where}")
        return {
            "sum": np.asarray(block.rows).sum(axis=0),
            "rows": {os.getpid(): len(block.rows)},
            "merged": 0,
        }


def add(first: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
    """A merge that changes its first part, and counts parts of other processes."""
    first["merged"] += other["merged"] + (set(first["rows"]) != set(other["rows"]))
    first["sum"] += other["sum"]
    for process, rows in other["rows"].items():
        first["rows"][process] = first["rows"].get(process, 0) + rows
    return first


ROWS = np.arange(600).reshape(200, 3)


def table() -> Any:
    """190 rows in 20 chunks of unknown lengths, of which one is empty."""
    rows = da.from_array(ROWS, chunks=(10, 3))
    return rows[rows[:, 0] // 30 != 3]


WANTED = ROWS[ROWS[:, 0] // 30 != 3].sum(axis=0)


def test_each_worker_reads_its_share_and_one_part_of_it_travels(client: Any) -> None:
    said: list[tuple[int, int]] = []
    source = DaskSource.open(table())
    found = source.reduce(Sums(), add, lambda done, blocks: said.append((done, blocks)))
    assert found["sum"].tolist() == WANTED.tolist()
    assert found["merged"] == 1, "parts of two processes are merged once"
    assert len(found["rows"]) == 2
    assert os.getpid() not in found["rows"]
    assert said[-1] == (20, 20)
    assert said == sorted(said)
    assert sum(found["rows"].values()) == 190


def test_rows_that_are_persisted_stay_where_they_are(client: Any) -> None:
    rows = table().persist()
    distributed.wait(rows, timeout=20)
    held = client.who_has(distributed.futures_of(rows))
    source = DaskSource.open(rows, rows[:, 0] % 2)
    for _ in range(2):
        assert source.reduce(Sums(), add)["sum"].tolist() == WANTED.tolist()
    assert client.who_has(distributed.futures_of(rows)) == held
    assert source.stamp == DaskSource.open(table(), table()[:, 0] % 2).stamp


def test_a_partition_that_is_refused_is_named(client: Any) -> None:
    with pytest.raises(InputError, match="a value in partition 5 of the dask array"):
        DaskSource.open(table()).reduce(Sums(at=-3), add)


def test_a_worker_that_dies_in_mid_pass_changes_nothing(client: Any, tmp_path: Path) -> None:
    """Its rows, persisted there, are made again by others."""
    rows = table().persist()
    distributed.wait(rows, timeout=20)
    flag = str(tmp_path / "died")
    found = DaskSource.open(rows).reduce(Sums(flag, 7), add, lambda done, blocks: None)
    assert os.path.exists(flag)
    assert found["sum"].tolist() == WANTED.tolist()
    assert sum(found["rows"].values()) == 190


def test_a_partition_that_ends_every_worker_is_named(client: Any) -> None:
    with pytest.raises(InputError) as caught:
        DaskSource.open(table().blocks[:1]).reduce(Sums(at=-2), add)
    assert "partition 0 of the dask array ended 2 workers" in str(caught.value)
    assert "too little memory is likely" in str(caught.value)


def fail(rows: np.ndarray) -> np.ndarray:
    if 210 in rows:
        raise OSError("the disk\x1b[31m is gone")
    return rows


def test_what_could_not_be_persisted_is_named(client: Any) -> None:
    """Before the work, and while it is still being persisted."""
    rows = table().map_blocks(fail, dtype=int, meta=np.zeros((0, 3), int)).persist()
    for _ in range(2):
        with pytest.raises(InputError) as caught:
            DaskSource.open(rows).reduce(Sums(), add)
        words = str(caught.value)
        assert "partition 7 of the dask array cannot be read (OSError: the disk" in words
        assert "\x1b" not in words


def test_rows_that_the_cluster_has_dropped_are_missed(client: Any) -> None:
    rows = table().persist()
    source = DaskSource.open(rows)
    client.cancel(rows)
    with pytest.raises(InputError, match="has dropped rows, as after a restart: persist the table again"):
        source.reduce(Sums(), add)


def cells(n: int) -> tuple[Any, Any, Any]:
    """A table of `n` rows, its outcomes and its levels, in five chunks."""
    rng = np.random.default_rng(5)
    level = rng.integers(0, 2, n)
    outcome = (rng.random(n) < 0.3 + 0.3 * level).astype(int)
    rows = rng.normal(size=(n, 3)) + level[:, None]
    return tuple(da.from_array(part, chunks=n // 5) for part in (rows, outcome, level))  # type: ignore[return-value]


def dies_once(flag: str, rows: np.ndarray) -> np.ndarray:
    """Ends the process that reads, while `flag` is there."""
    if os.path.exists(flag) and len(rows):
        os.remove(flag)
        os.kill(os.getpid(), signal.SIGKILL)
    return rows


def fit(path: Path, X: Any, y: Any, d: Any, say: Any = None) -> FairCoreset:
    options: dict[str, Any] = {"sample": 300, "max_passes": 4, "checkpoint": path, "n_jobs": 1}
    return FairCoreset(6, random_state=0, **options).fit(X, y, d, progress=say)


def test_a_fit_goes_on_after_a_worker_and_a_client_are_gone(client: Any, tmp_path: Path) -> None:
    X, y, d = cells(1000)
    with dask.config.set(scheduler="threads"):
        wanted = fit(tmp_path / "here", X, y, d)
    flag = tmp_path / "alive"
    X = X.map_blocks(partial(dies_once, str(flag)), dtype=float, meta=np.zeros((0, 3)))

    def interrupt(words: str) -> None:
        if words.startswith("reading 2"):
            flag.touch()
        if words.startswith("reading 3"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "there", X, y, d, interrupt)
    assert not flag.exists()
    with distributed.Client(client.scheduler.address, timeout="20s"):
        said: list[str] = []
        found = fit(tmp_path / "there", X, y, d, said.append)
    assert "reading 3" in " ".join(said)
    assert "reading 2" not in " ".join(said)
    assert found.n_passes_ == wanted.n_passes_ >= 3
    assert found.representatives_.tolist() == wanted.representatives_.tolist()
    assert found.objective_ == wanted.objective_
    assert found.weights_.tolist() == wanted.weights_.tolist()


def waits(flag: str, rows: np.ndarray) -> np.ndarray:
    """Reads the last rows once `flag` is there."""
    while 599 in rows and not os.path.exists(flag):
        time.sleep(0.01)
    return rows


def no_client(allow_global: bool = True) -> Any:
    raise ValueError("no client")


def test_a_client_that_is_closed_in_mid_pass_says_what_to_do(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "closed"
    other = distributed.Client(client.scheduler.address, timeout="20s")
    source = DaskSource.open(table().map_blocks(partial(waits, str(flag)), dtype=int, meta=ROWS[:0]))

    def close(done: int, blocks: int) -> None:
        other.close()
        flag.touch()

    words = "connect a new client, .* with the same checkpoint"
    with pytest.raises(InputError, match=words), other.as_current():
        source.reduce(Sums(), add, close)
    with monkeypatch.context() as patch:  # nor does the next pass go on in this process
        patch.setattr(distributed.Client, "current", no_client)
        with pytest.raises(InputError, match=words):
            source.reduce(Sums(), add)
    assert source.reduce(Sums(), add)["sum"].tolist() == WANTED.tolist()


def test_without_workers_the_reading_ends(client: Any) -> None:
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "300ms"}),
        distributed.LocalCluster(n_workers=0, **HOST) as cluster,
        distributed.Client(cluster, timeout="20s"),
        pytest.raises(InputError, match=r"had no workers for 0\.3 seconds"),
    ):
        DaskSource.open(table()).reduce(Sums(), add)


def test_another_version_or_none_is_refused() -> None:
    check_versions({"the worker a": __version__, "the worker b": OSError("gone")})
    with pytest.raises(
        InputError, match=r"the worker a of the dask cluster has fwc-llm 0\.0\.1, this process"
    ):
        check_versions({"the worker a": "0.0.1"})
    with pytest.raises(InputError, match="the scheduler of the dask cluster lacks fwc_llm"):
        check_versions({"the scheduler": ModuleNotFoundError("No module named 'fwc_llm'")})
