"""The first pass: sums per group of labels, and a random sample of rows.

A row's key is a random number divided by the row's weight; the seed and the row's position fix the
number. The rows with the smallest keys are the sample (priority sampling: Duffield, Lund and Thorup
2007). The sample does not depend on blocks, threads or workers.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm.apportion import largest_remainder
from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.out_of_core.block_tables import Block, BlockTable, Tick
from fwc_llm.coreset.problem.cells import Cells, find_cells
from fwc_llm.coreset.problem.encoded_input import EncodedInput, read_rows
from fwc_llm.coreset.problem.encoding import Encoder, is_scaled, numbers_of
from fwc_llm.coreset.problem.frames import take_named
from fwc_llm.coreset.weights import Masses, read_weights
from fwc_llm.errors import InputError

_OF_A_GROUP = 512  # rows of every group in the sample, at least, if the table has them
_SAME = 1e-12  # standard deviation, relative to the mean, that counts as rounding


@dataclass(frozen=True)
class SamplePass:
    """The sampled rows in memory, scaled like the whole table."""

    rows: EncodedInput  # their cells have the sums of the whole table
    positions: Array  # (s,) of these rows in `table`, ascending
    cell_of: dict[str, int]  # cell of each group of labels
    table: BlockTable


def run_sampling_pass(
    table: BlockTable, params: Any, sample: int, least: int, seed: int, tick: Tick
) -> SamplePass:
    """Read a table once, and draw about `sample` rows: of every group of labels at least
    `least`, or all.
    """
    look = _Look(
        table.n, sample, max(least, min(_OF_A_GROUP, sample)), seed, params.scale
    )
    parts = [part for part in table.read(look, look.shrink, tick) if len(part.sums)]
    if not parts:
        raise InputError(
            "sample_weight is zero for every row: give at least one row a positive weight"
        )
    totals = pd.concat([part.sums for part in parts]).groupby(level=0).sum()
    counts = totals["count"].to_numpy()
    sums = totals["mass"].to_numpy()
    drawn = pd.concat([part.drawn for part in parts])
    values = _stacked([part.rows for part in parts])
    group = totals.index.get_indexer(pd.Index(drawn["group"]))
    name = table.names[-1]
    weight = None if name is None else values[name].to_numpy(float)
    key = drawn["key"].to_numpy()
    chosen, masses = _choose(look, key, weight, group, counts, sums)
    values = values.iloc[chosen]
    columns = take_named(values, *table.names, table.name, only_names=True)
    rows = read_rows(params, columns._replace(sample_weight=masses))
    if is_scaled(params.scale, rows.encoder.columns):
        encoder = _of_whole_table(rows.encoder, parts)
        rows = replace(
            rows, encoder=encoder, table=encoder.encode(columns.X, role="the sample")
        )
    cell_of = np.empty(len(totals), np.int64)
    cell_of[group[chosen]] = rows.cells.cell
    in_cell = np.bincount(cell_of, counts, rows.cells.n_cells).astype(np.int64)
    sizes = np.bincount(cell_of, sums, rows.cells.n_cells)
    rows = replace(rows, cells=replace(rows.cells, counts=in_cell, sizes=sizes))
    positions = values.index.to_numpy()
    return SamplePass(
        rows, positions, dict(zip(totals.index, cell_of.tolist(), strict=True)), table
    )


def read_labels(block: Block) -> tuple[Array, Array, Cells]:
    """Return the indices (u,) of a block's rows of positive weight, their weights and cells."""
    _, y, sensitive, sample_weight = block.columns
    weights = np.ones(block.n)
    try:
        if sample_weight is not None:
            weights = np.asarray(sample_weight, np.float64)
            # All weights of a block may be 0.
            read_weights(np.append(weights, 1.0), block.n + 1)
        cells = find_cells(y, sensitive, block.n, Masses(weights))
    except (InputError, TypeError, ValueError) as error:
        raise InputError(f"{error} (in {block.place})") from None
    used = np.flatnonzero(weights)
    return used, weights[used], cells


@dataclass(frozen=True)
class _Part:
    """A block's summary, and the rows drawn from it."""

    sums: pd.DataFrame  # count and mass of each group of labels
    moments: pd.DataFrame  # per column: mean, sum of squares about the mean, mass
    drawn: pd.DataFrame  # key and group of the rows drawn, by position
    rows: pd.DataFrame  # the caller's values of these rows

    def take(self, rows: Array) -> "_Part":
        return replace(self, drawn=self.drawn.iloc[rows], rows=self.rows.iloc[rows])


