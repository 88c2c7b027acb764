"""Tables of Dask, by its threads and on a cluster: what is found in memory, or a clear error."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.out_of_core import block_tables
from fwc_llm.coreset.out_of_core.block_tables import DaskTable
from fwc_llm.coreset.problem.frames import Columns
from tests.refusals import refused

N = 4000
M = 6
RNG = np.random.default_rng(3)
D = np.sort(RNG.integers(0, 2, N))  # sorted, so that no partition has all cells
Y = (RNG.random(N) < 0.3 + 0.3 * D).astype(int)
FRAME = pd.DataFrame(
    {
        "a": RNG.normal(size=N) + D,
        "b": np.where(RNG.random(N) < 0.5, "p", "q"),
        "y": Y,
        "d": D,
    }
)
CUTS = [0, 750, 1900, 1900, 3000, N]


def parts(
    change: Callable[[pd.DataFrame, int], Any] = lambda part, k: part,
    frame: Any = FRAME,
) -> Any:
    """The frame in five partitions, of which the third is empty; `change`: what becomes of each."""
    frames = [change(frame.iloc[CUTS[k] : CUTS[k + 1]].copy(), k) for k in range(5)]
    return dd.from_map(lambda k: frames[k], range(5), meta=frames[0][:0])


def fit(X: Any, y: Any = "y", sensitive: Any = "d", **options: Any) -> FairCoreset:
    return FairCoreset(
        M, random_state=0, sample=1, n_jobs=1, swaps=False, **options
    ).fit(X, y, sensitive)


@pytest.fixture(autouse=True)
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fwc_llm.coreset.problem.ground_cost.L1.sampled", 300)


def test_partitions_give_the_result_of_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_tables, "BLOCK_ROWS", 1000)
    FRAME.to_parquet(tmp_path / "t.parquet")
    wanted = fit(tmp_path / "t.parquet")
    found = fit(dd.from_pandas(FRAME, npartitions=4))
    assert found.objective_ == wanted.objective_
    pd.testing.assert_frame_equal(
        found.representatives_, wanted.representatives_, check_dtype=False
    )
    assert found.weights_.tolist() == wanted.weights_.tolist()
    cut = fit(parts())
    assert cut.objective_ == pytest.approx(wanted.objective_, rel=1e-12)
    assert cut.lower_bound_ == pytest.approx(cut.objective_, rel=1e-9)
    real = fit(parts(), support="rows")
    assert real.representatives_.a.tolist() == FRAME.a[real.row_index_].tolist()


def ordered(part: pd.DataFrame, k: int) -> pd.DataFrame:
    names = ["p", "q"] if k < 3 else ["q", "p"]
    return part.assign(b=pd.Categorical(part.b, categories=names, ordered=True))


def hole(part: pd.DataFrame, k: int) -> pd.DataFrame:
    return part.assign(a=part.a.where(part.index != 1955))


def broken(part: pd.DataFrame, k: int) -> pd.DataFrame:
    if k == 3:
        return part.rename(columns={"y": "c"})
    return part


@pytest.mark.parametrize(
    ("change", "words"),
    [(ordered, "'b'"), (hole, "'a' .*has no value in row 1955"), (broken, "'y'")],
)
def test_what_is_wrong_with_a_partition_is_said(change: Any, words: str) -> None:
    with refused(words):
        fit(parts(change))


def fail(part: pd.DataFrame, k: int) -> pd.DataFrame:
    if k:
        raise OSError("the disk\x1b[31m is gone")
    return part


SMALL = dd.from_pandas(FRAME[:12], npartitions=3)
REFUSED: dict[str, tuple[Any, ...]] = {
    "X is a dask Series": (SMALL.a,),
    "X is a dask Delayed": (dask.delayed(1),),
    "from_dask_array": (da.ones((12, 2)),),
    "y is not the name": (SMALL, SMALL.y),
    "y names the column 'z'": (SMALL, "z"),
    "no feature is left": (SMALL[["y", "d"]], "y", "d"),
    "has no rows": (SMALL[SMALL.d > 2],),
    "OSError: the disk": (dd.from_map(fail, [FRAME] * 2, [0, 1], meta=FRAME[:0]),),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_fit_is_refused(words: str) -> None:
    def read(*given: Any) -> None:
        DaskTable(Columns(*given)).read(lambda block: 0, list, lambda share: None)

    with refused(words) as caught:
        read(*REFUSED[words])
    assert "\x1b" not in str(caught.value)


def dies_once(rows: pd.DataFrame, flag: str) -> pd.DataFrame:
    """Ends the process that reads, the first time that it has rows."""
    if len(rows) and not os.path.exists(flag):
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return rows


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_cluster_gives_every_digit_of_the_result_though_a_worker_dies(
    tmp_path: Path,
) -> None:
    import distributed

    X = dd.from_pandas(FRAME, npartitions=4)
    wanted = fit(X)
    quiet: Any = {
        "host": "127.0.0.1",
        "dashboard_address": ":0",
        "silence_logs": "CRITICAL",
    }
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=None, **quiet
        ) as cluster,
        distributed.Client(cluster, timeout="20s"),
    ):
        dying = X.map_partitions(dies_once, str(tmp_path / "died"), meta=FRAME[:0])
        for rows in (dying, X.persist()):
            found = fit(rows)
            pd.testing.assert_frame_equal(
                found.representatives_, wanted.representatives_
            )
            assert found.weights_.tolist() == wanted.weights_.tolist()
            assert found.objective_ == wanted.objective_
    assert (tmp_path / "died").exists()
