"""Draws test rows with controlled base rates, validation rows, and candidates for examples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.runs.settings import FITTED, Settings
from fwc_llm.sanitize import Fields, Json
from fwc_llm.tasks import Task
from fwc_llm.words import ANSWERS, is_known

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.metrics.planning import Design
    from fwc_llm.metrics.prediction_powered import FeatureTable


_VALIDATION = 1  # added to the seed: a stream of its own
_MOST, _LEAST = 200, 20  # limits of the default number of validation rows


@dataclass(frozen=True)
class Split:
    """`test` rows in order; `candidates` (n,) marks rows of `pool` for examples."""

    pool: "pd.DataFrame"
    test: "pd.DataFrame"
    candidates: "np.ndarray"


def draw_split(
    task: Task,
    n_test: int = 200,
    base_parity: float | None = 0.5,
    seed: int = 0,
    not_equal_to: "pd.DataFrame | Sequence[Fields]" = (),
) -> Split:
    """Draw `n_test` test rows without replacement, and mark possible examples.

    With a `base_parity` b, each of the K known groups has n_test / K rows, and the base rates are
    evenly spaced from 0.5 − b/2 to 0.5 + b/2 in the order of `task.groups`. None draws uniformly.
    Rows that equal one of `not_equal_to` in all features and protected attributes are not drawn.
    The draw is determined by `seed`.

    Raises `FwcError` for b outside [0, 1], for an `n_test` without whole cells (with the nearest
    possible number), and for a cell with too few rows (with its name).
    """
    drawn = n_test, base_parity, np.random.default_rng(seed)
    table = task.test()
    free = ~equal_rows(task, table, not_equal_to)
    test = table.iloc[draw(task, cells_of_rows(task, table), free, *drawn)]
    pool = task.pool()
    if pool is task.test():  # one file: the pool is the rest
        pool = pool[~pool.index.isin(test.index)]
    return Split(pool, test, ~equal_rows(task, pool, test))


def hold_out(
    task: Task, split: Split, n: int, base_parity: float | None, seed: int
) -> "tuple[pd.DataFrame, Split]":
    """Draw `n` validation rows like test rows; also the split without their equals."""
    rng = np.random.default_rng([seed, _VALIDATION])
    cells = cells_of_rows(task, split.pool)
    rows = split.pool.iloc[draw(task, cells, split.candidates, n, base_parity, rng)]
    left = ~equal_rows(task, split.pool, rows)
    return rows, replace(split, candidates=split.candidates & left)


def draw_validation_rows(
    task: "Task",
    split: Split,
    settings: Settings,
    seed: int,
    examples: Sequence[Fields],
) -> "tuple[pd.DataFrame, Split]":
    """A repeat's validation rows, 0 if none are needed; the split without them."""
    if settings.threshold not in FITTED:
        return split.pool.iloc[:0], split
    free = split.candidates
    if examples:
        free = free & ~equal_rows(task, split.pool, examples)
    open_split = replace(split, candidates=free)
    rows = _number_of_rows(task, open_split, settings)
    try:
        validation, left = hold_out(task, open_split, rows, settings.base_parity, seed)
    except FwcError as error:
        raise FwcError(
            f"--threshold {settings.threshold} needs rows of the pool: {error}"
        ) from None
    return validation, replace(
        left, candidates=left.candidates | (split.candidates & ~free)
    )