@dataclass(frozen=True)
class _Look:
    """The task of the pass for one block."""

    n: int
    sample: int
    least: int
    seed: int
    scale: bool | str

    def __call__(self, block: Block) -> _Part:
        used, weights, cells = read_labels(block)
        group = cells.cell
        names = np.array([cells.name(g) for g in range(cells.n_cells)], object)
        totals = pd.DataFrame({"count": cells.counts, "mass": cells.sizes}, names)
        key = self._uniform(block.first, block.n)[used] / weights
        # More rows than needed have keys below this limit; with weights, no limit is known.
        if block.columns.sample_weight is None:
            limit = 1.1 * self._most / self.n
        else:
            limit = np.inf
        rows = np.flatnonzero((key < limit) | (_rank(key, group) < self.least))
        values = block.rows.iloc[used[rows]]
        drawn = pd.DataFrame(
            {"key": key[rows], "group": names[group[rows]]}, values.index
        )
        moments = _moments(block, used, weights, self.scale)
        return _Part(totals[cells.counts > 0], moments, drawn, values)

    def _uniform(self, first: int, count: int) -> Array:
        """Random numbers (count,) in [0, 1), fixed by seed and position of the row."""
        before, skipped = divmod(first, 4)  # Philox makes four numbers at once
        stream = np.random.Generator(np.random.Philox(key=self.seed).advance(before))
        return np.asarray(stream.random(skipped + count)[skipped:])

    @property
    def _most(self) -> int:
        """Number of smallest keys to keep: `_choose` may need more rows of a group than `sample`
        holds.
        """
        return self.sample + self.sample // 4 + 1000

    def shrink(self, parts: list[_Part]) -> list[_Part]:
        """Drop rows that cannot be in the sample, if many were drawn."""
        if sum(len(part.drawn) for part in parts) <= 2 * self._most:
            return parts
        drawn = pd.concat([part.drawn for part in parts], ignore_index=True)
        key = drawn["key"].to_numpy()
        group = pd.factorize(drawn["group"])[0]
        wanted = _rank(key, group) < self.least
        wanted[np.argpartition(key, self._most)[: self._most]] = True
        cuts = np.cumsum([len(part.drawn) for part in parts])[:-1]
        return [
            part.take(np.flatnonzero(rows))
            for part, rows in zip(parts, np.split(wanted, cuts), strict=True)
        ]


def _choose(
    look: _Look, key: Array, weight: Any, group: Array, counts: Array, sums: Array
) -> tuple[Array, Array | None]:
    """Choose the sample from the rows drawn; return their indices and masses, None for equal
    masses.

    The sampled masses of a group are in proportion to the group's mass in the table, `sums`.
    """
    n = int(counts.sum())
    if weight is None:
        size = min(look.sample, n)
        share = largest_remainder(
            size * counts / n, size, np.zeros_like(counts), counts
        )
    else:
        first = key.argsort(kind="stable")[: look.sample]
        share = np.bincount(group[first], minlength=len(counts))
    wanted = np.maximum(share, np.minimum(counts, look.least))
    rank = _rank(key, group)
    chosen = np.flatnonzero(rank < wanted[group])
    group_of = group[chosen]
    if weight is None and (np.abs(wanted - len(group_of) * counts / n) <= 1).all():
        return chosen, None
    # Priority sampling: a row's mass is at least 1 / (the smallest key of its group that was not
    # chosen).
    beyond = np.full(len(counts), np.inf)
    next_one = rank == wanted[group]
    beyond[group[next_one]] = key[next_one]
    base = np.maximum(1.0 if weight is None else weight, 1 / beyond[group])[chosen]
    mass = (
        base
        * (sums / np.maximum(np.bincount(group_of, base, len(counts)), 1e-300))[
            group_of
        ]
    )
    return chosen, mass * (len(group_of) / mass.sum())


def _moments(
    block: Block, used: Array, weights: Array, scale: bool | str
) -> pd.DataFrame:
    """Per numeric or ordinal column, if these may be scaled: mean, sum of squares about the mean,
    mass.
    """
    named = numbers_of(block.columns.X, block.where)
    moments = {}
    if scale and len(used):
        for name, column in named.items():
            values = np.asarray(column, np.float64)[used]
            with np.errstate(over="ignore", invalid="ignore"):
                mean = weights @ values / weights.sum()
                squares = weights @ (values - mean) ** 2
            moments[name] = mean, squares, weights.sum()
    return pd.DataFrame(moments, ["mean", "squares", "mass"])


def _of_whole_table(encoder: Encoder, parts: list[_Part]) -> Encoder:
    """Give the sample's encoder the means and standard deviations of the whole table."""
    columns = []
    for column in encoder.columns:
        if column.kind != "categorical":
            mean, squares, mass = np.array(
                [part.moments[column.name] for part in parts]
            ).T
            with np.errstate(over="ignore", invalid="ignore"):
                centre = float(mean @ mass / mass.sum())
                spread = float(
                    ((squares + mass * (mean - centre) ** 2).sum() / mass.sum()) ** 0.5
                )
            if not np.isfinite(spread):
                raise InputError(
                    f"column {column.name!r} is too large for double precision: scale it"
                )
            constant = spread <= _SAME * abs(centre)
            column = replace(column, mean=centre, scale=np.inf if constant else spread)
        columns.append(column)
    return replace(encoder, columns=tuple(columns))


def _rank(key: Array, group: Array) -> Array:
    """Rank of every key within its group, from 0."""
    rank = pd.Series(key).groupby(group).rank(method="first")
    return rank.to_numpy().astype(np.int64) - 1


def _stacked(parts: list[pd.DataFrame]) -> pd.DataFrame:
    joint = pd.concat(parts)
    for name in joint.columns:
        dtypes = {part[name].dtype for part in parts if name in part}
        if len(dtypes) > 1 and any(
            getattr(dtype, "ordered", False) for dtype in dtypes
        ):
            raise InputError(
                f"the ordered categories of column {name!r} differ: give them one order"
            )
    return joint
