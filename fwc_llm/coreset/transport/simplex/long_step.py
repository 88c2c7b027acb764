"""One step of the dual simplex method: how far the dual function rises along an edge, and what stops it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.transport.parity import Flags, Floats, Ints, ParitySet

VERTEX = -1  # stands for the parity set's vertex in place of a row number
_FIRST = 64  # number of earliest changes that are sorted first


@dataclass(frozen=True)
class Choices:
    """The cells to which the rows can go, as pairs (row, cell), row by row."""

    row: Ints  # (P,) of each pair, ascending
    cell: Ints  # (P,)
    excess: Floats  # (P,) cost less price, up to a constant per row

    @classmethod
    def of(cls, excess: Floats, allowed: Flags | None = None, first: int = 0) -> "Choices":
        """The pairs of a table (G, N) that are finite and `allowed`; its rows are numbered from `first`."""
        finite = np.isfinite(excess)
        row, cell = np.nonzero(finite.T if allowed is None else (finite & allowed).T)
        values = excess[cell, row]
        # Compiled code takes arrays without gaps, and numpy's are every other number of one array.
        return cls(row + first, np.ascontiguousarray(cell), values)

    @classmethod
    def joined(cls, parts: "list[Choices]") -> "Choices":
        """The pairs of consecutive rows."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.row for part in parts]),
            np.concatenate([part.cell for part in parts]),
            np.concatenate([part.excess for part in parts]),
        )


