"""Medoids by bounds: the same rows as those of tables of sums, for every kind of column and any threads."""

import numpy as np
import pytest

from fwc_llm.coreset.descent.medoids import CompiledMedoids
from fwc_llm.coreset.descent.updates import Medoids, Shares
from fwc_llm.coreset.problem.cells import find_cells
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.problem.table import Table, value_ids
from fwc_llm.coreset.threads import Threads


def problem(kind: str, cost: str, support: str, n: int = 700, m: int = 12) -> Problem:
    rng = np.random.default_rng(len(kind))
    numbers = {
        "normal": rng.normal(size=(n, 3)),
        "ties": rng.integers(0, 4, (n, 3)).astype(float),
        "single": rng.normal(size=(n, 3)).astype(np.float32),
        "outlier": rng.normal(size=(n, 3)),
        "one": rng.normal(size=(n, 1)),
        "none": np.empty((n, 0)),
    }[kind]
    if kind == "outlier":
        numbers[7] = 1e8
    codes = rng.integers(0, 400, (n, 2)) if kind in ("none", "normal") else np.empty((n, 0), np.int64)
    table = Table(numbers, codes.astype(np.int32))
    cells = find_cells(rng.integers(0, 2, n), rng.integers(0, 2, n), n)
    pools = [np.flatnonzero(cells.cell == g) for g in range(4)]
    if support == "features":
        pools = [np.arange(n)] * 4
    return Problem(
        table, cells, np.repeat(np.arange(4), m // 4), np.ones(2) / 2, None, cost, support, np.zeros((4, 4)),
        pools, value_ids(table.values),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["normal", "ties", "single", "outlier", "one", "none"])
@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_the_same_rows_as_by_tables_of_sums(kind: str, cost: str) -> None:
    for support in ("rows", "features"):
        given = problem(kind, cost, support)
        n, m = given.table.n, given.m
        rng = np.random.default_rng(5)
        fast, slow = CompiledMedoids(given, Threads(2)), Medoids(given.table, cost, given.ids, given.pools)
        rows = np.concatenate([given.pools[g][3 * g : 3 * g + 3] for g in range(4)])
        label = rng.integers(0, m, n)
        for _ in range(5):
            split = rng.choice(n, 5, replace=False)
            shares = Shares(label, split, (label[split] + 1) % m, rng.uniform(0.1, 0.9, 5), m)
            moved = slow.move(shares, rows, given.cell_of)
            np.testing.assert_array_equal(fast.move(shares, rows, given.cell_of), moved)
            rows, label = moved, label.copy()
            changed = rng.choice(n, 8, replace=False)  # most representatives keep their rows
            label[changed] = rng.integers(0, m, 8)
        np.testing.assert_array_equal(
            fast.move(shares, rows, given.cell_of), slow.move(shares, rows, given.cell_of)
        )
