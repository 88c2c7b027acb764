"""Test rows with controlled base rates, and the rows that may still become examples.

The rules of the evaluation protocol: test rows are drawn first; a pool row with equal values cannot become
an example; groups have equal numbers of test rows, with base rates evenly spaced over 0.5 ± b/2.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.tasks import Task

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fwc_llm.data.whole import Whole
    from fwc_llm.metrics.planning import Design


_VALIDATION = 1  # beside the seed: validation rows are drawn apart from test rows


@dataclass(frozen=True)
class Split:
    """`test` rows in the order they are asked; `pool` rows (n), of which `candidates` (n,) may be examples.

    The examples represent the whole pool; `candidates` only marks the rows that may become examples.
    """

    pool: "pd.DataFrame"
    test: "pd.DataFrame"
    candidates: "np.ndarray"


def draw_split(
    task: Task,
    n_test: int = 200,
    base_parity: float | None = 0.5,
    seed: int = 0,
    exclude: Collection[str] | None = None,
    not_equal_to: "pd.DataFrame | Sequence[Mapping[str, Any]] | None" = None,
) -> Split:
    """Draw `n_test` test rows without replacement, then mark the pool rows that may be examples.

    `base_parity` b gives every group n_test / G rows and base rates evenly spaced from 0.5 − b/2 to 0.5 + b/2
    in the order of `task.groups`; None draws from all test rows alike. Rows whose id is in `exclude`, or that
    equal one of `not_equal_to` in every feature and protected attribute, are not drawn. The same `seed`
    draws the same rows.

    Raises `FwcError` for b outside [0, 1], counts that are not whole (naming the nearest n that works) and a
    cell with too few rows (naming it).
    """
    import numpy as np

    taken = set(row_values(task, not_equal_to)) if not_equal_to is not None and len(not_equal_to) else set()
    asked = n_test, base_parity, np.random.default_rng(seed), set(exclude or ()), taken
    test = (
        _draw_on_disk(task, task.whole, *asked) if task.whole is not None else _draw_in_memory(task, *asked)
    )
    pool = task.pool()
    if pool is task.test():  # one file: the pool is the rest
        pool = pool[~pool.index.isin(test.index)]
    return Split(pool, test, ~equal_rows(task, pool, test))


def hold_out(
    task: Task, split: Split, n: int, base_parity: float | None, seed: int
) -> "tuple[pd.DataFrame, Split]":
    """`n` validation rows of the split's pool, drawn like test rows, and the split without them as examples.

    No validation row equals a test row, and none of the candidates that are left equals a validation row.

    Raises `FwcError` as `draw_split` does; for a pool with too few rows it says how many are needed.
    """
    import numpy as np

    rng = np.random.default_rng([seed, _VALIDATION])
    if base_parity is None:
        _check_size(n, int(split.candidates.sum()))
        drawn = rng.choice(np.flatnonzero(split.candidates), size=n, replace=False)
    else:
        counts = cell_counts(task.groups, n, base_parity)
        drawn = rng.permutation(_draw_cells(task, split.pool, split.candidates, counts, rng))
    rows = split.pool.iloc[drawn]
    free = ~equal_rows(task, split.pool, rows)
    return rows, Split(split.pool, split.test, split.candidates & free)


def design_of(task: Task, n_test: int, base_parity: float | None, repeats: int) -> "Design":
    """The rows per cell that a run asks about, and the rows per cell that it can draw from.

    Raises `FwcError` as `draw_split` does. Nothing is drawn.
    """
    import numpy as np

    from fwc_llm.metrics.planning import Design

    if repeats < 1:
        raise FwcError(f"repeats is {repeats}: a run needs at least 1")
    held = task.cells_of(task.test())
    if base_parity is None:
        _check_size(n_test, int(held.sum()))
        of_groups = held.sum(1, keepdims=True).astype(float)
        return Design(task.groups, n_test * of_groups / held.sum(), of_groups, repeats)
    counts = cell_counts(task.groups, n_test, base_parity)
    rows = np.array([[counts[group, answer] for answer in ("no", "yes")] for group in task.groups])
    _check_cells(task, dict(zip(counts, held.ravel().tolist(), strict=True)), counts)
    return Design(task.groups, rows.astype(float), held.astype(float), repeats)


def cell_counts(groups: Sequence[str], n: int, base_parity: float) -> dict[tuple[str, str], int]:
    """Rows per cell (group, "no" | "yes"): `n` test rows with base-rate parity b over `groups`, low to high.

    Group k of G gets n/G rows, of which a share 0.5 + b (k/(G−1) − 1/2) is yes.
    """
    rates = _base_rates(groups, base_parity)
    step = whole_step(groups, base_parity)
    if n < 1 or n % step:
        nearest = nearest_whole(groups, n, base_parity)
        other = nearest - step if nearest > n else nearest + step
        also = f" or {other}" if other > 0 else ""
        raise FwcError(
            f"{n} test rows over {len(groups)} groups with base parity {float(base_parity):g} do not come "
            f"out whole; the nearest number that works is {nearest}{also} (any multiple of {step})"
        )
    size = n // len(groups)
    return {
        (group, answer): int(size * (rate if answer == "yes" else 1 - rate))
        for group, rate in zip(groups, rates, strict=True)
        for answer in ("no", "yes")
    }


def whole_step(groups: Sequence[str], base_parity: float) -> int:
    """The smallest number of test rows with whole cells; its multiples are the only others."""
    return len(groups) * math.lcm(*(rate.denominator for rate in _base_rates(groups, base_parity)))


def nearest_whole(groups: Sequence[str], n: int, base_parity: float) -> int:
    """The number of test rows nearest to `n` with whole cells."""
    step = whole_step(groups, base_parity)
    below = n // step * step
    above = below + step
    return below if n == below or (below > 0 and above - n >= n - below) else above


def _base_rates(groups: Sequence[str], base_parity: float) -> list[Fraction]:
    if not isinstance(base_parity, (int, float)) or not 0.0 <= base_parity <= 1.0:  # NaN fails too
        raise FwcError(f"base parity {base_parity} is outside [0, 1]")
    if len(groups) < 2:
        raise FwcError(f"base-rate parity needs at least two groups; there is only {groups[0]!r}")
    parity, last = Fraction(repr(float(base_parity))), len(groups) - 1
    return [Fraction(1, 2) + parity * (Fraction(k, last) - Fraction(1, 2)) for k in range(len(groups))]


def row_values(task: Task, rows: "pd.DataFrame | Sequence[Mapping[str, Any]]") -> list[tuple[Any, ...]]:
    """One tuple per row for comparing rows by value: features and protected attributes.

    Extras and the outcome are left out: people who differ only in a sampling weight give one question.
    """
    names = [column.name for column in task.features] + list(task.protected)
    if isinstance(rows, Sequence):
        for row in rows:
            for name in names:
                if name not in row:
                    raise FwcError(f"an example has no value for {name!r}; task {task.name!r} needs it")
        return [tuple(row[name] for name in names) for row in rows]
    return list(zip(*(rows[name].tolist() for name in names), strict=True))


def equal_rows(task: Task, rows: "pd.DataFrame", others: "pd.DataFrame") -> "np.ndarray":
    """Which rows (n,) of the table equal one of the others by value, features and protected attributes."""
    import numpy as np

    # Of a million rows tuples would take hundreds of bytes each: only those whose hashes meet are compared.
    found = np.isin(row_hashes(task, rows), row_hashes(task, others))
    at = np.flatnonzero(found)
    if len(at):
        like = np.isin(row_hashes(task, others), row_hashes(task, rows.iloc[at]))
        known = set(row_values(task, others[like]))
        found[at] = [key in known for key in row_values(task, rows.iloc[at])]
    return found


def row_hashes(task: Task, rows: "pd.DataFrame") -> "np.ndarray":
    """A hash (n,) of every row's features and protected attributes; 0.0 is -0.0, as it is for `==`."""
    import pandas as pd

    names = [column.name for column in task.features] + list(task.protected)
    numeric = {column.name for column in task.columns if column.kind == "numeric"}
    values = {name: rows[name] + 0 if name in numeric else rows[name] for name in names}
    return pd.util.hash_pandas_object(pd.DataFrame(values), index=False).to_numpy()


