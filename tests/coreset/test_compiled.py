"""Compiling kernels: its one message, the cache, and arrays that must not be written."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.compiled import kernel, read_only
from fwc_llm.coreset.descent import assignment, medians
from fwc_llm.coreset.descent.loop import descend
from fwc_llm.coreset.descent.steps import CompiledSteps
from fwc_llm.coreset.search.start import start_rows
from fwc_llm.coreset.threads import Threads

TRANSPORT = """
import numpy as np
from fwc_llm.coreset.transport.fair import fair_transport
cost = np.random.default_rng(0).random((600_000, 4))
for kind in (np.float32, np.float64):
    fair_transport(cost.astype(kind), 2, 2, [0.5, 0.5], 0.01)
"""


@pytest.mark.slow
def test_compiling_is_said_once_and_reading_the_cache_is_silent(tmp_path: Path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", TRANSPORT], env=environment, capture_output=True, text=True, check=True
        ).stderr
        for _ in range(2)
    ]
    assert said[0].count("compiling") == 1
    assert "seconds" in said[0]
    assert "fwc-llm warm-up" in said[0]
    assert said[1] == ""


def test_a_kernel_works_where_nothing_can_be_kept(caplog: pytest.LogCaptureFixture):
    names: dict[str, object] = {}
    exec("def double(x):\n    return 2 * x", names)  # numba finds no folder for code without a file
    double = kernel(names["double"])
    assert double(4) == 8
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_read_only_arrays_are_not_copied_and_outlive_their_names():
    array = np.arange(12.0).reshape(3, 4)
    assert read_only(array) is array
    array.flags.writeable = False
    view = read_only(array)
    assert view.flags.writeable
    assert view.flags.c_contiguous
    assert np.shares_memory(view, array)
    del array
    np.testing.assert_array_equal(view, np.arange(12.0).reshape(3, 4))


@pytest.mark.slow
@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_tables_of_any_kind_share_the_compiled_code(cost: str):
    rng = np.random.default_rng(0)
    x, y, d = rng.normal(size=(2000, 5)).round(1), rng.integers(0, 2, 2000), rng.integers(0, 2, 2000)
    marked = x.astype(np.float32)
    marked.flags.writeable = False
    kernels = [
        value
        for module in (assignment, medians)
        for value in vars(module).values()
        if hasattr(value, "signatures")
    ]
    kinds = []
    for table, m in ((x, 20), (np.asfortranarray(x), 20), (x[:, ::-1], 300), (marked, 20)):
        case = FairCoreset(m, cost=cost).problem(table, y, d)
        descend(CompiledSteps(case, Threads(1)), start_rows(case, "random", rng), 5)
        CompiledSteps(case, Threads(1)).certify(table[:m].astype(float))
        kinds.append(sum(len(kernel.signatures) for kernel in kernels))
    assert len(set(kinds)) == 1
