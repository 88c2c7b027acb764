"""Merge equal rows: tables of whole numbers have few different rows, and many copies of each."""

from dataclasses import dataclass, replace

import numpy as np

from fwc_llm.coreset.transport.parity import Floats, Ints
from fwc_llm.coreset.transport.simplex.dual_simplex import Vertex


@dataclass(frozen=True)
class EqualRows:
    """Groups of rows whose costs differ only by a constant per row."""

    first: Ints  # (K,) one row of each group
    group: Ints  # (N,) the group of each row
    mass: Floats  # (K,) of all its rows


def find_groups(cost: Floats, mass: Floats, alone: int) -> EqualRows | None:
    """Group the columns of `cost` (G, N); the last `alone` stay by themselves.

    None if there are more than half as many groups as rows: then grouping saves too little.
    """
    least = cost.min(axis=0)
    weights = np.random.default_rng(0).random(len(cost))
    hashed = np.zeros(len(mass))
    for own, weight in zip(cost, weights.tolist(), strict=True):
        body = own - least
        body[~np.isfinite(body)] = -1.0
        hashed += weight * body
    last = len(mass) - alone
    hashed[last:] = np.nanmax(hashed) + 1 + np.arange(alone)
    values, first, group = np.unique(hashed, return_index=True, return_inverse=True)
    if 2 * len(values) > len(mass):
        return None
    for own in cost:
        body = own - least
        if not np.array_equal(body, body[first][group]):
            return None
    return EqualRows(first, group, np.bincount(group, mass))


def ungroup(vertex: Vertex, groups: EqualRows, mass: Floats) -> Vertex:
    """Turn a plan of groups into a plan of rows: each cut of a split group splits at most one row."""
    key = vertex.key[groups.group]
    splits: list[tuple[int, int, float]] = []
    for group in np.unique(vertex.split_row).tolist():
        mine = np.flatnonzero(vertex.split_row == group)
        rows = np.flatnonzero(groups.group == group)
        cells = np.append(vertex.split_cell[mine], vertex.key[group])
        cuts = vertex.split_mass[mine].cumsum()
        end = mass[rows].cumsum()
        start = np.append(0.0, end[:-1])
        # Place the group's rows end to end; the cuts between cells split some of them.
        part, last = cuts.searchsorted(start, side="right"), cuts.searchsorted(end, side="left")
        key[rows] = cells[part]
        edges = np.concatenate([[0.0], cuts, [np.inf]])
        for k in np.flatnonzero(part < last).tolist():
            pieces = np.arange(part[k], last[k] + 1)
            amount = np.minimum(edges[pieces + 1], end[k]) - np.maximum(edges[pieces], start[k])
            most = int(amount.argmax())
            key[rows[k]] = cells[pieces[most]]
            splits += [
                (int(rows[k]), int(cells[piece]), float(size))
                for piece, size in zip(pieces, amount, strict=True)
                if piece != pieces[most] and size > 0
            ]
    return replace(
        vertex,
        key=key,
        split_row=np.array([row for row, _, _ in splits], dtype=np.intp),
        split_cell=np.array([cell for _, cell, _ in splits], dtype=np.intp),
        split_mass=np.array([size for _, _, size in splits], dtype=np.float64),
    )
