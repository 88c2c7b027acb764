"""Compile every kernel, by solving problems just large enough for compiled code."""

import logging
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.compiled import compiled
from fwc_llm.coreset.descent.assignment import assign_rows
from fwc_llm.coreset.estimator import FairCoreset
from fwc_llm.coreset.rivals.base import as_rows
from fwc_llm.coreset.rivals.clustering import kmedoids
from fwc_llm.coreset.transport.column_generation import scan
from fwc_llm.coreset.transport.inner_problem import fair_transport


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
    paths = [kernel.stats.cache_path for kernel in (assign_rows, scan)]
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


def _blocks() -> None:
    x, y, d = _table(20_000, 20)
    with tempfile.NamedTemporaryFile() as file:
        x.tofile(file.name)
        rows = np.memmap(file.name, x.dtype, mode="r", shape=x.shape)
        for support in ("free", "rows"):
            model = FairCoreset(
                8, support=support, sample=500, max_iter=1, random_state=0, swaps=False
            )
            model.fit(rows, y, d)
        del rows


def _swaps() -> None:
    for cost in ("l1", "sqeuclidean"):
        FairCoreset(4, cost=cost, max_iter=1, swaps=True, random_state=0).fit(
            *_table(1_000, 3)
        )


PROBLEMS: dict[str, Callable[[], object]] = {
    "free representatives": _free,
    "real rows": lambda: FairCoreset(4, support="rows", max_iter=3, random_state=0).fit(
        *_table(1_200, 50)
    ),
    "tables in blocks": _blocks,
    "swaps of free representatives": _swaps,
    "transport of large tables": lambda: fair_transport(
        _table(70_000, 4)[0], 2, 2, [0.5, 0.5], 0.01
    ),
    "k-medoids": lambda: kmedoids(
        as_rows(*_table(500, 3)), 5, np.random.default_rng(0), np.arange(500)
    ),
}
