"""The first reading of a table in blocks: its cells, its encoding, and a random sample of its rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fwc_llm.apportion import largest_remainder
from fwc_llm.coreset.problem.cells import Cells
from fwc_llm.coreset.problem.encoding import Table
from fwc_llm.coreset.problem.entry import warn_of_sizes
from fwc_llm.coreset.problem.frames import is_frame
from fwc_llm.coreset.streaming.blocks import Block, Source, Survey
from fwc_llm.coreset.streaming.collecting.identity import block_sum, fingerprint
from fwc_llm.coreset.streaming.columns.draw import Drawn, Piece, Plan
from fwc_llm.coreset.streaming.columns.factors import stacked
from fwc_llm.coreset.streaming.columns.features import Features
from fwc_llm.coreset.streaming.columns.groups import BlockGroups, find_groups
from fwc_llm.coreset.streaming.columns.reading import BlockReader, block_weights
from fwc_llm.errors import InputError


@dataclass
class Seen:
    """What the blocks read so far tell, empty ones by their length alone."""

    lengths: dict[int, int]
    features: Features | None
    groups: dict[int, BlockGroups]
    drawn: Drawn | None
    given: tuple[bool, bool]  # whether y and sensitive are there
    weights: dict[int, tuple[float, float]]  # by block the least and the largest
    sums: dict[int, int]  # check sums by block

    def add(self, other: "Seen") -> "Seen":
        """What other blocks tell, too."""
        if self.features is None or other.features is None:
            most = self if other.features is None else other
            most.lengths = self.lengths | other.lengths
            return most
        if bool(self.weights) != bool(other.weights) or self.given != other.given:
            raise InputError("y, sensitive or sample_weight are given in some blocks alone: give all of them")
        self.lengths |= other.lengths
        self.groups |= other.groups
        self.weights |= other.weights
        self.sums |= other.sums
        self.features.add(other.features)
        if self.drawn is not None and other.drawn is not None:
            self.drawn.add(other.drawn)
        return self


def survey(
    source: Source,
    *,
    sample: int,
    least: int = 0,
    cost: str = "l1",
    scale: bool | str = "auto",
    epsilon: float | None = None,
    seed: int = 0,
    tick: Callable[[int, int], None] | None = None,
) -> Survey:
    """Read the table once.

    Args:
        source: the table.
        sample: how many rows are drawn; some hundreds of every cell are, whatever this is.
        least: how many of every cell are at least, so that it can have as many representatives.
        cost: for the check that costs are within float64.
        scale: whether numbers become z-scores (`encode_weighted`).
        epsilon: the parity limit: with one, every cell needs rows.
        seed: of the sample.
        tick: told how far it is (`Source.reduce`).

    Raises:
        InputError: a missing or infinite value, by its column, file and row; columns or types that differ
            between blocks; a cell without rows, a single protected level; no rows at all.
    """
    if scale not in (True, False, "auto") or not isinstance(scale, bool | str):
        raise InputError(f"scale={scale!r}: use True, False or 'auto'")
    plan = Plan.of(sample, getattr(source, "n", None), seed, least)
    seen = source.reduce(partial(_look, plan), _both, tick)
    if seen.features is None or seen.drawn is None:
        raise InputError(f"{source.name} has no rows: pass at least one")
    lengths = tuple(seen.lengths[index] for index in range(len(seen.lengths)))
    n = sum(lengths)
    unit = _unit(seen)
    encoding, low, high, powers = seen.features.encoding(scale)
    cells, cells_of = find_groups(seen.groups, epsilon, *seen.given, n, unit is not None)
    if unit is not None:
        cells = replace(cells, sizes=cells.sizes * unit)
    firsts = np.concatenate([[0], np.cumsum(lengths)])
    width, dtype = len(seen.features.names), seen.features.dtype
    sums = np.array([seen.sums.get(index, 0) for index in range(len(lengths))], np.uint64)
    reader = BlockReader(encoding, width, dtype, powers, firsts, cells_of, unit, sums)
    reader.check_costs(low, high, cost)
    cell_of_group = np.array([cells_of.get(key, 0) for key in seen.drawn.groups], np.int64)
    share = None if unit is None else seen.drawn.first(sample, cell_of_group, cells.n_cells)
    wanted = _wanted(cells, sample, plan.least, share)
    pieces = [piece for piece in seen.drawn.chosen(wanted, cell_of_group, unit) if len(piece.keys)]
    cell = np.concatenate([piece.group for piece in pieces])
    table = _encoded(reader, pieces)
    if scale == "auto" and encoding is None:
        warn_of_sizes(table)
    positions = np.concatenate([firsts[piece.index] + piece.places for piece in pieces])
    raw = _raw(pieces, getattr(source, "texts", frozenset()), positions)
    mass = _masses(cells, cell, pieces, unit)
    cells = replace(cells, cell=cell)
    found = Survey(reader, encoding, lengths, table, cells, positions, raw, mass, *seen.given)
    return replace(found, fingerprint=fingerprint(found, sums))


def _look(plan: Plan, block: Block) -> Seen:
    """What one block tells."""
    n = len(block.rows)
    if not n:
        return Seen({block.index: 0}, None, {}, None, (False, False), {}, {})
    weights = None if block.weight is None else block_weights(block, n)
    used, chosen, ends = None, None, {}
    if weights is not None:
        ends = {block.index: (float(weights.min()), float(weights.max()))}
        used = np.flatnonzero(weights)
        chosen = weights[used]
    features = Features.of(block, used, chosen)
    groups = BlockGroups.of(block, n, weights)
    drawn = Drawn.of(plan, block, groups, used, chosen)
    given = block.y is not None, block.sensitive is not None
    sums = {block.index: block_sum(block, groups.keys, groups.place)}
    return Seen({block.index: n}, features, {block.index: groups.without_rows()}, drawn, given, ends, sums)


def _both(one: Seen, other: Seen) -> Seen:
    return one.add(other)


def _unit(seen: Seen) -> float | None:
    """What a weight of 1 counts: a power of two, by which the mean mass is near 1; None for equal weights."""
    if not seen.weights:
        return None
    least = min(low for low, _ in seen.weights.values())
    largest = max(high for _, high in seen.weights.values())
    if largest == 0:
        raise InputError("sample_weight is zero for every row: at least one row must count")
    if least == largest:
        return None
    power = int(np.frexp(largest)[1])
    parts = [seen.groups[index] for index in sorted(seen.groups)]
    total = sum(float(np.ldexp(part.sums, -power).sum()) for part in parts)
    mean = total / sum(int(part.counts.sum()) for part in parts)
    return float(np.ldexp(1.0, -power - int(np.frexp(mean)[1])))


def _wanted(cells: Cells, sample: int, least: int, share: np.ndarray | None) -> np.ndarray:
    """How many rows of every cell are in the sample (G,): its `share`, at least some hundreds.

    Without weights (None), shares are those of the rows.
    """
    n = int(cells.counts.sum())
    if n <= sample:
        return cells.counts
    if share is None:
        share = largest_remainder(
            sample * cells.counts / n, sample, np.zeros(cells.n_cells, np.int64), cells.counts
        )
    return np.asarray(np.maximum(share, np.minimum(cells.counts, least)))


def _raw(pieces: list[Piece], texts: frozenset[str], positions: np.ndarray) -> Any:
    """The rows of the sample as their owner has them; text that was read as categories is text again.

    The index of a DataFrame are the positions in the whole table.
    """
    rows = stacked([piece.rows for piece in pieces], texts)
    return rows.set_axis(positions, axis=0) if is_frame(rows) else rows


def _encoded(reader: BlockReader, pieces: list[Piece]) -> Table:
    """The rows of the sample, encoded as all others are."""
    tables = [reader.encode(Block(piece.index, piece.rows, where="the sample")) for piece in pieces]
    return Table(
        np.ascontiguousarray(np.concatenate([table.numbers for table in tables])),
        np.concatenate([table.codes for table in tables]),
    )


def _masses(cells: Cells, cell: np.ndarray, pieces: list[Piece], unit: float | None) -> np.ndarray | None:
    """The mass (s,) of the sample's rows, by which its cells have the shares that they have in the table.

    None where every cell is there with its share, up to a row.
    """
    counts = np.bincount(cell, minlength=cells.n_cells)
    s, n = len(cell), int(cells.counts.sum())
    if unit is None:
        if (np.abs(counts - s * cells.counts / n) <= 1).all():
            return None
        held = counts
        weights = np.ones(s)
    else:
        weights = np.concatenate([piece.weights for piece in pieces if piece.weights is not None])
        held = np.bincount(cell, weights, cells.n_cells)
    factor = np.divide(cells.sizes, held, out=np.zeros(cells.n_cells), where=held > 0)
    mass = weights * factor[cell]
    return np.asarray(mass * (s / mass.sum()))
