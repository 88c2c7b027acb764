"""The costs of tiles and pairs, by hand-laid code and by plain loops; and a solver with plain loops alone."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fwc_llm.coreset.compiling import hand_laid_tile, plain_tile, tile

LOCKS = {
    "decorator": "import numba.extending; numba.extending.intrinsic = locked",
    "no compiler": "import numba; numba.config.DISABLE_JIT = 1",
    "while compiling": "from numba.core import cgutils; cgutils.unpack_tuple = locked",
}
LOCK = "def locked(*arguments, **options):\n    raise RuntimeError('locked')\n"
IMPORT = """
from fwc_llm.coreset.compiling import plain_tile
from fwc_llm.coreset.compiling import tile
print(tile.l1_tile is plain_tile.l1_tile, tile.sqeuclidean_pair is plain_tile.sqeuclidean_pair)
"""
FIT = """
import numpy as np
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent.compiled import CompiledSteps
from fwc_llm.coreset.descent.loop import descend
from fwc_llm.coreset.search.schedule import start_rows
from fwc_llm.coreset.threads import Threads
rng = np.random.default_rng(0)
x, y, d = rng.normal(size=(6000, 7)), rng.integers(0, 2, 6000), rng.integers(0, 2, 6000)
for cost in ("l1", "sqeuclidean"):
    case = FairCoreset(40, cost=cost).problem(x, y, d)
    steps = CompiledSteps(case, Threads(1))
    found = descend(steps, start_rows(case, "random", np.random.default_rng(0)), 12)
    inner, shares = steps.certify(found.points)
    print(inner.objective, *shares.label[::7])
"""


def run(code: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({} if cache is None else {"NUMBA_CACHE_DIR": str(cache)})}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )


def costs(x: np.ndarray, c: np.ndarray, n_numeric: int, squared: bool) -> np.ndarray:
    apart = (x - c)[..., :n_numeric].astype(float)
    return (apart**2 if squared else abs(apart)).sum(-1) + (x != c)[..., n_numeric:].sum(-1)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize(("p", "n_numeric"), [(1, 1), (1, 0), (5, 3), (13, 13), (25, 9), (40, 40)])
def test_both_tiles_give_the_same_costs_bit_for_bit(p: int, n_numeric: int, squared: bool):
    rng = np.random.default_rng(p)
    block, tiles = (
        rng.normal(size=size).round(1).astype(np.float32) for size in ((p, tile.ROWS), (3, p, tile.WIDTH))
    )
    name = "sqeuclidean_tile" if squared else "l1_tile"
    by_hand, plain = np.full((2, tile.WIDTH, tile.ROWS), np.nan, np.float32)
    getattr(hand_laid_tile, name)(block, tiles, 2, n_numeric, by_hand)
    getattr(plain_tile, name)(block, tiles, 2, n_numeric, plain)
    np.testing.assert_array_equal(by_hand, plain)
    expected = costs(block.T[None], tiles[2].T[:, None], n_numeric, squared)
    np.testing.assert_allclose(plain, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize(("p", "n_numeric"), [(1, 1), (1, 0), (5, 3), (13, 13), (25, 9), (40, 40)])
def test_both_pairs_give_the_same_cost(p: int, n_numeric: int, squared: bool):
    rng = np.random.default_rng(p)
    x, points = (rng.normal(size=(size, p)).round(1).astype(np.float32) for size in (30, 8))
    name = "sqeuclidean_pair" if squared else "l1_pair"
    for module in (hand_laid_tile, plain_tile):
        found = [[getattr(module, name)(x, i, points, j, n_numeric) for j in range(8)] for i in range(30)]
        expected = costs(x[:, None], points[None], n_numeric, squared)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_plain_loops_take_over_where_the_door_is_locked_and_that_is_said_once(lock: str, tmp_path: Path):
    done = run(f"{LOCK}{lock}\n{IMPORT}", tmp_path)
    assert done.stdout.split() == ["True", "True"]
    assert done.stderr.count("hand-laid vector code") == 1


@pytest.mark.slow
def test_a_solver_with_plain_loops_finds_the_same(tmp_path: Path):
    by_hand, plain = run(FIT), run(f"{LOCK}{LOCKS['decorator']}\n{FIT}", tmp_path)
    assert "hand-laid vector code" in plain.stderr
    for ours, theirs in zip(by_hand.stdout.splitlines(), plain.stdout.splitlines(), strict=True):
        assert ours.split()[1:] == theirs.split()[1:]
        assert float(theirs.split()[0]) == pytest.approx(float(ours.split()[0]), rel=1e-12)
