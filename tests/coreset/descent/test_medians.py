"""Medians by bins against sorted columns, while rows come and go."""

import numpy as np
import pytest

from fwc_llm.coreset.descent.medians import Means, Medians
from fwc_llm.coreset.descent.updates import Shares, means, medians
from fwc_llm.coreset.problem.table import Table
from fwc_llm.coreset.threads import Threads


def numbers(x: np.ndarray) -> Table:
    return Table(x, np.empty((len(x), 0), np.int32))


def whole(label: np.ndarray, m: int) -> Shares:
    none = np.zeros(0, np.int64)
    return Shares(label.astype(np.int32), none, none, np.zeros(0), m)


def torn(label: np.ndarray, m: int, rng: np.random.Generator) -> Shares:
    """Some rows split between two or three representatives, as plans do."""
    row = np.repeat(rng.permutation(len(label))[: min(len(label), 4)], rng.integers(1, 3))
    return Shares(
        label.astype(np.int32), row, rng.integers(0, m, len(row)), rng.random(len(row)).round(2) / 2, m
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("decimals", [0, 1, 9])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (40, 12), (5000, 3), (20_000, 8), (3000, 300)])
def test_medians_and_means_stay_exact_while_labels_change(kind: type, decimals: int, n: int, m: int):
    rng = np.random.default_rng(n + decimals)
    x = rng.normal(size=(n, 3)).round(decimals).astype(kind)
    x[:, 2] = np.where(rng.random(n) < 0.7, 0, x[:, 2])  # most values are one
    if n == 5000:
        x = np.asfortranarray(x)
    threads = Threads(2)
    movers = ((Medians(numbers(x), m, threads), medians), (Means(numbers(x), threads), means))
    points = {plain: rng.normal(size=(m, 3)) for _, plain in movers}
    label = rng.integers(0, m, n)
    for share in (0.0, 0.001, 0.1, 0.9, 0.02, 0.0):
        changed = rng.random(n) < share
        label[changed] = rng.integers(0, m, changed.sum())
        for shares in (torn(label, m, rng), whole(label, m)):
            for mover, plain in movers:
                expected = plain(numbers(x), shares, points[plain])
                points[plain] = mover.move(shares, points[plain])
                if plain is medians:
                    np.testing.assert_array_equal(points[plain], expected)
                else:
                    np.testing.assert_allclose(points[plain], expected, atol=1e-12)
    points = rng.normal(size=(m, 3))  # another start, with the same labels
    np.testing.assert_array_equal(movers[0][0].move(shares, points), medians(numbers(x), shares, points))


@pytest.mark.slow
def test_a_representative_without_rows_stays_and_one_with_all_gets_the_median():
    x = np.arange(101, dtype=np.float32)[:, None]
    moved = Medians(numbers(x), 2, Threads(1)).move(whole(np.ones(101), 2), np.array([[7.5], [3.0]]))
    assert moved.tolist() == [[7.5], [50.0]]


def test_categorical_columns_are_left_alone():
    table = Table(np.array([[1.0], [2.0], [9.0]]), np.array([[0], [1], [1]]))
    moved = Medians(table, 1, Threads(1)).move(whole(np.zeros(3), 1), np.array([[0.0, 5.0]]))
    assert moved.tolist() == [[2.0, 5.0]]


def test_a_table_without_numbers_has_nothing_to_move():
    table = Table(np.empty((3, 0)), np.array([[0], [1], [1]]))
    moved = Medians(table, 1, Threads(1)).move(whole(np.zeros(3), 1), np.array([[5.0]]))
    assert moved.tolist() == [[5.0]]


def test_many_equal_values_in_one_bin_take_no_longer():
    # Bins are cut by every third row; all the others hold two values, in between two of those.
    n = 400_000
    x = np.linspace(0, 1, n)
    x[np.arange(n) % 3 > 0] = 0.5 + 1e-9
    x[np.arange(n) % 3 > 1] = 0.5 + 2e-9
    own = x[::6]
    label = np.where(np.arange(n) % 6 == 0, 0, 1)
    moved = Medians(numbers(x[:, None]), 2, Threads(1)).move(whole(label, 2), np.array([[-1.0], [-1.0]]))
    assert moved[0, 0] == np.sort(own)[(len(own) - 1) // 2]
    assert moved[1, 0] == np.sort(x[label == 1])[((label == 1).sum() - 1) // 2]
