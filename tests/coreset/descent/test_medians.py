"""Medians and means, of all representatives or of those that carry other rows than before."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import Generator

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent.loop import Steps
from fwc_llm.coreset.descent.updates import Centres
from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.medians import Groups, medians
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.weights import Masses, read_weights
from tests.coreset.programs import torn, whole


def numbers(x: np.ndarray) -> EncodedTable:
    return EncodedTable(x, np.empty((len(x), 0), np.int32))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("decimals", [0, 1, 9])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (40, 12), (2000, 3), (900, 100)])
def test_moves_of_what_changed_are_those_of_all(
    kind: type, decimals: int, n: int, m: int
):
    rng = np.random.default_rng(n + decimals)
    x = rng.normal(size=(n, 3)).round(decimals).astype(kind)
    x[:, 2] = np.where(rng.random(n) < 0.7, 0, x[:, 2])  # most values are one
    table = numbers(x)
    threads = Threads(2)
    label = rng.integers(0, m, n)
    kept = {cost: Centres(table, cost, m, threads) for cost in ("l1", "sqeuclidean")}
    points = {cost: rng.normal(size=(m, 3)) for cost in kept}
    for share in (0.0, 0.001, 0.1, 0.9, 0.0):
        changed = rng.random(n) < share
        label[changed] = rng.integers(0, m, changed.sum())
        for shares in (torn(label, m, rng), whole(label, m)):
            for cost, centres in kept.items():
                expected = Centres(table, cost, m, Threads(1)).move(
                    shares, points[cost]
                )
                points[cost] = centres.move(shares, points[cost])
                np.testing.assert_allclose(points[cost], expected, rtol=1e-13)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_medians_are_those_of_sorted_values(kind: type, weighted: bool):
    rng = np.random.default_rng(int(weighted))
    for trial in range(60):
        n = rng.integers(1, 200)
        m = rng.integers(1, 9)
        x = (rng.standard_cauchy((n, 2)) * 10.0 ** rng.integers(-8, 8)).astype(kind)
        if trial % 3 == 0:  # ties
            x = np.round(x)
        start = np.searchsorted(np.sort(rng.integers(0, m, n)), np.arange(m + 1))
        if weighted:
            units = rng.integers(1, 1 << 40, n)
        else:
            units = np.full(n, 1 << 32)
        groups = Groups(rng.permutation(n), units, start, 1.0)
        low, high = medians(x, groups, Threads(2))
        for j in np.flatnonzero(np.diff(start)):
            part = slice(start[j], start[j + 1])
            for values, lower, upper in zip(
                x[groups.rows[part]].T, low[j], high[j], strict=True
            ):
                order = np.argsort(values)
                upto = np.cumsum(units[part][order])
                assert lower == values[order][upto.searchsorted((upto[-1] + 1) // 2)]
                assert upper == values[order][upto.searchsorted(upto[-1] // 2, "right")]


# --- The steps of weighted rows


@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_whole_weights_move_as_repeated_rows_do(rng: Generator, cost: str) -> None:
    x = rng.integers(0, 6, (300, 3)).astype(float)
    y, d = rng.integers(0, 2, (2, 300))
    weights = rng.integers(1, 6, 300)
    given = FairCoreset(12, cost=cost).problem(x, y, d, sample_weight=weights)
    often = np.rint(given.masses.values / given.masses.values.min()).astype(
        int
    )  # the least weight is 1
    rows = np.repeat(np.arange(300), often)
    repeated = replace(given.subset(rows), masses=Masses(np.ones(len(rows))))
    points = given.table.values[np.arange(12) * 20].astype(np.float64)
    objective, other = (
        Steps(each).certify(points)[0].objective for each in (given, repeated)
    )
    assert objective == pytest.approx(other, rel=1e-12)
    label = np.random.default_rng(1).integers(0, 12, 300)
    expected = Steps(repeated).move_points(whole(label[rows], 12), points)
    for masses in (given.masses, read_weights(often * 7.0, 300)):
        moved = Steps(given).move_points(
            replace(whole(label, 12), masses=masses), points
        )
        assert np.allclose(moved, expected, rtol=1e-12)
