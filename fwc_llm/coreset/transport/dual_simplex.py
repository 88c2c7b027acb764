"""A long-step dual simplex method for the inner problem, exact even if rows tie.

The dual function D(u) = Σ_i r_i min_g (c_ig − u_g) + R min_{w fair} ⟨u, w⟩, R = Σ_i r_i, is concave
and piecewise linear in the G prices `u`. The method walks along its edges. A *basis* has G ties
that fix the prices. A tie is one of three: row `i` costs the same in its key cell and in another
cell; two vertices of the parity set cost the same; or, at the start, the price of a cell is held
(an artificial tie). The masses on the ties balance the flow into every cell. While some mass is
negative, its tie leaves the basis, and the prices move along the edge that keeps the other ties. As
long as D rises, rows change their key cell on the way, and the parity set its key vertex. The
change at which D stops rising becomes the new tie. If no mass is negative, the plan is feasible
and, because of the ties, optimal.
"""

from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.array_types import Floats, Ints
from fwc_llm.coreset.compiled import kernel, part, read_only
from fwc_llm.coreset.transport.parity import ParitySet, violation
from fwc_llm.errors import InputError

# owners of ties that are not rows: of an artificial tie, of a tie of the parity set
HELD = -2
VERTEX = -1
_MAX_PIVOTS = 5000
_UPDATES = 20  # updates of the inverse before it is recomputed: saves time with hundreds of cells
_FEW = 20_000  # pairs of a row and a cell below which the inverse is always recomputed
RANDOM = np.random.default_rng(0).random(4099)  # breaks ties
_ROUNDING = 2e-13  # excess of the violation from which `_balance` computes the splits
_NOTHING = 1e-14  # share of all mass below which a level counts as empty


class InfeasibleError(InputError):
    """No plan satisfies the parity limit."""

    def __init__(self) -> None:
        super().__init__(
            "no plan satisfies the parity limit, as some cells have no representative: raise "
            "epsilon, or use --epsilon none"
        )


class StalledError(InputError):
    """Rounding stalls the method: a basis is singular, or the pivots do not end."""


@dataclass(frozen=True)
class Vertex:
    """An optimal vertex: every row goes to its key cell, except for the parts in the splits."""

    prices: Floats  # (G,)
    key: Ints  # (N,) cell of each row
    split_row: Ints  # (s,) row of each part; a row may have several parts
    split_cell: Ints  # (s,) cell to which the part goes
    split_mass: Floats  # (s,) mass of the part
    plain: Floats | None = (
        None  # (G,) prices at which the ties hold for the costs without perturbation
    )


@np.errstate(divide="ignore", invalid="ignore")
def dual_simplex(
    cost: Floats,
    mass: Floats,
    prices: Floats,
    fair: ParitySet,
    noise: float,
    width: float,
    turn: int,
    plain: Floats | None = None,
) -> Vertex:
    """Minimise the `cost` (N, G) of moving rows of `mass` (N,) to cells, from the `prices` (G,).

    A row may go to cells that cost at most `width` more than its cheapest one. Random changes of
    the costs, of at most `noise` and different for every `turn`, break ties: a simplex method
    cycles if more ties meet than it has slots, as in tables of whole numbers. The error of the
    result is of the order of `noise`. `plain` (N, G) are the costs before a larger perturbation;
    they give the vertex's `plain` prices.
    """
    basis = _Basis(cost, mass, prices, fair, width, noise * np.roll(RANDOM, 97 * turn))
    for _ in range(_MAX_PIVOTS):
        basis.factorize()
        leaving = basis.leaving()
        if leaving is None and basis.updates:
            basis.factorize(anew=True)
            leaving = basis.leaving()
        if leaving is None:
            if plain is None:
                unperturbed = None
            else:
                unperturbed = basis.exact_prices(plain)
            return Vertex(basis.exact_prices(cost), *basis.split(), unperturbed)
        basis.pivot(*leaving)
    raise StalledError(
        "the inner problem does not settle: rescale the cost, or drop outliers"
    )


