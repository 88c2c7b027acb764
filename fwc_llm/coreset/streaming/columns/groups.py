"""The labels of a table in blocks, from which its cells follow: by the rules that hold in memory."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fwc_llm.coreset.problem.cells import Cells, check_equal, check_levels, empty_cell
from fwc_llm.coreset.problem.frames import as_pandas, is_frame
from fwc_llm.coreset.problem.input_rows import cells_of_rows
from fwc_llm.coreset.streaming.blocks import Block
from fwc_llm.coreset.streaming.columns.factors import check_present, factorize, joined
from fwc_llm.errors import InputError

MOST_GROUPS = 2**16  # of a block: labels are few

Key = tuple[Any, ...]  # the labels of a group, y first


@dataclass(frozen=True)
class BlockGroups:
    """The rows of a block by their labels: `values` of y and of each attribute (c,), one entry a group.

    `place` (n,) is the group of every row; `counts` (c,) are its rows of positive weight, `sums` (c,) their
    weights.
    """

    values: tuple[np.ndarray, ...]
    place: np.ndarray
    counts: np.ndarray
    sums: np.ndarray

    @classmethod
    def of(cls, block: Block, n: int, weights: np.ndarray | None = None) -> "BlockGroups":
        """The groups of a block of n rows."""
        codes, values = np.zeros(n, np.int64), []
        sizes: list[int] = []
        columns = [(column, "y") for column in _columns(block.y, "y", n, block)]
        columns += [(column, "sensitive") for column in _columns(block.sensitive, "sensitive", n, block)]
        for column, what in columns:
            found, distinct = factorize(column)
            check_present(found, distinct, what, block.where, block.start)
            if distinct.dtype.kind == "O" and any(not isinstance(value, str) for value in distinct):
                kinds = dict.fromkeys((type(value), value) for value in column)  # equal ones of several types
                check_equal((value for _, value in kinds), f"{what} in {block.where}")
            if len(distinct) > MOST_GROUPS:
                raise InputError(
                    f"{what} holds more than {MOST_GROUPS:,} different values in {block.where}: pass labels, "
                    "not measurements"
                )
            codes = codes * max(len(distinct), 1) + found
            values.append(distinct)
            sizes.append(max(len(distinct), 1))
        product = int(np.prod(sizes, dtype=object))
        if product <= MOST_GROUPS:
            lookup = np.zeros(product, np.int64)
            present = np.flatnonzero(np.bincount(codes, minlength=product))
            lookup[present] = np.arange(len(present))
            place = lookup[codes]
        else:
            present, place = np.unique(codes, return_inverse=True)
        members: list[np.ndarray] = []
        rest = present
        for distinct, size in zip(reversed(values), reversed(sizes), strict=True):
            rest, code = np.divmod(rest, size)
            members.append(distinct[code])
        return cls(
            tuple(reversed(members)),
            place,
            np.bincount(place if weights is None else place[weights > 0], minlength=len(present)),
            np.bincount(place, weights, minlength=len(present)),
        )

    @property
    def keys(self) -> list[Key]:
        """The labels of every group."""
        return list(zip(*(values.tolist() for values in self.values), strict=True))

    def without_rows(self) -> "BlockGroups":
        """The same without what is kept for every row."""
        return replace(self, place=np.empty(0, np.int64))


def find_groups(
    blocks: dict[int, BlockGroups],
    epsilon: float | None,
    has_y: bool,
    has_levels: bool,
    n: int,
    weighted: bool,
) -> tuple[Cells, dict[Key, int]]:
    """The cells of the whole table, of no rows, and the cell of each group.

    Raises:
        InputError: one protected level alone, or a cell without rows, where there is a parity limit.
    """
    ordered = [blocks[index] for index in sorted(blocks)]
    width = len(ordered[0].values)
    if any(len(part.values) != width for part in ordered):
        raise InputError("sensitive has more columns in one block than in another")
    values = [joined([part.values[k] for part in ordered], "sensitive" if k else "y") for k in range(width)]
    counts = np.concatenate([part.counts for part in ordered])
    sums = np.concatenate([part.sums for part in ordered])
    used = np.flatnonzero(sums > 0)
    if len(used) == 1 and n > 1:
        used = np.repeat(used, 2)  # one group, of which the checks see more than one row
        counts, sums = counts / 2, sums / 2
    values = [column[used] for column in values]
    y = values[0] if has_y else None
    levels: Any = None
    if has_levels:
        kinds = {column.dtype for column in values[1:]}
        levels = (
            values[1] if width == 2 else np.column_stack(values[1:]) if len(kinds) == 1 else _frame(values)
        )
    cells = cells_of_rows(y, levels, len(used), epsilon)
    held = [np.bincount(cells.cell, part[used], cells.n_cells) for part in (counts, sums)]
    whole = np.rint(held[0]).astype(np.int64)
    sizes = held[1] if weighted else whole
    cells_of = dict(
        zip(zip(*(column.tolist() for column in values), strict=True), cells.cell.tolist(), strict=True)
    )
    found = replace(cells, cell=np.empty(0, np.int64), counts=whole, sizes=sizes)
    if epsilon is not None:
        check_levels(found)
        for g in np.flatnonzero(whole == 0).tolist():
            raise empty_cell(found, g)
    return found, cells_of


def _frame(values: list[np.ndarray]) -> Any:
    """Attributes of several types side by side."""
    import pandas as pd

    return pd.DataFrame({k: pd.Series(column, dtype=column.dtype) for k, column in enumerate(values[1:])})


def _columns(values: Any, what: str, n: int, block: Block) -> list[Any]:
    """Labels as columns (n,); those that were not given are all alike."""
    if values is None:
        return [np.zeros(n, np.int8)]
    values = as_pandas(values)
    if is_frame(values):
        columns = [values.iloc[:, k] for k in range(values.shape[1])]
    elif hasattr(values, "iloc"):
        columns = [values]
    else:
        array = np.asarray(values)
        columns = list(array.T) if array.ndim == 2 else [array]
    if not columns or getattr(columns[0], "ndim", 1) != 1 or (what == "y" and len(columns) > 1):
        raise InputError(f"{what} has shape {np.shape(values)} in {block.where}: pass one value per row")
    if len(columns[0]) != n:
        raise InputError(f"{what} has {len(columns[0])} rows but X has {n} in {block.where}")
    return columns
