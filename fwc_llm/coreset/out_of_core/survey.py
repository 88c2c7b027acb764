"""The first reading of a table: groups of labels, means and spreads of columns, and a random sample of rows.

Every row has a random key by the seed and its position in the table, divided by its weight; the rows with the
smallest keys are the sample (priority sampling: Duffield, Lund and Thorup 2007), and of every group of labels
there are enough. So the sample depends neither on the blocks nor on threads or workers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fwc_llm.apportion import largest_remainder
from fwc_llm.coreset.out_of_core.blocks import Block, Table
from fwc_llm.coreset.problem.encoding import Encoding, pick
from fwc_llm.coreset.problem.frames import as_pandas, column_kind, is_frame, plain_array
from fwc_llm.coreset.problem.input_rows import InputRows, read_rows
from fwc_llm.coreset.weights import read_weights
from fwc_llm.errors import InputError

_OF_A_GROUP = 512  # rows of every group in the sample, where the table has so many
_MOST_GROUPS = 2**16  # of a block: labels are few
_EQUAL = 1e-9  # relative difference of weights that are the same

Key = tuple[Any, ...]  # the labels of a group: y, then the protected attributes


@dataclass(frozen=True)
class Survey:
    """The sample as rows in memory, encoded as the whole table is, and the sums of the whole table.

    `raw` are the sample's rows as their owner has them, at the ascending `positions` (s,) in the table.
    `cell_of` is the cell of every group of labels; `total` is the mass of all `n` rows.
    """

    rows: InputRows
    raw: Any
    positions: np.ndarray
    cell_of: dict[Key, int]
    has_y: bool
    has_levels: bool
    weighted: bool
    n: int
    total: float


def survey(
    table: Table,
    *,
    sample: int,
    least: int,
    cost: str,
    scale: bool | str,
    epsilon: float | None,
    seed: int,
    tick: Callable[[float], None],
) -> Survey:
    """Read the table once.

    Args:
        table: the table, of more than `sample` rows.
        sample: number of rows that are drawn; of a small group some more are.
        least: rows of every group in the sample, where it has so many.
        cost: see `FairCoreset`, as `scale` and `epsilon`.
        scale: see above.
        epsilon: see above.
        seed: of the sample.
        tick: called with the share of rows that are read.

    Raises:
        InputError: a missing or infinite value, by its column and row; a cell without rows, a single
            protected level, no rows of positive weight.
    """
    look = _Look(table.n, sample, max(least, min(_OF_A_GROUP, sample)), scale, seed)
    seen = table.read(look, look.merge, tick)
    groups = seen.groups
    counts, sums = seen.totals
    if not groups:
        raise InputError("sample_weight is zero for every row: at least one row must count")
    drawn, mass = _chosen(look, seen, counts, sums)
    raw, y, sensitive = (
        _stacked([getattr(piece, part) for piece in drawn]) for part in ("X", "y", "sensitive")
    )
    positions = np.concatenate([piece.positions for piece in drawn])
    if is_frame(raw):
        raw = raw.set_axis(positions, axis=0).astype(dict.fromkeys(table.texts & set(raw.columns), "str"))
    rows = read_rows(raw, y, sensitive, mass, cost, scale, epsilon)
    encoding = _of_whole_table(rows.encoding, seen.moments)
    encoded = rows.table
    if encoding is not None and encoding != rows.encoding:
        encoded = encoding.encode(raw, what="the sample")
    place = {key: k for k, key in enumerate(groups)}
    cells = rows.cells
    cell_of_group = np.empty(len(groups), np.int64)
    cell_of_group[[place[piece.labels[k]] for piece in drawn for k in piece.group.tolist()]] = cells.cell
    totals = [np.bincount(cell_of_group, part, cells.n_cells) for part in (counts, sums)]
    whole = totals[0].astype(np.int64)
    weighted = bool(np.ptp(np.asarray(seen.weights)) > 0)
    cells = replace(cells, counts=whole, sizes=totals[1] if weighted else whole)
    return Survey(
        rows=replace(rows, encoding=encoding, table=encoded, cells=cells),
        raw=raw,
        positions=positions,
        cell_of=dict(zip(groups, cell_of_group.tolist(), strict=True)),
        has_y=y is not None,
        has_levels=sensitive is not None,
        weighted=weighted,
        n=table.n,
        total=float(cells.sizes.sum()),
    )


def weights_of(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """The places (u,) of a block's rows of positive weight, and these weights."""
    if block.weight is None:
        return np.arange(len(block.X)), np.ones(len(block.X))
    try:
        weights = np.asarray(block.weight, np.float64)
        read_weights(np.append(weights, 1.0), len(block.X) + 1)  # all of a block may be 0
    except (InputError, TypeError, ValueError) as error:
        raise InputError(f"{error} (in {block.where}, counted from row {block.first})") from None
    used = np.flatnonzero(weights)
    return used, weights[used]


