"""Compiling kernels, with its one message and the cache; errors in threads; the memory of a fit."""

import logging
import os
import weakref
from pathlib import Path
from threading import Event

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator
from sklearn.base import clone

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.compiled import kernel, read_only
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.warm_up import PROBLEMS, get_ready
from tests.command import python
from tests.coreset.programs import peak


def test_a_kernel_works_where_nothing_can_be_kept(caplog: pytest.LogCaptureFixture):
    names: dict[str, object] = {}
    exec(
        "def double(x):\n    return 2 * x", names
    )  # numba finds no folder for code without a file
    double = kernel(names["double"])
    assert double(4) == 8
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_what_is_logged_after_a_warm_up_is_heard(monkeypatch: pytest.MonkeyPatch):
    log = logging.getLogger("fwc_llm.coreset")
    monkeypatch.setitem(
        PROBLEMS, "one", lambda: log.disabled or pytest.fail("it is said twice")
    )
    get_ready("one")
    assert not log.disabled


def test_read_only_arrays_are_not_copied_and_outlive_their_names():
    array = np.arange(12.0)
    array.flags.writeable = False
    view = read_only(array)
    assert view.flags.writeable
    assert np.shares_memory(view, array)
    kept = weakref.ref(array)
    del array
    assert kept() is not None


# --- Threads


@pytest.mark.parametrize("bad", [0, 3, 9])
def test_an_error_in_any_thread_is_raised_and_the_rest_left(bad: int) -> None:
    threads = Threads(2)
    raised = Event()
    done = []

    def task(item: int) -> None:
        if item == bad:
            raise KeyError(item)
        if (
            item > bad
        ):  # the threads wait here, so none can finish before the error is seen
            raised.wait()
        done.append(item)

    with pytest.raises(KeyError, match=str(bad)):
        threads.over(task, range(100))
    raised.set()
    assert threads.over(lambda item: item, [1, 2]) == [1, 2]
    assert len(done) <= bad + 2


# --- After `fwc-llm warm-up` nothing is left to compile


TRANSPORT = """
import numpy as np
from fwc_llm.coreset.transport.inner_problem import fair_transport
cost = np.random.default_rng(0).random((70_000, 4))
for kind in (np.float32, np.float64):
    fair_transport(cost.astype(kind), 2, 2, [0.5, 0.5], 0.01)
"""
AFTERWARDS = """
import tempfile
import numpy as np
import pandas as pd
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.distance import wasserstein
from fwc_llm.coreset.rivals.base import as_rows
from fwc_llm.coreset.rivals.clustering import kmedoids
rng = np.random.default_rng(0)
def table(n, p):
    return rng.normal(size=(n, p)), rng.integers(0, 2, n), rng.integers(0, 3, n)
for cost in ("l1", "sqeuclidean"):
    x, y, d = table(120_000, 6)
    x[0, 0] = 1e4
    FairCoreset(40, cost=cost, max_iter=5, random_state=0).fit(x.astype(np.float32), y, d)
    x, y, d = table(3_000, 12)
    frame = pd.DataFrame(x.round(1)).rename(columns=str).assign(kind=rng.choice(list("abc"), len(x)))
    FairCoreset(100, cost=cost, max_iter=2, init="random", random_state=0).fit(frame, y, d)
    for support in ("rows", "features"):
        few = FairCoreset(12, cost=cost, support=support, max_iter=1, n_init=1, random_state=0)
        few.fit(*table(400, 60))
    FairCoreset(6, cost=cost, max_iter=2, swaps=True, random_state=0).fit(*table(900, 3))
x, y, d = table(10_000, 12)
with tempfile.TemporaryDirectory() as folder:
    pd.DataFrame(x).rename(columns=str).assign(y=y, d=d).to_parquet(f"{folder}/t.parquet")
    for cost in ("l1", "sqeuclidean"):
        for support in ("free", "rows"):
            few = FairCoreset(9, cost=cost, support=support, sample=500, max_iter=1, n_init=1, random_state=0)
            few.fit(f"{folder}/t.parquet", "y", "d")
for metric in ("l1", "l2"):
    kmedoids(as_rows(*table(700, 4)), 6, rng, np.arange(700), metric)
wasserstein(rng.random((300, 7)), rng.random(7))
from fwc_llm.coreset.compiled import compiled
print(sorted(set(compiled)))
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_compiling_is_said_and_kept_and_the_command_leaves_nothing_to_compile(
    tmp_path: Path,
):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "COLUMNS": "200"}
    said = python("-c", TRANSPORT, env=environment).stderr
    assert said.count("compiling") == said.count("fwc-llm warm-up") == 1
    first, second = (
        python("-m", "fwc_llm", "warm-up", env=environment) for _ in range(2)
    )
    assert "free representatives: compiled in" in first.stdout
    assert "compiled in" not in second.stdout
    assert "Everything was compiled already" in second.stdout
    for done in (first, second):
        assert done.stdout.count("\n") == len(PROBLEMS) + 1
        assert str(tmp_path) in done.stdout
        assert "compiling the solver for this machine" not in done.stderr
    afterwards = python("-c", AFTERWARDS, env=environment)
    assert (afterwards.stdout.strip(), afterwards.stderr) == ("[]", "")


# --- The memory of a fit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "support", "most"), [("mixed", "free", 7.4), ("float32", "rows", 5.6)]
)
def test_a_fit_holds_a_few_tables(
    rng: Generator, form: str, support: str, most: float
) -> None:
    n = 32_768
    p = 25
    X = rng.normal(size=(n, p)).astype(np.float32)
    y = rng.integers(0, 2, n)
    sensitive = rng.integers(0, 8, n)
    table = X
    if form == "mixed":
        table = pd.DataFrame(X.astype(np.float64)).add_prefix("x")
        for k in range(15, p):
            table[f"x{k}"] = pd.Categorical.from_codes(
                rng.integers(0, 8, n), list("abcdefgh")
            )
    model = FairCoreset(
        40, support=support, random_state=1, n_jobs=2, max_iter=2, n_init=1
    )
    model.fit(table[:9_000], y[:9_000], sensitive[:9_000])  # all code is there now
    assert peak(lambda: clone(model).fit(table, y, sensitive)) / X.nbytes < most
