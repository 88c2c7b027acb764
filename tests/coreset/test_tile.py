"""The costs of tiles and pairs."""

import numpy as np
import pytest

from fwc_llm.coreset import tile


def costs(x: np.ndarray, c: np.ndarray, n_numeric: int, squared: bool) -> np.ndarray:
    apart = (x - c)[..., :n_numeric].astype(float)
    return (apart**2 if squared else abs(apart)).sum(-1) + (x != c)[..., n_numeric:].sum(-1)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize(("p", "n_numeric"), [(1, 1), (1, 0), (5, 3), (13, 13), (25, 9), (40, 40)])
def test_costs_of_a_tile(p: int, n_numeric: int, squared: bool):
    rng = np.random.default_rng(p)
    block, tiles = (
        rng.normal(size=size).round(1).astype(np.float32) for size in ((p, tile.ROWS), (3, p, tile.WIDTH))
    )
    name = "sqeuclidean_tile" if squared else "l1_tile"
    out = np.full((tile.WIDTH, tile.ROWS), np.nan, np.float32)
    getattr(tile, name)(block, tiles, 2, n_numeric, out)
    expected = costs(block.T[None], tiles[2].T[:, None], n_numeric, squared)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize(("p", "n_numeric"), [(1, 1), (1, 0), (5, 3), (13, 13), (25, 9), (40, 40)])
def test_costs_of_pairs(p: int, n_numeric: int, squared: bool):
    rng = np.random.default_rng(p)
    x, points = (rng.normal(size=(size, p)).round(1).astype(np.float32) for size in (30, 8))
    name = "sqeuclidean_pair" if squared else "l1_pair"
    found = [[getattr(tile, name)(x, i, points, j, n_numeric) for j in range(8)] for i in range(30)]
    expected = costs(x[:, None], points[None], n_numeric, squared)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