def groups_of(block: Block, used: np.ndarray) -> tuple[list[Key], np.ndarray]:
    """The groups of labels in a block, and the place (u,) among them of each of its rows `used`.

    Raises:
        InputError: a label is missing, or there are too many.
    """
    import pandas as pd

    columns = [(column, "y") for column in _label_columns(block.y)]
    columns += [(column, "sensitive") for column in _label_columns(block.sensitive)]
    code, labels = np.zeros(len(used), np.int64), []
    for column, what in columns:
        if len(column) != len(block.X):
            raise InputError(f"{what} has {len(column)} rows but X has {len(block.X)} in {block.where}")
        codes, distinct = pd.factorize(column.iloc[used] if hasattr(column, "iloc") else column[used])
        if (codes < 0).any():
            row = block.first + used[(codes < 0).argmax()]
            raise InputError(
                f"{what} is missing in row {row} of {block.where}: drop such rows or give them a level of "
                "their own"
            )
        if len(distinct) > _MOST_GROUPS:
            raise InputError(f"{what} holds more than {_MOST_GROUPS:,} different values: pass labels")
        _, code = np.unique(code * (len(distinct) + 1) + codes, return_inverse=True)
        labels.append((codes, distinct.tolist()))
    first = np.unique(code, return_index=True)[1]
    keys = [tuple(distinct[codes[row]] for codes, distinct in labels) for row in first.tolist()]
    return keys, code


def _label_columns(values: Any) -> list[Any]:
    if values is None:
        return []
    values = as_pandas(values)
    if is_frame(values):
        return [values.iloc[:, k] for k in range(values.shape[1])]
    return list(values.T) if values.ndim == 2 else [values]


@dataclass(frozen=True)
class _Piece:
    """Drawn rows of one block: their positions and keys (k,), group among `labels`, weight, and columns."""

    positions: np.ndarray
    keys: np.ndarray
    group: np.ndarray
    labels: list[Key]
    weight: np.ndarray
    X: Any
    y: Any
    sensitive: Any

    def take(self, kept: np.ndarray) -> "_Piece":
        """Some of the rows (k,) bool."""
        rows = np.flatnonzero(kept)
        if len(rows) == len(kept):
            return self
        columns = [_some(part, rows) for part in (self.X, self.y, self.sensitive)]
        return _Piece(
            self.positions[rows], self.keys[rows], self.group[rows], self.labels, self.weight[rows], *columns
        )


@dataclass(frozen=True)
class _Moments:
    """Mass, and by column the least and largest number, the mean and the sum of squares about it."""

    mass: float
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    def add(self, other: "_Moments") -> "_Moments":
        """Those of both (Chan, Golub and LeVeque 1983)."""
        mass, apart = self.mass + other.mass, other.mean - self.mean
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.mean + apart * (other.mass / mass)
            squares = self.squares + other.squares + apart**2 * (self.mass * other.mass / mass)
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return _Moments(mass, low, high, mean, squares)