@kernel
def walk(  # type: ignore[no-untyped-def]
    start,
    cell,
    excess,
    at,
    carried,
    mass,
    tied,
    moved,
    edge,
    least,
    time,
    goal,
    heap,
    left,
    end,
    count,
):
    """Change the keys `at` of rows along the edge until the slope `left[0]` is 0 or the time is
    `end`.

    `_Basis` documents the first arrays. `tied` (N,) marks rows at which the walk stops; `moved`
    (G,) is how far prices moved before. The first `count` rows of `heap` will change, row i at
    `time[i]` to the pair `goal[i]`; a `count` of −1 starts a new edge. Returns the number of rows
    left in `heap`: the walk stops at the first of these.
    """
    top = np.intp(0)  # not a literal, for which numba would compile `_sink` again
    if count < 0:
        count = top
        most = -np.inf
        for g in range(len(edge)):
            most = max(most, edge[g] - least)
        for i in range(len(at)):
            if edge[cell[at[i]]] >= most:  # no other cell gets cheaper faster
                continue
            if _change(i, 0.0, start, cell, excess, at, moved, edge, least, time, goal):
                heap[count] = i
                count += 1
        for k in range(count // 2 - 1, -1, -1):
            _sink(heap, time, k, count)
    while count > 0 and time[heap[top]] < end:
        i = heap[top]
        before = cell[at[i]]
        after = cell[goal[i]]
        left[0] -= np.inf if tied[i] else mass[i] * (edge[after] - edge[before])
        if left[0] <= 0:
            break
        at[i] = goal[i]
        carried[before] -= mass[i]
        carried[after] += mass[i]
        if not _change(
            i, time[i], start, cell, excess, at, moved, edge, least, time, goal
        ):
            count -= 1
            heap[top] = heap[count]
        _sink(heap, time, top, count)
    return count


@kernel
def write_ties(  # type: ignore[no-untyped-def]
    owner, tied, cell, at, top, top_level, vertices, level, epsilon, basis, above, size
):
    """Write each tie as a column of the `basis` (G, G): the change of the cells' masses by a
    unit on the tie.

    Vertices of one level may differ by as little as ε. To keep columns from being nearly parallel,
    only the first vertex of a level is tied to the key vertex (`above` is −1), the others to this
    first one (`above` (G,) is its slot). `size` (G,) is the least length of the columns of a vertex
    and of those tied to it.
    """
    for k in range(len(owner)):
        above[k] = -1
        size[k] = 1.0
        for g in range(len(owner)):
            basis[g, k] = 0.0
        if owner[k] == HELD:
            basis[k, k] = 1.0
        elif owner[k] >= 0:
            basis[cell[tied[k]], k] = 1.0
            basis[cell[at[owner[k]]], k] = -1.0
        else:
            for j in range(k):
                if (
                    owner[j] == VERTEX
                    and level[j] == level[k] != top_level
                    and above[k] < 0
                ):
                    above[k] = j
            if above[k] < 0:
                parent = top
            else:
                parent = vertices[above[k]]
            size[k] = 0.0
            for g in range(len(owner)):
                difference = (
                    parent[0, g]
                    - vertices[k, 0, g]
                    + epsilon[g] * (parent[1, g] - vertices[k, 1, g])
                )
                basis[g, k] = difference
                size[k] += difference * difference
            size[k] = np.sqrt(size[k])
            if above[k] >= 0:
                size[above[k]] = min(size[above[k]], size[k])


@kernel
def steepest(owner, above, size, load, inverse, mass, total, edges):  # type: ignore[no-untyped-def]
    """Find the negative mass whose edge raises D fastest; write the edge (G,) into one of
    `edges` (2, G).

    Returns the slot of the tie that leaves (−1: none), the slope, the index of the edge, and
    whether the negative mass is what the tie's owner keeps in its key (not the tie's own): the tie
    then becomes the key.
    """
    slot = -1
    slope = 0.0
    fastest = 0.0
    of_key = False
    free = 0
    for step in range(2 * len(owner)):
        k = step % len(owner)
        key = step >= len(owner)
        if key and (owner[k] == HELD or above[k] >= 0):
            continue
        if key or (owner[k] == HELD and load[k] > 0):
            sign = 1.0
        else:
            sign = -1.0
        lack = 0.0
        least = size[k]
        length = 0.0
        if key:
            if owner[k] == VERTEX:
                lack = -total
            else:
                lack = -mass[owner[k]]
        for g in range(len(owner)):
            edges[free, g] = 0.0
        for j in range(len(owner)):
            if (
                (owner[j] == owner[k] and above[j] < 0)
                if key
                else (j == k or above[j] == k)
            ):
                if key or j == k:
                    share = sign
                else:
                    share = -sign
                lack = lack + share * load[j]
                least = min(least, size[j])
                for g in range(len(owner)):
                    edges[free, g] += share * inverse[j, g]
        for g in range(len(owner)):
            length += edges[free, g] * edges[free, g]
        length = np.sqrt(length)
        if lack > max(total * max(1e-13 / least, 4e-15 * length), fastest * length):
            slot = k
            slope = lack
            fastest = lack / length
            of_key = key
            free = 1 - free
    return slot, slope, 1 - free, of_key


@part
def _change(  # type: ignore[no-untyped-def]
    i, now, start, cell, excess, at, moved, edge, least, time, goal
):
    """Find when, from `now` on, row i changes its key and to which pair; return whether it
    changes at all.
    """
    key = at[i]
    key_excess = excess[key] - moved[cell[key]]
    pace = edge[cell[key]]
    soonest = np.inf
    best = -1
    for k in range(start[i], start[i + 1]):
        rise = edge[cell[k]] - pace
        if rise > least:
            difference = excess[k] - moved[cell[k]] - key_excess
            if difference < soonest * rise:
                soonest = difference / rise
                best = k
    time[i] = max(soonest, now)
    goal[i] = best
    return best >= 0


@part
def _sink(heap, time, k, count):  # type: ignore[no-untyped-def]
    """Move the entry at index k of the heap down to its place."""
    i = heap[k]
    while 2 * k + 1 < count:
        child = 2 * k + 1
        if child + 1 < count and time[heap[child + 1]] < time[heap[child]]:
            child += 1
        if time[heap[child]] >= time[i]:
            break
        heap[k] = heap[child]
        k = child
    heap[k] = i


class _Basis:
    """G ties, the keys of the rows and of the parity set, and the prices at which these keys are
    cheapest.

    A row and a cell to which it may go are a pair: row i has the pairs `start[i]` to `start[i + 1]
    − 1`, and pair k is of cell `cell[k]` and costs `excess[k]` more than the row's first key. The
    pairs `at` (N,) are the current keys, and `carried` (G,) is the mass of the rows with a key in
    each cell. Each slot has a tie: `owner` (G,) is its row, VERTEX or HELD; `tied` (G,) is the
    other pair of a row, `vertices` (G, 2, G) the other vertex of the parity set. The key vertex is
    `top`.
    """

    def __init__(
        self,
        cost: Floats,
        mass: Floats,
        prices: Floats,
        fair: ParitySet,
        width: float,
        noise: Floats,
    ) -> None:
        n, cells = cost.shape
        self.mass = read_only(mass)
        self.total = float(mass.sum())
        self.fair = fair
        over = cost - prices
        key = over.argmin(axis=1)
        over -= over[np.arange(n), key][:, None]
        near = (over <= width) & np.isfinite(over)
        row, self.cell = np.nonzero(near)
        self.start = np.searchsorted(row, np.arange(n + 1))
        self.excess = over[near]
        other = self.cell != key[row]
        self.excess += np.where(other, np.resize(noise, len(row)), 0.0)
        self.at = np.flatnonzero(~other)
        self.shift = np.resize(noise, cells)
        self.origin = prices + self.shift
        self.prices = self.origin.copy()
        self.top = fair.best(self.prices)[1]
        self.owner = np.full(cells, HELD)
        self.tied = np.zeros(cells, np.int64)
        self.vertices = np.zeros((cells, 2, cells))
        self.level = np.zeros(cells, np.int64)
        self.basis = np.zeros((cells, cells))
        self.updates = _UPDATES
        self.above = np.zeros(cells, np.int64)
        self.size = np.zeros(cells)
        self.room = (
            np.zeros(n),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
            np.zeros(1),
        )

    @property
    def key(self) -> Ints:
        """(N,) key cell of every row."""
        return np.asarray(self.cell[self.at])

    def factorize(self, anew: bool = False) -> None:
        """Update the basis, its inverse, and the masses `load` on the ties."""
        owner = self.owner
        cells = len(self.owner)
        before = self.basis
        self.basis = np.empty((cells, cells))
        terms = (
            owner,
            self.tied,
            self.cell,
            self.at,
            self.top,
            self.fair.level(self.top),
        )
        vertices = self.vertices, self.level, self.fair.epsilon
        write_ties(*terms, *vertices, self.basis, self.above, self.size)
        fresh = np.flatnonzero((self.basis != before).any(axis=0))
        self.updates += 1
        try:
            if (
                anew
                or self.updates > _UPDATES
                or 4 * len(fresh) > cells
                or len(self.cell) < _FEW
            ):
                self.inverse = np.linalg.inv(self.basis)
                self.updates = 0
                self.carried = np.bincount(self.key, self.mass, cells)
            else:
                changed = self.inverse @ self.basis[:, fresh]
                rows = np.linalg.solve(changed[fresh], self.inverse[fresh])
                self.inverse -= changed @ rows
                self.inverse[fresh] = rows
        except np.linalg.LinAlgError as error:
            raise StalledError(
                "the inner problem does not settle: its ties are parallel"
            ) from error
        lack = self.total * self.fair.masses(self.top) - self.carried
        self.load = self.inverse @ lack
        rest = lack - self.basis @ self.load
        if self.updates and np.abs(rest).max() > 1e-13 * self.total:
            self.factorize(anew=True)
        else:
            self.load += self.inverse @ rest

    def leaving(self) -> tuple[int, float, Floats] | None:
        """Choose the tie to leave: its slot, slope and edge (G,); None if no mass is negative.

        If the negative mass is the owner's key, the tie becomes the key.
        """
        edges = np.empty((2, len(self.owner)))
        terms = (
            self.owner,
            self.above,
            self.size,
            self.load,
            self.inverse,
            self.mass,
            self.total,
        )
        slot, slope, position, of_key = steepest(*terms, edges)
        if slot < 0:
            return None
        if of_key and self.owner[slot] == VERTEX:
            self.top = self.vertices[slot].copy()
        elif of_key:
            row = self.owner[slot]
            pair = self.tied[slot]
            np.add.at(
                self.carried,
                self.cell[[self.at[row], pair]],
                [-self.mass[row], self.mass[row]],
            )
            self.at[row] = pair
        return slot, slope, edges[position]

    def pivot(self, slot: int, slope: float, edge: Floats) -> None:
        """Move along the edge while D rises; the row or vertex that stops it becomes the slot's
        tie.
        """
        self.owner[slot] = HELD
        scaled = np.square(
            self.basis / self.size
        ).sum()  # np.linalg.norm is slow for hundreds of cells
        scaled *= np.square(self.inverse * self.size[:, None]).sum()
        least = max(1e-13, 1e-16 * float(scaled) ** 0.5) * float(
            np.abs(edge).max()
        )  # less is rounding
        edge = np.where(np.abs(edge) > least, edge, 0.0)
        tied = np.zeros(len(self.at), np.bool_)
        tied[self.owner[self.owner >= 0]] = True
        time, goal, heap, left = self.room
        left[0] = slope * (1 - 1e-12)
        count = -1
        terms = self.mass, tied, self.prices - self.origin, edge, least, *self.room
        while True:
            end, other = self._turn(edge, least)
            count = walk(
                self.start,
                self.cell,
                self.excess,
                self.at,
                self.carried,
                *terms,
                end,
                count,
            )
            if left[0] <= 0 or other is None:
                break
            left[0] -= self.total * float(edge @ self.fair.masses(self.top - other))
            if left[0] <= 0 or (self.owner == VERTEX).any():
                break
            self.top = other
        if left[0] > 0 and other is None:
            raise InfeasibleError
        row = heap[0]
        if other is None or (count > 0 and time[row] < end):
            end = time[row]
            self.owner[slot] = row
            self.tied[slot] = goal[row]
        else:
            self.owner[slot] = VERTEX
            self.vertices[slot] = other
            self.level[slot] = self.fair.level(other)
        self.prices += end * edge

    def _turn(self, edge: Floats, least: float) -> tuple[float, Floats | None]:
        """Find the time at which `top` stops being the cheapest vertex, and the vertex that
        replaces it.

        Newton's method on the concave function min_w ⟨prices + t · edge, w⟩, from t = ∞ downwards.
        """
        size = max(float(np.abs(self.prices).max()), self.fair.penalty)
        steep = float(np.abs(edge).max())
        toll = self.fair.toll(self.top)
        time = np.inf
        cheapest = None
        while True:
            far = time == np.inf
            other = self.fair.best(edge if far else self.prices + time * edge, far)[1]
            difference = self.top - other
            moved = self.fair.masses(difference)
            length = float(np.abs(moved).sum())
            faster = float(edge @ moved)
            lead = float(-self.prices @ moved) + (self.fair.toll(other) - toll)
            if far:
                gain = faster
            else:
                gain = time * faster - lead
            noise = 1e-14 * length * (steep if far else size + time * steep)
            if faster > least * length:
                earlier = max(lead, 0.0) / faster
            else:
                earlier = np.inf
            if np.abs(difference).max() <= 1e-14 or gain <= noise or earlier >= time:
                return time, cheapest
            time = earlier
            cheapest = other

    def exact_prices(self, cost: Floats) -> Floats:
        """Prices at which every tie holds for the unperturbed costs, without the rounding of the
        pivots.
        """
        slots = np.flatnonzero(self.owner >= 0)
        row = self.owner[slots]
        owed = self.prices - self.shift
        for k in np.flatnonzero(self.owner == VERTEX):
            if self.above[k] < 0:
                parent = self.top
            else:
                parent = self.vertices[self.above[k]]
            owed[k] = self.fair.toll(self.vertices[k]) - self.fair.toll(parent)
        owed[slots] = cost[row, self.cell[self.tied[slots]]] - cost[row, self.key[row]]
        prices = owed @ self.inverse
        for _ in range(2):
            prices += (owed - prices @ self.basis) @ self.inverse
        return np.asarray(prices)

    def split(self) -> tuple[Ints, Ints, Ints, Floats]:
        """The keys and the splits as in `Vertex`."""
        slots = np.flatnonzero(self.owner >= 0)
        cells = len(self.owner)
        rows, at = np.unique(self.owner[slots], return_inverse=True)
        supply = self.mass[rows]
        part = self.load[slots]
        key = self.key
        part_row = np.concatenate([at, np.arange(len(rows))])
        to = np.concatenate([self.cell[self.tied[slots]], key[rows]])
        unsplit = self.mass.copy()
        unsplit[rows] = 0.0
        settled = np.bincount(key, unsplit, cells)
        amount = np.append(part, supply - np.bincount(at, part, len(rows))).clip(0.0)
        carried = settled + np.bincount(to, amount, cells)
        if violation(carried, self.fair.target, self.fair.limits) > _ROUNDING:
            amount = self._balance(part_row, to, supply, settled)
        return key, *largest_stay(key, rows[part_row], to, amount)

    def _balance(
        self, part_row: Ints, to: Ints, supply: Floats, settled: Floats
    ) -> Floats:
        """Masses (e,) of the parts of split rows `own` (e,) that go to cells `to` (e,).

        Least squares with a scale per equation: the parts of a row sum to its `supply`, and a
        cell's parts plus its `settled` mass are the cell's mass in a mixture of vertices.
        """
        fair = self.fair
        r = len(supply)
        e = len(to)
        cells = len(settled)
        vertices = [
            self.top,
            *(self.vertices[k] for k in np.flatnonzero(self.owner == VERTEX)),
        ]
        shapes = np.array([fair.masses(vertex) for vertex in vertices])
        most = settled + np.bincount(
            to, supply[part_row], cells
        )  # largest mass of each cell
        size = most.reshape(fair.n_levels, -1).sum(axis=1)[
            [fair.level(vertex) for vertex in vertices]
        ]
        system = np.zeros((r + cells, e + len(size)))
        right = np.concatenate([supply, -settled])
        system[part_row, np.arange(e)] = system[r + to, np.arange(e)] = supply[part_row]
        system[r:, e:] = -(shapes * np.where(size > 0, size, self.total)[:, None]).T
        scale = np.maximum(np.abs(system).max(axis=1), np.abs(right))
        scale[scale == 0] = 1.0
        system = system / scale[:, None]
        right = right / scale
        solution = np.linalg.lstsq(system, right)[0]
        solution += np.linalg.lstsq(system, right - system @ solution)[0]
        amount = solution[:e].clip(0.0) * supply[part_row]
        carried = settled + np.bincount(to, amount, cells)
        empty = carried.reshape(fair.n_levels, -1).sum(axis=1) <= _NOTHING * self.total
        amount[empty[to // len(fair.target)]] = 0.0
        return np.asarray(amount)


def largest_stay(
    key: Ints, row: Ints, to: Ints, amount: Floats
) -> tuple[Ints, Ints, Floats]:
    """Make the largest part of each row its `key`; return the other parts with a mass as the
    splits.

    So no mass at a key is a small difference of large numbers.
    """
    order = np.lexsort((-amount, row))
    largest = order[np.unique(row[order], return_index=True)[1]]
    key[row[largest]] = to[largest]
    rest = amount > 0
    rest[largest] = False
    return row[rest], to[rest], amount[rest]