def _number_of_rows(task: "Task", split: Split, settings: Settings) -> int:
    """As many as test rows, at most 200, and at most half of each cell's candidates."""
    most = min(settings.n_test, _MOST)
    parity = settings.base_parity
    if parity is None:
        return max(min(most, int(split.candidates.sum()) // 2), 2)
    step = whole_step(task.groups, parity)
    least = math.ceil(_LEAST / step) * step
    cells = cells_of_rows(task, split.pool)[split.candidates]
    counts = np.bincount(cells, minlength=2 * len(task.groups)).reshape(-1, 2)
    fitting = most_rows(task.groups, counts // 2, parity)
    return min(nearest_whole(task.groups, most, parity), max(fitting, least))


def design_of(
    task: Task,
    n_test: int,
    base_parity: float | None,
    repeats: int,
    min_group: int = 30,
) -> "Design":
    """The design of a run: rows that are drawn, and available, per cell."""
    from fwc_llm.metrics.planning import Design

    table = task.cells_of(task.test())
    if base_parity is None:
        check_size(n_test, int(table.sum()))
        of_groups = table.sum(1, keepdims=True).astype(float)
        return Design(
            task.groups, n_test * of_groups / table.sum(), of_groups, repeats, min_group
        )
    rows = available_counts(task, table, n_test, base_parity)
    return Design(
        task.groups, rows.astype(float), table.astype(float), repeats, min_group
    )


def cells_of_rows(task: Task, rows: "pd.DataFrame") -> np.ndarray:
    """The cell (n,) of every row, in the order of `task.cells_of`."""
    labels = 2 + task.refers
    index = {group: labels * place for place, group in enumerate(task.groups)}
    groups = [index[group] for group in task.sensitive(rows).tolist()]
    return np.asarray(np.array(groups, dtype=np.int64) + task.labels(rows))


def draw(
    task: Task,
    cells: np.ndarray,
    free: np.ndarray,
    n: int,
    base_parity: float | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Positions of `n` of the `free` rows, drawn as in `draw_split`."""
    if base_parity is None:
        rows = np.flatnonzero(free)
        check_size(n, len(rows))
        return np.asarray(rows[rng.choice(len(rows), size=n, replace=False)])
    available = np.bincount(cells[free], minlength=2 * len(task.groups))
    counts = available_counts(task, available.reshape(-1, 2), n, base_parity)
    drawn = []
    for cell, count in enumerate(counts.flat):
        rows = np.flatnonzero(free & (cells == cell))
        drawn.append(rows[rng.choice(len(rows), count, replace=False)])
    return rng.permutation(np.concatenate(drawn))


def interleave_cells(cells: np.ndarray) -> np.ndarray:
    """A permutation of rows (n,) whose prefixes have about equal shares of cells."""
    import pandas as pd

    of_cell = pd.Series(cells).groupby(cells)
    rank = (of_cell.cumcount() + 0.5) / of_cell.transform("size")
    return np.argsort(rank.to_numpy(), kind="stable")


def cell_counts(groups: Sequence[str], n: int, base_parity: float) -> np.ndarray:
    """Numbers of test rows (G, 2) by group and outcome, "no" first.

    Known group k = 0, …, K − 1 gets n/K rows, of which a share 0.5 + b (k/(K−1) − 1/2) is yes; a
    group whose category is unknown is never judged, and gets none. `FwcError` if these numbers are
    not whole.
    """
    rates = _base_rates(groups, base_parity)
    step = whole_step(groups, base_parity)
    check_size(n, n)
    if n % step:
        problem = f"{n} test rows over {len(rates)} groups with base parity {float(base_parity):g}"
        nearest = nearest_whole(groups, n, base_parity)
        works = f"the nearest number that works is {nearest} (any multiple of {step})"
        raise FwcError(f"{problem} do not divide evenly into cells; {works}")
    size = n // len(rates)
    counts = {group: (size * (1 - rate), size * rate) for group, rate in rates.items()}
    return np.array([counts.get(group, (0, 0)) for group in groups], dtype=np.int64)


def whole_step(groups: Sequence[str], base_parity: float | None) -> int:
    """The smallest number of test rows with whole cells; others are multiples."""
    if base_parity is None:
        return 1
    rates = _base_rates(groups, base_parity)
    return len(rates) * math.lcm(*(rate.denominator for rate in rates.values()))


def nearest_whole(groups: Sequence[str], n: int, base_parity: float | None) -> int:
    """The number of test rows nearest to `n` with whole cells."""
    step = whole_step(groups, base_parity)
    below = n // step * step
    above = below + step
    if n == below or (below > 0 and above - n >= n - below):
        return below
    return above


def most_rows(groups: Sequence[str], available: np.ndarray, base_parity: float) -> int:
    """The largest number of test rows with whole cells of at most `available` (G, 2) rows."""
    step = whole_step(groups, base_parity)
    needed = cell_counts(groups, step, base_parity)
    times = available[needed > 0] // needed[needed > 0]
    return step * max(0, int(times.min()))


def _base_rates(groups: Sequence[str], base_parity: float) -> dict[str, Fraction]:
    """The share of yes among the test rows of each known group."""
    if (
        not isinstance(base_parity, (int, float)) or not 0.0 <= base_parity <= 1.0
    ):  # NaN fails too
        raise FwcError(f"base parity {base_parity} is outside [0, 1]")
    judged = [group for group in groups if is_known(group)]
    last = len(judged) - 1
    if last < 1:
        there = f"there is only {', '.join(groups)!r}"
        raise FwcError(f"base-rate parity needs at least two groups; {there}")
    parity = Fraction(repr(float(base_parity)))
    return {
        group: Fraction(1, 2) + parity * (Fraction(k, last) - Fraction(1, 2))
        for k, group in enumerate(judged)
    }


def check_size(n: int, available: int) -> None:
    """Raise `FwcError` for a number of test rows below 1 or above `available`."""
    if n < 1:
        raise FwcError(f"the number of test rows must be at least 1; it is {n}")
    if n > available:
        raise FwcError(
            f"{n:,} rows are asked for, but only {available:,} can be drawn: ask for fewer"
        )


def available_counts(
    task: Task, available: np.ndarray, n: int, base_parity: float
) -> np.ndarray:
    """`cell_counts`; `FwcError` if a cell has fewer rows `available` (G, 2)."""
    counts = cell_counts(task.groups, n, base_parity)
    short = np.flatnonzero(available < counts)
    if not len(short):
        return counts
    index = int(short[0])
    most = most_rows(task.groups, available, base_parity)
    fewer = (
        f"the most that work are {most}"
        if most
        else "no number works with this base parity"
    )
    problem = f"the cell {cell_words(task, index)} has {available.flat[index]:,} rows to draw from"
    needed = f"{counts.flat[index]:,} are needed for {n} test rows"
    raise FwcError(
        f"{problem}, but {needed}; {fewer}; base parity none draws rows as they occur in the table"
    )


def cell_words(task: Task, index: int) -> str:
    """One of the 2G cells in words: its group and outcome."""
    group = task.groups[index // 2]
    answer = ("no", "yes")[index % 2]
    return f"{' & '.join(task.protected)} = {group}, {task.outcome} = {answer}"


def population(task: "Task") -> list[Json]:
    """Numbers of rows by group and outcome in the table of test rows, for run.json."""
    cells = zip(task.groups, task.cells_of(task.test()).tolist(), strict=True)
    return [
        {"group": group, **dict(zip(ANSWERS, counts, strict=False))}
        for group, counts in cells
    ]


def table_of(task: "Task") -> "FeatureTable":
    """The table of test rows, for assisted estimates."""
    from fwc_llm.metrics.prediction_powered import FeatureTable

    rows = task.test()
    features = rows[
        [column.name for column in task.shown if column.name not in task.protected]
    ]
    return FeatureTable(rows.index, task.sensitive(rows), task.labels(rows), features)


def value_names(task: Task) -> list[str]:
    """The columns by which rows are compared: a weight does not change the question."""
    return [column.name for column in task.features] + list(task.protected)


def row_values(
    task: Task, rows: "pd.DataFrame | Sequence[Fields]"
) -> list[tuple[Any, ...]]:
    """The values of `value_names` as tuples; `FwcError` if an example lacks one."""
    names = value_names(task)
    if isinstance(rows, Sequence):
        lacking = {name for row in rows for name in names if name not in row}
        if lacking:
            raise FwcError(
                f"an example has no value for {min(lacking)!r}; task {task.name!r} needs it"
            )
        return [tuple(row[name] for name in names) for row in rows]
    return list(map(tuple, rows[names].to_numpy(object).tolist()))


def equal_rows(
    task: Task, rows: "pd.DataFrame", others: "pd.DataFrame | Sequence[Fields]"
) -> np.ndarray:
    """Mark the rows (n,) that equal one of `others`, or share its cluster."""
    import pandas as pd

    other_values = set(row_values(task, others))
    equal = np.array(
        [values in other_values for values in row_values(task, rows)], dtype=bool
    )
    if task.rules.cluster and len(others):
        equal |= (
            rows[task.rules.cluster]
            .isin(pd.DataFrame(others)[task.rules.cluster])
            .to_numpy()
        )
    return equal
