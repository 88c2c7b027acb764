"""Small tables are solved: the best of all coresets is found, and the certificate says how surely."""

from itertools import combinations, product

import numpy as np
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.transport.fair import fair_transport

M = 5


def table(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([5, seed])
    n = int(rng.integers(14, 17))
    cell = rng.permutation(np.concatenate([np.repeat(np.arange(4), 2), rng.integers(0, 4, n - 8)]))
    return rng.normal(size=(n, 3)), cell % 2, cell // 2


def best_of_all(x: np.ndarray, y: np.ndarray, d: np.ndarray, seats: np.ndarray) -> float:
    """The least objective of all coresets of rows with so many seats in each cell."""
    apart = np.abs(x[:, None] - x[None]).sum(axis=-1)
    cell = 2 * d + y
    move = [[(a // 2 != b // 2) + (a % 2 != b % 2) for b in range(4)] for a in range(4)]
    nearest = [
        [apart[:, list(rows)].min(axis=1) for rows in combinations(np.flatnonzero(cell == g), seats[g])]
        for g in range(4)
    ]
    target = np.array([1 - y.mean(), y.mean()])
    return min(
        fair_transport(np.stack(pick, axis=1) + np.array(move, float)[cell], 2, 2, target, 0.01).objective
        for pick in product(*nearest)
    )


@pytest.mark.slow
def test_the_best_of_all_coresets_is_found() -> None:
    once = 0
    for seed in range(4):
        x, y, d = table(seed)
        found = FairCoreset(M, support="rows", random_state=seed).fit(x, y, d)
        best = best_of_all(x, y, d, np.bincount(2 * found.sensitive_ + found.y_, minlength=4))
        assert found.objective_ == pytest.approx(best, rel=1e-9), seed
        assert found.proven_
        assert found.violation_ <= 0.01 + 1e-9
        assert found.history_[-1] == found.objective_
        one = FairCoreset(M, support="rows", random_state=seed, n_init=1).fit(x, y, d)
        assert (one.n_starts_, one.n_agreeing_, one.proven_) == (1, 1, False)
        once += one.objective_ > best * (1 + 1e-9)
    assert once > 0  # one start alone does not find all of them


def test_starts_end_when_four_agree_and_large_tables_start_once() -> None:
    x, y, d = table(0)
    found = FairCoreset(4, random_state=0).fit(x, y, d)
    assert found.n_agreeing_ == 4 or found.n_starts_ == 30
    rng = np.random.default_rng(0)
    x, y, d = rng.normal(size=(900, 2)), rng.integers(0, 2, 900), rng.integers(0, 2, 900)
    assert FairCoreset(8, random_state=0).fit(x, y, d).n_starts_ == 1
    given = FairCoreset(
        4, support="rows", init=np.array([np.flatnonzero((2 * d + y) == g)[0] for g in range(4)])
    )
    assert given.fit(x, y, d).n_starts_ == 1


def test_rows_of_a_small_table_are_started_five_times() -> None:
    rng = np.random.default_rng(1)
    x, y, d = rng.normal(size=(200, 3)), rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    found = FairCoreset(16, support="rows", random_state=0).fit(x, y, d)
    assert found.n_starts_ == 5 or found.n_agreeing_ == 4