@dataclass
class _Seen:
    """What some blocks tell; floating-point sums stay apart by the number of the block."""

    by_group: dict[int, dict[Key, tuple[int, float]]]  # rows and mass
    by_column: dict[int, tuple[list[Any], _Moments]]  # of numeric and ordinal columns
    ranks: dict[Any, list[Any]]  # the categories of ordinal columns
    weights: tuple[float, float]  # least and largest
    pieces: list[_Piece]

    @cached_property
    def groups(self) -> list[Key]:
        """All groups, in the order in which they appear."""
        return list(dict.fromkeys(key for index in sorted(self.by_group) for key in self.by_group[index]))

    @property
    def totals(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows and the mass of every group."""
        place = {key: k for k, key in enumerate(self.groups)}
        counts, sums = np.zeros(len(place), np.int64), np.zeros(len(place))
        for index in sorted(self.by_group):
            for key, (count, mass) in self.by_group[index].items():
                counts[place[key]] += count
                sums[place[key]] += mass
        return counts, sums

    @property
    def moments(self) -> dict[Any, tuple[float, float, float, float]]:
        """By column the least and largest number, mean and standard deviation."""
        if not self.by_column:
            return {}
        order = sorted(self.by_column)
        names, whole = self.by_column[order[0]]
        for index in order[1:]:
            if self.by_column[index][0] != names:
                apart = set(names) ^ set(self.by_column[index][0])
                raise InputError(
                    f"columns {sorted(map(str, apart))} are numeric in a part of X only: write one type"
                )
            whole = whole.add(self.by_column[index][1])
        spread = np.sqrt(whole.squares / whole.mass)
        lost = ~np.isfinite(whole.mean + spread) | ((spread == 0) & (whole.low < whole.high))
        if lost.any():
            raise InputError(
                f"the numbers of column {names[int(lost.argmax())]!r} are too large or too small for double "
                "precision: scale that column"
            )
        columns = zip(
            whole.low.tolist(), whole.high.tolist(), whole.mean.tolist(), spread.tolist(), strict=True
        )
        return dict(zip(names, columns, strict=True))


@dataclass(frozen=True)
class _Look:
    """The task of the reading."""

    n: int
    sample: int
    least: int
    scale: bool | str
    seed: int

    def __call__(self, block: Block) -> _Seen:
        """What one block tells."""
        used, weights = weights_of(block)
        if not len(used):
            return _Seen({}, {}, {}, (0.0, 0.0), [])
        X = block.X if len(used) == len(block.X) else pick(block.X, used)
        columns, numbers, ranks = _numbers_of(X, block, used)
        by_column = {}
        if columns and self.scale is not False and (is_frame(X) or self.scale is True):
            with np.errstate(over="ignore", invalid="ignore"):
                mean = weights @ numbers / weights.sum()
                squares = weights @ (numbers - mean) ** 2
            ends = numbers.min(axis=0), numbers.max(axis=0)
            by_column = {block.index: (columns, _Moments(float(weights.sum()), *ends, mean, squares))}
        labels, group = groups_of(block, used)
        counts, sums = np.bincount(group), np.bincount(group, weights)
        totals = dict(zip(labels, zip(counts.tolist(), sums.tolist(), strict=True), strict=True))
        keys = self._uniform(block.first, len(block.X))[used] / weights
        low = keys < self._limit(block)
        low |= _rank_in_group(keys, group) < self.least
        rows = np.flatnonzero(low)
        columns_of = [_some(part, used[rows]) for part in (block.X, block.y, block.sensitive)]
        piece = _Piece(block.first + used[rows], keys[rows], group[rows], labels, weights[rows], *columns_of)
        ends_of = float(weights.min()), float(weights.max())
        return _Seen({block.index: totals}, by_column, ranks, ends_of, [piece])

    def _uniform(self, first: int, count: int) -> np.ndarray:
        """Random numbers (count,) in [0, 1), which belong to the positions of the rows."""
        before, skipped = divmod(first, 4)  # Philox makes four at once
        stream = np.random.Generator(np.random.Philox(key=self.seed).advance(before))
        return np.asarray(stream.random(skipped + count)[skipped:])

    def _limit(self, block: Block) -> float:
        """A key that more rows than are needed stay below; unknown where rows have weights."""
        return 1.1 * self.most / self.n if block.weight is None else np.inf

    @property
    def most(self) -> int:
        """Rows that are kept for the sample: of a group some more may be chosen than are among the first."""
        return self.sample + self.sample // 4 + 1000

    def merge(self, parts: list[_Seen]) -> _Seen:
        """What several blocks tell."""
        whole = _Seen({}, {}, {}, (np.inf, -np.inf), [])
        for part in parts:
            if not part.by_group:
                continue
            whole.by_group |= part.by_group
            whole.by_column |= part.by_column
            whole.weights = min(whole.weights[0], part.weights[0]), max(whole.weights[1], part.weights[1])
            whole.pieces += part.pieces
            for name, values in part.ranks.items():
                if whole.ranks.setdefault(name, values) != values:
                    raise InputError(
                        f"the ordered categories of column {name!r} differ: {whole.ranks[name][:20]} and "
                        f"{values[:20]}; give the whole column one order"
                    )
        if sum(len(piece.keys) for piece in whole.pieces) > 2 * self.most:
            keys, group, _ = _joint(whole.pieces)
            kept = _ranks(keys) < self.most
            kept |= _rank_in_group(keys, group) < self.least
            cuts = np.cumsum([len(piece.keys) for piece in whole.pieces])[:-1]
            whole.pieces = [
                piece.take(own)
                for piece, own in zip(whole.pieces, np.split(kept, cuts), strict=True)
                if own.any()
            ]
        return whole


def _numbers_of(X: Any, block: Block, used: np.ndarray) -> tuple[list[Any], np.ndarray, dict[Any, list[Any]]]:
    """The numeric and ordinal columns of a block, their numbers (u, k), and the ordinal ones' categories.

    Raises:
        InputError: a missing or infinite value.
    """

    def refuse(lost: np.ndarray, column: str, how: str) -> None:
        if lost.any():
            row = block.first + used[int(lost.argmax())]
            raise InputError(f"{column} is {how} in row {row} of {block.where}: drop or fill such rows")

    if not is_frame(X):
        array = plain_array(X)
        if array.ndim != 2 or not array.shape[1]:
            raise InputError(
                f"X has shape {array.shape} in {block.where}: give rows with at least one column"
            )
        if not np.isfinite(array.sum(dtype=np.float64)):
            for k, column in enumerate(array.T):
                refuse(np.isnan(column), f"column {k} of X", "missing")
                refuse(np.isinf(column), f"column {k} of X", "infinite")
        return list(range(array.shape[1])), array, {}
    names, numbers, ranks = [], [], {}
    for name, column in X.items():
        if (missing := column.isna().to_numpy()).any():
            refuse(missing, f"column {name!r}", "missing")
        kind = column_kind(column)
        if kind == "categorical":
            continue
        names.append(name)
        if kind == "ordinal":
            ranks[name] = column.cat.categories.tolist()
            numbers.append(column.cat.codes.to_numpy(np.float64))
        else:
            numbers.append(column.to_numpy(np.float64))
            refuse(~np.isfinite(numbers[-1]), f"column {name!r}", "infinite")
    return names, np.column_stack(numbers) if names else np.empty((len(X), 0)), ranks


def _chosen(
    look: _Look, seen: _Seen, counts: np.ndarray, sums: np.ndarray
) -> tuple[list[_Piece], np.ndarray | None]:
    """The rows of the sample in the order of the table, and their masses; None where all count the same.

    Every group has its share of the rows or, with weights, what it has among the first keys; at least `least`
    rows. Masses add up to those of the groups in the table.
    """
    pieces = sorted(seen.pieces, key=lambda piece: int(piece.positions[0]) if len(piece.positions) else 0)
    keys, group, weight = _joint(pieces, seen.groups)
    if seen.weights[0] == seen.weights[1]:
        n = int(counts.sum())
        share = largest_remainder(
            min(look.sample, n) * counts / n, min(look.sample, n), np.zeros_like(counts), counts
        )
    else:
        share = np.bincount(group[_ranks(keys) < look.sample], minlength=len(counts))
    wanted = np.maximum(share, np.minimum(counts, look.least))
    rank = _rank_in_group(keys, group)
    kept = rank < wanted[group]
    # A row stands for the rows of its group whose keys are as small as the first one that was not drawn.
    beyond = np.full(len(counts), np.inf)
    next_one = rank == wanted[group]
    beyond[group[next_one]] = keys[next_one]
    base = np.maximum(weight, 1 / beyond[group])[kept]
    own = group[kept]
    drawn_mass = np.bincount(own, base, len(counts))
    mass = base * (sums / np.where(drawn_mass > 0, drawn_mass, 1.0))[own]
    cuts = np.cumsum([len(piece.keys) for piece in pieces])[:-1]
    drawn = [piece.take(part) for piece, part in zip(pieces, np.split(kept, cuts), strict=True) if part.any()]
    fair = np.abs(wanted - len(own) * counts / counts.sum()) <= 1
    if seen.weights[0] == seen.weights[1] and fair.all():
        return drawn, None
    return drawn, mass * (len(own) / mass.sum())


def _joint(
    pieces: list[_Piece], groups: list[Key] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The keys, groups and weights of all rows; groups are numbered in the order of `groups`, or of any."""
    place = {key: k for k, key in enumerate(groups or [])}
    numbers = [
        np.array([place.setdefault(key, len(place)) for key in piece.labels], np.int64) for piece in pieces
    ]
    group = np.concatenate([number[piece.group] for number, piece in zip(numbers, pieces, strict=True)])
    return np.concatenate([p.keys for p in pieces]), group, np.concatenate([p.weight for p in pieces])


def _ranks(keys: np.ndarray) -> np.ndarray:
    """The place of every key, from 0, in ascending order."""
    rank = np.empty(len(keys), np.int64)
    rank[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    return rank


def _rank_in_group(keys: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The place of every key among those of its group."""
    order = np.lexsort((keys, group))
    start = np.searchsorted(group[order], np.arange(int(group.max(initial=-1)) + 1))
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys)) - start[group[order]]
    return rank


def _some(part: Any, rows: np.ndarray) -> Any:
    """Some rows, in memory of their own."""
    if part is None:
        return None
    if hasattr(part, "iloc"):
        return part.iloc[rows]
    return np.asarray(part)[rows]


def _stacked(parts: list[Any]) -> Any:
    """Rows of several pieces one after the other; categories are joined, text is text."""
    if parts[0] is None:
        return None
    if not hasattr(parts[0], "iloc"):
        return np.concatenate(parts)
    import pandas as pd
    from pandas.api.types import union_categoricals

    if is_frame(parts[0]):
        names = parts[0].columns
        joint = {name: _stacked([part[name] for part in parts]) for name in names}
        return pd.DataFrame(joint)
    if all(isinstance(part.dtype, pd.CategoricalDtype) for part in parts) and not parts[0].cat.ordered:
        return pd.Series(union_categoricals(parts), name=parts[0].name)
    return pd.concat(parts, ignore_index=True)


def _of_whole_table(encoding: Encoding, moments: dict[Any, tuple[float, float, float, float]]) -> Encoding:
    """The encoding of the sample with the means and spreads of the whole table."""
    if encoding is None or not moments:
        return encoding
    columns = []
    for column in encoding.columns:
        if column.name in moments and column.kind != "categorical":
            low, high, mean, spread = moments[column.name]
            column = (
                replace(column, mean=mean, scale=spread)
                if low < high
                else replace(column, mean=low, scale=np.inf)
            )
        columns.append(column)
    return replace(encoding, columns=tuple(columns))