def _check_size(n: int, available: int) -> None:
    if n < 1:
        raise FwcError(f"the number of test rows must be at least 1; it is {n}")
    if n > available:
        raise FwcError(f"{n} test rows are asked for, but only {available:,} rows can be drawn")


def _check_cells(
    task: Task, available: Mapping[tuple[str, str], int], counts: Mapping[tuple[str, str], int]
) -> None:
    """Refuse a cell that has fewer rows than are to be drawn, with the most test rows that there can be."""
    n, times = sum(counts.values()), math.gcd(*counts.values())
    most = min(available[cell] * times // count for cell, count in counts.items() if count) * (n // times)
    for (group, answer), count in counts.items():
        if available[group, answer] >= count:
            continue
        fewer = f"the most that work are {most}" if most else "no number works with this base parity"
        raise FwcError(
            f"the cell {' & '.join(task.protected)} = {group}, {task.outcome} = {answer} has "
            f"{available[group, answer]:,} rows to draw from, but {count:,} are needed for {n} test rows; "
            f"{fewer}, and with no base parity (none) rows are drawn as they fall"
        )


def _draw_in_memory(
    task: Task,
    n: int,
    base_parity: float | None,
    rng: "np.random.Generator",
    exclude: Collection[str],
    taken: Collection[tuple[Any, ...]],
) -> "pd.DataFrame":
    """`n` rows of the table, none of the ids `exclude`, none with values that are `taken`."""
    import numpy as np

    table = task.test()
    free = np.ones(len(table), dtype=bool)
    if exclude:
        free &= ~table.index.isin(list(exclude))
    if taken:
        free &= np.fromiter(
            (key not in taken for key in row_values(task, table)), dtype=bool, count=len(table)
        )
    if base_parity is None:
        _check_size(n, int(free.sum()))
        return table.iloc[rng.choice(np.flatnonzero(free), size=n, replace=False)]
    counts = cell_counts(task.groups, n, base_parity)
    return table.iloc[rng.permutation(_draw_cells(task, table, free, counts, rng))]


def _draw_on_disk(
    task: Task,
    whole: "Whole",
    n: int,
    base_parity: float | None,
    rng: "np.random.Generator",
    exclude: Collection[str],
    taken: Collection[tuple[Any, ...]],
) -> "pd.DataFrame":
    """The rows that `_draw_in_memory` draws of the same table."""
    import numpy as np

    names = [column.name for column in task.features] + list(task.protected)
    none = np.zeros(0, dtype=np.int64)
    without = whole.find(exclude) if exclude else none
    free = whole.free(np.concatenate([without, whole.equal(names, taken) if taken else none]))
    if base_parity is None:
        size = whole.size(free)
        _check_size(n, size)
        return whole.take(whole.nth(rng.choice(size, size=n, replace=False), free))
    counts = cell_counts(task.groups, n, base_parity)
    sizes = {(group, answer): whole.size(free, (group, answer == "yes")) for group, answer in counts}
    _check_cells(task, sizes, counts)
    drawn = [
        whole.nth(rng.choice(sizes[group, answer], count, replace=False), free, (group, answer == "yes"))
        for (group, answer), count in counts.items()
    ]
    return whole.take(rng.permutation(np.concatenate(drawn)))


def _draw_cells(
    task: Task,
    table: "pd.DataFrame",
    free: "np.ndarray",
    counts: Mapping[tuple[str, str], int],
    rng: "np.random.Generator",
) -> "np.ndarray":
    import numpy as np

    levels, labels = task.sensitive(table), task.labels(table)
    cells = {
        (group, answer): np.flatnonzero(free & (levels == group) & (labels == (answer == "yes")))
        for group, answer in counts
    }
    _check_cells(task, {cell: len(rows) for cell, rows in cells.items()}, counts)
    return np.concatenate([rng.choice(cells[cell], count, replace=False) for cell, count in counts.items()])
