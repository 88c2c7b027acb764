"""One step of the dual simplex method: how far the dual function rises along an edge, and what stops it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fwc_llm.coreset.parity import ParitySet

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

VERTEX = -1  # stands for the parity set's vertex where a row's number is expected
_FIRST = 64  # earliest changes that are sorted at first


@dataclass(frozen=True)
class Rows:
    """The rows at some prices: row i sits in `key[i]`, its cheapest cell."""

    excess: Floats  # (G, N) cost less price, up to a number for each row
    own: Floats  # (N,) that of the key: excess[key[i], i]
    key: Ints  # (N,)
    mass: Floats  # (N,)
    scratch: Floats  # (2, G·N) working memory


@dataclass(frozen=True)
class Turn:
    """A change of the cheapest vertex of the parity set along an edge."""

    time: float
    vertex: Floats  # (2, G) the new one
    drop: float  # by how much the slope of the dual function falls


@dataclass(frozen=True)
class Walk:
    """Changes on the way along an edge, and the one at which the dual function stops rising."""

    time: float
    row: Ints  # (k,) rows that change their key on the way, in order, and
    cell: Ints  # (k,) to which cell
    turns: int  # how many of the vertex's turns are taken on the way
    owner: int  # whose change ends the walk: a row, or VERTEX
    target: int  # to which cell, or which turn


def vertex_turns(
    fair: ParitySet,
    prices: Floats,
    vertex: Floats,
    edge: Floats,
    least: float,
    slope: float,
    total: float,
    tied: bool,
) -> list[Turn]:
    """List the vertex's changes along the edge until D's slope is used up; a tied vertex ends the walk.

    `total` is the mass R that the vertex shares out.
    """
    turns: list[Turn] = []
    while slope > 0:
        found = fair.first_break(prices, edge, vertex, least)
        if found is None:
            break
        drop = np.inf if tied else total * float(edge @ fair.masses(vertex - found[1]))
        turns.append(Turn(*found, drop))
        slope -= drop
        vertex = found[1]
    return turns


def walk(
    rows: Rows, tied: NDArray[np.bool_], edge: Floats, least: float, slope: float, turns: list[Turn]
) -> Walk | None:
    """Follow the edge from where D rises with `slope`; None if it rises for ever.

    `tied` (N,) marks rows that must not change their key: they end the walk. Components of the edge that
    differ by at most `least` are equal.
    """
    able, cells, times = _first_times(rows, edge, least)
    first = np.maximum(times.min(axis=0), 0.0)
    limit = turns[-1].time if turns and sum(turn.drop for turn in turns) >= slope else np.inf
    count, within = _FIRST, int(np.count_nonzero(first <= min(limit, 1e300)))
    while True:
        if count < within:
            early = np.argpartition(first, count - 1)[:count]
            horizon = float(first[early].max())
        else:
            early = np.flatnonzero(first <= min(limit, 1e300))
            horizon = np.inf
        target = cells[times[:, early].argmin(axis=0)]
        found = _stop(rows, tied, edge, least, slope, turns, horizon, able[early], target, first[early])
        if found is not None or horizon == np.inf:
            return found
        count *= 8


def _first_times(rows: Rows, edge: Floats, least: float) -> tuple[Ints, Ints, Floats]:
    """When each row that may change its key would change to each cell that comes closer.

    Returns the rows, the cells and the times (cells, rows), which lie in the scratch space.
    """
    pace = edge[rows.key]
    top, bottom = edge.max(), edge.min()
    able = np.flatnonzero(pace < top - least)
    cells = np.flatnonzero(edge > bottom + least)
    few = 2 * len(able) < len(pace)
    if few:
        pace, own = pace[able], rows.own[able]
    else:
        able, own = np.arange(len(pace)), rows.own
    times, rise = (space[: len(cells) * len(able)].reshape(len(cells), -1) for space in rows.scratch)
    for place, cell in enumerate(cells):
        np.subtract(rows.excess[cell, able] if few else rows.excess[cell], own, out=times[place])
        np.subtract(edge[cell], pace, out=rise[place])
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(times, rise, out=times)
    if pace.max() >= edge[cells].min() - least:
        np.copyto(times, np.inf, where=rise <= least)
    return able, cells, times


def _stop(
    rows: Rows,
    tied: NDArray[np.bool_],
    edge: Floats,
    least: float,
    slope: float,
    turns: list[Turn],
    horizon: float,
    row: Ints,
    cell: Ints,
    time: Floats,
) -> Walk | None:
    """Order the first changes of some rows, the changes that follow them, and the vertex's turns.

    None if D still rises at the horizon, before which no change is missing.
    """
    drop = rows.mass[row] * (edge[cell] - edge[rows.key[row]])
    drop[tied[row]] = np.inf
    new = np.arange(len(row))  # changes whose row may change again
    row = np.concatenate([row, np.full(len(turns), VERTEX)])
    cell = np.concatenate([cell, np.arange(len(turns))])
    time = np.concatenate([time, [turn.time for turn in turns]])
    drop = np.concatenate([drop, [turn.drop for turn in turns]])
    while True:
        order = time.argsort(kind="stable")
        end = int(drop[order].cumsum().searchsorted(slope * (1 - 1e-12)))
        stop = time[order[end]] if end < len(order) else np.inf
        if stop > horizon:
            return None
        new = new[(time[new] < stop) & ~tied[row[new]]]
        again = _next_changes(rows, edge, least, row[new], cell[new], time[new], stop)
        if again is None:
            break
        new = np.arange(len(time), len(time) + len(again[0]))
        row, cell = np.concatenate([row, again[0]]), np.concatenate([cell, again[1]])
        time, drop = np.concatenate([time, again[2]]), np.concatenate([drop, again[3]])
    if end == len(order):
        return None
    last, before = order[end], order[:end]
    moved = before[row[before] != VERTEX]
    return Walk(
        float(stop), row[moved], cell[moved], len(before) - len(moved), int(row[last]), int(cell[last])
    )


def _next_changes(
    rows: Rows, edge: Floats, least: float, row: Ints, cell: Ints, since: Floats, stop: float
) -> tuple[Ints, Ints, Floats, Floats] | None:
    """The changes before `stop` of rows that changed to `cell` at time `since`."""
    top = edge[cell] < edge.max() - least
    row, cell, since = row[top], cell[top], since[top]
    if not row.size:
        return None
    rise = edge[:, None] - edge[cell]
    times = np.full(rise.shape, np.inf)
    np.divide(rows.excess[:, row] - rows.excess[cell, row], rise, out=times, where=rise > least)
    target = times.argmin(axis=0)
    time = np.maximum(times[target, np.arange(len(row))], since)
    soon = time < stop
    if not soon.any():
        return None
    row, cell, target = row[soon], cell[soon], target[soon]
    return row, target, time[soon], rows.mass[row] * (edge[target] - edge[cell])
