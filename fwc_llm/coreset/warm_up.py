"""Compile every kernel, by solving problems just large enough for compiled code."""

import logging
import os
import time
from pathlib import Path

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.compiled import compiled
from fwc_llm.coreset.descent.assignment import assign_rows
from fwc_llm.coreset.estimator import FairCoreset
from fwc_llm.coreset.transport.column_generation import compare


def get_ready(name: str) -> tuple[float, int]:
    """Solve one of `PROBLEMS`; return the seconds taken and the number of functions compiled."""
    start = time.perf_counter()
    before = len(compiled)
    log = logging.getLogger("fwc_llm.coreset")
    log.disabled = True  # the command itself reports that it compiles
    try:
        PROBLEMS[name]()
    finally:
        log.disabled = False
    return time.perf_counter() - start, len(compiled) - before


def cache_folder() -> Path | None:
    """The cache folder of compiled code; None if no folder is writable."""
    paths = [kernel.stats.cache_path for kernel in (assign_rows, compare)]
    if None in paths:
        return None
    return Path(os.path.commonpath(paths))


def _table(n: int, p: int) -> tuple[Array, Array, Array]:
    """Features (n, p) in steps of 0.1, so that distances tie; outcomes (n,); protected levels
    (n,).
    """
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(n, p)).round(1),
        rng.integers(0, 2, n),
        rng.integers(0, 2, n),
    )


def _free() -> None:
    table = _table(50_000, 20)
    for cost in ("l1", "sqeuclidean"):
        FairCoreset(100, cost=cost, init="random", max_iter=4, random_state=0).fit(
            *table
        )
    single = table[0].astype(np.float32)
    FairCoreset(100, init="random", max_iter=2, random_state=0).fit(single, *table[1:])


def _rows() -> None:
    FairCoreset(4, support="rows", max_iter=3, random_state=0).fit(*_table(1_200, 50))


PROBLEMS = {"free representatives": _free, "real rows": _rows}