@dataclass(frozen=True)
class Pairs:
    """The rows at some prices, as the possible pairs (row, cell), row by row.

    Row i is in `key[i]`, its cheapest cell. The method changes these arrays in place.
    """

    row: Ints  # (P,) of each pair, ascending
    cell: Ints  # (P,)
    excess: Floats  # (P,) cost less price, up to a constant per row
    start: Ints  # (N + 1,) row i has the pairs from start[i] to start[i + 1]
    key: Ints  # (N,)
    own: Floats  # (N,) the excess of the key's pair
    mass: Floats  # (N,)

    def pairs_of(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the pairs of some rows, and the position of each row's first pair among them."""
        count = self.start[rows + 1] - self.start[rows]
        end = count.cumsum()
        return np.arange(end[-1]) + np.repeat(self.start[rows] - (end - count), count), end - count


@dataclass(frozen=True)
class Turn:
    """A change of the cheapest vertex of the parity set along an edge."""

    time: float
    vertex: Floats  # (2, G) the new one
    drop: float  # decrease of the dual function's slope


@dataclass(frozen=True)
class Walk:
    """Changes on the way along an edge, and the one at which the dual function stops rising."""

    time: float
    pairs: Ints  # (k,) pairs that become their row's key on the way, in order
    turns: int  # how many of the vertex's turns are taken on the way
    owner: int  # of the change that ends the walk: a row, or VERTEX
    target: int  # to which pair, or which turn


def vertex_turns(
    fair: ParitySet,
    prices: Floats,
    vertex: Floats,
    edge: Floats,
    least: float,
    slope: float,
    drop_of: Callable[[Floats, Floats], float | None],
) -> list[Turn]:
    """List the vertex's changes along the edge until D's slope is used up.

    `drop_of` says how much of the slope a change from one vertex to another takes; None if it is no change.
    """
    turns: list[Turn] = []
    while slope > 0:
        found = fair.first_break(prices, edge, vertex, least)
        drop = None if found is None else drop_of(vertex, found[1])
        if found is None or drop is None:
            break
        turns.append(Turn(*found, drop))
        slope -= drop
        vertex = found[1]
    return turns


def walk(
    rows: Pairs, tied: Flags, edge: Floats, least: float, slope: float, turns: list[Turn]
) -> Walk | None:
    """Follow the edge, along which D first rises with `slope`; None if D rises for ever.

    `tied` (N,) marks rows that must not change their key: they end the walk. Components of the edge that
    differ by at most `least` count as equal.
    """
    rise = edge[rows.cell]
    rise -= edge[rows.key][rows.row]
    pairs = np.flatnonzero(rise > least)  # pairs that become cheaper
    times = rows.excess[pairs]
    times -= rows.own[rows.row[pairs]]
    np.maximum(times, 0.0, out=times)
    times /= rise[pairs]
    limit = turns[-1].time if turns and sum(turn.drop for turn in turns) >= slope else np.inf
    if limit < np.inf:
        within = np.flatnonzero(times <= limit)
        pairs, times = pairs[within], times[within]
    count = _FIRST
    while True:
        early, horizon = np.arange(len(pairs)), np.inf
        if count < len(pairs):
            early = np.argpartition(times, count - 1)[:count]
            horizon = float(times[early].max())
        found = _stop(rows, tied, edge, least, slope, turns, horizon, pairs[early], times[early])
        if found is not None or horizon == np.inf:
            return found
        count *= 8


def _stop(
    rows: Pairs,
    tied: Flags,
    edge: Floats,
    least: float,
    slope: float,
    turns: list[Turn],
    horizon: float,
    pair: Ints,
    time: Floats,
) -> Walk | None:
    """Order the first changes of some rows, the changes that follow them, and the vertex's turns.

    None if D still rises at the horizon, before which no change is missing.
    """
    order = time.argsort(kind="stable")
    row, first = np.unique(rows.row[pair[order]], return_index=True)
    pair, time = pair[order[first]], time[order[first]]
    drop = rows.mass[row] * (edge[rows.cell[pair]] - edge[rows.key[row]])
    drop[tied[row]] = np.inf
    new = np.arange(len(row))  # changes whose row may change again
    if turns:
        row = np.concatenate([row, np.full(len(turns), VERTEX)])
        pair = np.concatenate([pair, np.arange(len(turns))])
        time = np.concatenate([time, [turn.time for turn in turns]])
        drop = np.concatenate([drop, [turn.drop for turn in turns]])
    while True:
        order = time.argsort(kind="stable")
        end = int(drop[order].cumsum().searchsorted(slope * (1 - 1e-12)))
        stop = time[order[end]] if end < len(order) else np.inf
        if stop > horizon:
            return None
        new = new[(time[new] < stop) & ~tied[row[new]]]
        again = _next_changes(rows, edge, least, pair[new], time[new], stop)
        if again is None:
            break
        new = np.arange(len(time), len(time) + len(again[0]))
        row, pair = np.concatenate([row, rows.row[again[0]]]), np.concatenate([pair, again[0]])
        time, drop = np.concatenate([time, again[1]]), np.concatenate([drop, again[2]])
    if end == len(order):
        return None
    last, before = order[end], order[:end]
    moved = before[row[before] != VERTEX]
    return Walk(float(stop), pair[moved], len(before) - len(moved), int(row[last]), int(pair[last]))


def _next_changes(
    rows: Pairs, edge: Floats, least: float, pair: Ints, since: Floats, stop: float
) -> tuple[Ints, Floats, Floats] | None:
    """The changes before `stop` of rows whose key became `pair` at time `since`: pairs, times and drops."""
    pace = edge[rows.cell[pair]]
    slow = pace < edge.max() - least
    if not slow.any():
        return None
    pair, since, pace = pair[slow], since[slow], pace[slow]
    others, first = rows.pairs_of(rows.row[pair])
    count = np.diff(np.append(first, len(others)))
    rise = edge[rows.cell[others]] - np.repeat(pace, count)
    lead = rows.excess[others] - np.repeat(rows.excess[pair], count)
    times = np.full(len(others), np.inf)
    np.divide(lead, rise, out=times, where=rise > least)
    earliest = np.minimum.reduceat(times, first)
    target = others[np.flatnonzero(times == np.repeat(earliest, count))]
    target = target[np.unique(rows.row[target], return_index=True)[1]]  # one for each row, in their order
    place = rows.row[pair].argsort(kind="stable")
    time, to = np.empty(len(pair)), np.empty(len(pair), dtype=np.intp)
    time[place], to[place] = earliest[place], target
    time = np.maximum(time, since)
    soon = time < stop
    if not soon.any():
        return None
    return to[soon], time[soon], rows.mass[rows.row[to[soon]]] * (edge[rows.cell[to[soon]]] - pace[soon])
