"""Samples of a problem's rows, and an order of the rows in which samples can be drawn evenly.

The best optimum of a sample owes much to chance: to the rows that were drawn. The less it does, the nearer
it is to an optimum of all rows. So the rows are put into an order in which neighbours are alike, and one is
drawn from each of many stretches of equal length (stratified sampling). On Adult the objectives of 2,048 such
rows are as near to those of all rows as the objectives of 4,096 rows drawn at random.
"""

import numpy as np

from fwc_llm.coreset.problem.problem import Problem

_ALIKE = 8  # rows of a stretch that is not cut
_ORDERED = 49_152  # rows at most that are put in order, drawn at random where there are more
_KINDS = 64  # categories of a column that are told apart
_MISSED, _SUITED = 1.15, 3.0  # times the sample's objective; more, the fewer rows a representative has


def missed(objective: float, reached: float, each: float) -> bool:
    """Whether a sample lacked rows that count, from the objectives of its optimum on all rows and on its own.

    A few rows that lie far from all others can make most of the objective. A sample without them ends in an
    optimum that has no representative near them. k-means++ on all rows draws such rows. Elsewhere too the
    first objective is above the second, since an optimum suits its own rows best: the more, the fewer rows
    (`each`) the sample has for a representative.
    """
    return objective > (_MISSED + _SUITED / each) * reached


def sample_rows(
    problem: Problem,
    count: int,
    rng: np.random.Generator,
    priority: np.ndarray | None = None,
    order: np.ndarray | None = None,
) -> np.ndarray:
    """`count` rows in order, each cell with its share and with enough candidates for its seats.

    Where a cell's share would hold too few, it gets more: the sample is then slightly richer in small cells.
    Rows of the highest `priority` (n,) are taken, or one of each stretch of an `order`, or any.
    """
    n = problem.table.n
    chosen = np.zeros(n, bool)
    if priority is not None:
        chosen[np.argsort(-priority, kind="stable")[:count]] = True
    elif order is not None and count < len(order):
        start = np.arange(count + 1) * len(order) // count
        chosen[order[rng.integers(start[:-1], start[1:])]] = True
    else:
        chosen[rng.choice(n, count, replace=False)] = True
    for g, seats in enumerate(np.bincount(problem.cell_of, minlength=problem.cells.n_cells)):
        pool = problem.pools[g]
        _, first = np.unique(problem.ids[pool], return_index=True)
        have = len(np.unique(problem.ids[pool[chosen[pool]]]))
        if have < 4 * seats:
            chosen[rng.permutation(pool[first])[: 4 * seats]] = True
    return np.flatnonzero(chosen)


def even_order(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """Rows (n',) in an order in which neighbours are alike: all of them, or many.

    The rows of a cell are halved along the column in which they differ most, and the halves again, as in a
    k-d tree.
    """
    rows = rng.permutation(problem.table.n)[:_ORDERED]
    rows = rows[np.argsort(problem.cells.cell[rows], kind="stable")]
    start = np.flatnonzero(np.diff(problem.cells.cell[rows], prepend=-1))
    numbers, codes = problem.table.numbers_of(rows).astype(np.float32), problem.table.codes[rows]
    place = np.arange(len(rows))
    while True:
        size = np.diff(start, append=len(rows))
        long = size >= 2 * _ALIKE
        if not long.any():
            return np.asarray(rows[place])
        stretch = np.repeat(np.arange(len(start)), size)
        column = _widest(numbers[place], codes[place], start, size)[stretch]
        value = np.zeros(len(rows))
        for k in np.unique(column):
            own = place[column == k]
            of_numbers = k < numbers.shape[1]
            value[column == k] = numbers[own, k] if of_numbers else codes[own, k - numbers.shape[1]]
        place = place[np.lexsort((value, stretch))]
        start = np.sort(np.concatenate([start, (start + size // 2)[long]]))


def _widest(numbers: np.ndarray, codes: np.ndarray, start: np.ndarray, size: np.ndarray) -> np.ndarray:
    """(s,) the column in which the rows of each stretch differ most; stretches begin at `start` (s,).

    A number differs by the mean distance from the mean, a category by the chance that two rows have different
    ones (about: some may count as the same).
    """
    stretch = np.repeat(np.arange(len(start)), size)
    spread = np.empty((numbers.shape[1] + codes.shape[1], len(start)))
    for k, column in enumerate(numbers.T):
        mean = np.add.reduceat(column, start) / size
        spread[k] = np.add.reduceat(np.abs(column - mean[stretch]), start) / size
    for k, column in enumerate(codes.T, numbers.shape[1]):
        count = np.bincount(stretch * _KINDS + column % _KINDS, minlength=len(start) * _KINDS)
        spread[k] = 1 - ((count.reshape(len(start), _KINDS) / size[:, None]) ** 2).sum(axis=1)
    return np.asarray(spread.argmax(axis=0))


def sampling_order(
    problem: Problem, least: int, rng: np.random.Generator, priority: np.ndarray | None = None
) -> np.ndarray:
    """All rows in random order, but enough candidates for every cell among the first `least` of them.

    Rows of the highest `priority` (n,) come first.
    """
    order = rng.permutation(problem.table.n) if priority is None else np.argsort(-priority, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    first = []
    for g, seats in enumerate(np.bincount(problem.cell_of, minlength=problem.cells.n_cells)):
        early = problem.pools[g][np.argsort(place[problem.pools[g]])]
        _, at = np.unique(problem.ids[early], return_index=True)
        first.append(early[np.sort(at)[: 2 * seats]])
    ahead = np.unique(np.concatenate(first))
    rest = order[~np.isin(order, ahead)]
    mixed = np.concatenate([ahead, rest[: max(0, least - len(ahead))]])
    return np.concatenate([rng.permutation(mixed), rest[max(0, least - len(ahead)) :]])
