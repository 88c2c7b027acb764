"""What a swap would save, compiled: candidates in tiles, rows in blocks (see `search.swaps`)."""

import numpy as np

from fwc_llm.coreset.descent.tile import ROWS, WIDTH
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.gains import Gains, State
from fwc_llm.coreset.search.swap_kernels import swap_losses
from fwc_llm.coreset.threads import Threads

_NOTHING = np.float32(-1e30)  # the cost of rows that only fill a block: no candidate is nearer


class CompiledGains(Gains):
    """See `Gains`."""

    def __init__(self, problem: Problem, threads: Threads, rows: np.ndarray | None = None) -> None:
        super().__init__(problem, rows)
        self._threads = threads
        self._seen: object = None

    def _losses(
        self, state: State, candidates: np.ndarray, cells: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        if self._seen is not state.nearest:
            self._arrange(state)
        order = np.argsort(cells, kind="stable")
        counts = np.bincount(cells)
        start = np.concatenate([[0], np.cumsum(-(-counts // WIDTH))])
        within = np.arange(len(order)) - (np.cumsum(counts) - counts)[cells[order]]
        place = np.empty(len(order), np.int64)  # of each candidate among the tiles' columns
        place[order] = start[cells[order]] * WIDTH + within
        chosen = np.full(int(start[-1]) * WIDTH, candidates[0])
        chosen[place] = candidates
        tiles = np.ascontiguousarray(
            self._columns[:, chosen].reshape(len(self._columns), -1, WIDTH).transpose(1, 0, 2)
        )
        tile_cells = np.repeat(np.arange(len(counts)), -(-counts // WIDTH))
        shared = np.empty((len(tiles), WIDTH))
        own = np.empty((len(tiles), WIDTH, self.problem.m))
        self._threads.over_rows(
            swap_losses,
            self._blocks,
            self._owner,
            self._extra,
            self._first,
            self._second,
            tiles,
            tile_cells,
            self.problem.table.n_numeric,
            self.problem.cost == "sqeuclidean",
            shared,
            own,
            n=len(tiles),
            chunk=8,
        )
        return shared.ravel()[place], own.reshape(-1, self.problem.m)[place]

    def _arrange(self, state: State) -> None:
        """Puts the rows into blocks by their nearest representative."""
        owner = state.nearest.owner[self.rows]
        order = np.argsort(owner, kind="stable")
        counts = np.bincount(owner, minlength=self.problem.m)
        blocks = -(-counts // ROWS)
        first = np.cumsum(blocks) - blocks
        within = np.arange(len(order)) - (np.cumsum(counts) - counts)[owner[order]]
        place = first[owner[order]] * ROWS + within
        row = np.zeros(int(blocks.sum()) * ROWS, np.int64)
        row[place] = self.rows[order]
        filler = np.ones(len(row), bool)
        filler[place] = False
        p = len(self._columns)
        self._blocks = np.ascontiguousarray(self._columns[:, row].reshape(p, -1, ROWS).transpose(1, 0, 2))
        self._owner = np.repeat(np.arange(self.problem.m), blocks)
        self._extra = np.ascontiguousarray(state.extra[:, row]).reshape(len(state.extra), -1, ROWS)
        self._first = np.where(filler, _NOTHING, state.nearest.first[row]).reshape(-1, ROWS)
        self._second = np.where(filler, _NOTHING, state.nearest.second[row]).reshape(-1, ROWS)
        self._seen = state.nearest
