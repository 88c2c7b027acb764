"""What stays the same in every reading of a table."""

from dataclasses import dataclass, replace
from uuid import uuid4

import numpy as np

from fwc_llm.coreset.problem.cells import Cells
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.streaming.blocks import Coded, Reader, Survey

_WHOLE = 32  # bits of the mass of a row, where all rows have the same
_MOST = 61  # bits of all mass: twice as much stays within int64


@dataclass(frozen=True)
class Terms:
    """The problem without its rows, and how rows are read.

    Masses are counted in whole numbers of `unit`, a power of two, whose sums do not depend on their order.
    """

    reader: Reader
    cells: Cells  # of no rows, but with the counts and sizes of the whole table
    cell_of: np.ndarray
    target: np.ndarray
    epsilon: float | None
    cost: str
    move: np.ndarray
    n_numeric: int
    n: int
    weighted: bool
    unit: float
    fit: str  # no other one has this name

    @classmethod
    def of(cls, problem: Problem, survey: Survey) -> "Terms":
        """The terms of a table, of which `problem` has a sample."""
        cells, n = replace(problem.cells, cell=np.zeros(0, np.int64)), survey.n
        weighted = cells.sizes is not cells.counts
        if weighted:
            spare = min(_MOST - int(np.frexp(cells.sizes.sum())[1]), 60)
        else:
            spare = min(_WHOLE, _MOST - n.bit_length())
        unit = float(np.ldexp(1.0, -spare))
        terms = problem.cell_of, problem.target, problem.epsilon, problem.cost, problem.move
        return cls(survey.reader, cells, *terms, problem.table.n_numeric, n, weighted, unit, uuid4().hex)

    @property
    def m(self) -> int:
        """Number of representatives."""
        return len(self.cell_of)

    @property
    def total(self) -> float:
        """The mass of all rows."""
        return float(self.cells.sizes.sum()) if self.weighted else float(self.n)

    def units(self, coded: Coded) -> np.ndarray:
        """(b,) int64 the masses of a block's rows."""
        if coded.mass is None:
            return np.full(coded.table.n, round(1 / self.unit), np.int64)
        return np.asarray(np.rint(coded.mass / self.unit), dtype=np.int64)

    def problem_of(self, coded: Coded) -> Problem:
        """The problem of a block's rows, as far as their nearest representatives need it."""
        cells = replace(self.cells, cell=coded.cell)
        terms = self.target, self.epsilon, self.cost, "free", self.move
        return Problem(coded.table, cells, self.cell_of, *terms, [], np.zeros(0, np.int64))
