"""The fit of a coreset without scikit-learn, whose import takes long."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.checks import (
    candidate_mask,
    check_choice,
    check_jobs,
    check_not_negative,
    check_whole,
    generator,
)
from fwc_llm.coreset.descent.loop import Descent, Steps
from fwc_llm.coreset.out_of_core.block_tables import BlockTable, open_table
from fwc_llm.coreset.out_of_core.certifying_pass import certify_table
from fwc_llm.coreset.out_of_core.sampling_pass import SamplePass, run_sampling_pass
from fwc_llm.coreset.outer_bound import check_pairs, outer_bound
from fwc_llm.coreset.problem.allocation import Slots, count_slots
from fwc_llm.coreset.problem.cells import between_cells, check_known, find_cells
from fwc_llm.coreset.problem.encoded_input import (
    EncodedInput,
    check_terms,
    read_rows,
    set_features,
)
from fwc_llm.coreset.problem.encoded_table import value_ids
from fwc_llm.coreset.problem.encoding import ColumnWeights, Encoder, pick
from fwc_llm.coreset.problem.frames import Columns, as_given, take_named
from fwc_llm.coreset.problem.ground_cost import COSTS
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.restarts import best_start
from fwc_llm.coreset.search.schedule import Solver
from fwc_llm.coreset.transport.parity import imbalance, violation
from fwc_llm.coreset.weights import read_weights
from fwc_llm.errors import InputError, check_index
from fwc_llm.number_format import percent

_STARTS = ("k-means++", "random")


@dataclass(frozen=True)
class Represented:
    """Fitted representatives, with what it takes to compare them with rows."""

    points: Array  # (m, p) encoded
    encoder: Encoder
    terms: Problem  # has no rows
    costs: Mapping[
        str, float
    ]  # of other labels, by role; without labels that the fit did not get
    epsilon: Any  # the limit as the caller gave it

    def problem_of(self, columns: Columns) -> Problem:
        """The problem of other rows; labels that are None cost nothing."""
        X, y, sensitive, sample_weight = take_named(*columns)
        table = self.encoder.encode(X, strict=False, role="X")
        cells = find_cells(y, sensitive, table.n)
        fitted = self.terms.cells
        costs = {"sensitive": 0.0, "y": 0.0}
        for role, given, labels, known in (
            ("sensitive", sensitive, cells.levels, fitted.levels),
            ("y", y, cells.outcomes, fitted.outcomes),
        ):
            if given is not None and role in self.costs:
                check_known(labels, known, role, "no row of fit had")
                costs[role] = self.costs[role]
        return replace(
            self.terms,
            table=table,
            cells=replace(fitted, cell=cells.cell),
            move=between_cells(cells, fitted, costs["sensitive"], costs["y"]),
            masses=read_weights(sample_weight, table.n),
        )


@dataclass(eq=False, repr=False)
class CoresetFit:
    """Parameters and `fit` of `FairCoreset` (documented there), independent of scikit-learn."""

    m: int
    epsilon: float | Mapping[Any, float] | None = 0.01
    cost: str = "l1"
    support: str = "free"
    slots: Slots = "proportional"
    target: Any = None
    positive: Any = 1
    cost_sensitive: float = 1.0
    cost_outcome: float = 1.0
    init: str | Array | Sequence[Any] = "k-means++"
    n_init: int | str = "auto"
    max_iter: int = 300
    tol: float | str = "auto"
    random_state: Any = None
    swaps: bool | str = "auto"
    progressive: bool | str = "auto"
    n_jobs: int | None = None
    scale: bool | str = "auto"
    sample: int = 400_000
    column_weights: ColumnWeights = None
    penalty: float | None = None
    crossed: bool = True
    prove: bool = False

    def fit(
        self,
        X: Any,
        y: Any = None,
        sensitive: Any = None,
        candidates: Any = None,
        sample_weight: Any = None,
        *,
        progress: Callable[[str], None] | None = None,
    ) -> Self:
        """Choose the coreset of the rows.

        Args:
            X: (n, p) features without D and Y. A plain array is numeric; each column of a DataFrame
                (pandas, Polars, Arrow) is encoded by its kind (see
                `fwc_llm.coreset.problem.encoding.Encoder`, and `scale`). Tables larger than memory
                are read in blocks: Parquet files, datasets of pyarrow, tables of Dask
                (docs/scikit-learn.md, "Tables beyond memory").
            y: (n,) outcomes, any labels, or the name of a column of X; optional without a limit and
                penalty.
            sensitive: (n,) protected levels; an (n, k) array or DataFrame, whose columns are
                crossed; the name of a column of X; or a list of names. Optional without a limit and
                penalty.
            candidates: the rows that may become representatives (support "rows" and "features"), as
                (n,) bool or as positions; all by default. The objective is still the distance to
                all rows.
            sample_weight: (n,) row weights, not negative, such as a survey's, or the name of a
                column of X; only ratios count. Rows of weight 0 are ignored.
            progress: function that gets lines of text on the progress of a fit from disk. To show
                the lines: `with fwc_llm.progress.choose().working("reading") as say: model.fit(…,
                progress=say)`.

        Raises:
            InputError: bad input, naming the row, column or cell.
        """
        self._check_parameters()
        by_position = candidates is not None or self._starts_at_rows
        check_index(candidates, X, "candidates")
        columns = Columns(X, y, sensitive, sample_weight)
        table = open_table(columns, check_jobs(self.n_jobs))
        sampled = None
        self.outer_bound_: float | None = None
        self.proven_: bool = False
        self.row_index_: Array | None = None
        self.representatives_: Any = None
        if table is not None and by_position:
            raise InputError(
                "candidates, and row numbers as init, need X in memory: leave them out"
            )
        say = progress or (lambda words: None)
        if table is not None and table.n > self._sample_size():
            if self.prove:
                raise InputError(
                    f"prove needs all {table.n:,} rows in memory: omit prove, or raise sample"
                )
            sampled = self._sample_pass(table, say)
            rows = sampled.rows
        else:
            rows = read_rows(self, columns if table is None else table.whole())
        problem = self._problem(rows, candidates)
        if self.prove:
            check_pairs(problem)
        best, steps = self._solve(problem, rows)
        points = self._represent(best, problem, rows)
        self.representatives_ = as_given(self.representatives_, X)
        if sampled is None:
            inner, shares = steps.certify(points)
            self._certify(
                shares.weights(), inner.objective, inner.lower_bound, best, problem
            )
            if self.prove and best.rows is not None:
                bound = inner.objective
                if not self.proven_:
                    bound = outer_bound(problem, best.rows, inner.prices, bound)
                self.outer_bound_ = min(bound, inner.lower_bound)
            self.labels_: Array | None = np.full(rows.n, -1, np.int32)
            self.labels_[rows.used] = shares.label
            return self
        steps.rest()
        if self.row_index_ is not None:
            self.row_index_ = sampled.positions[self.row_index_]
        certified = certify_table(
            sampled,
            problem,
            points,
            lambda k, share: say(f"pass {k + 1}, distances: {percent(share, 0)}"),
        )
        self._certify(*certified, best, problem)
        self.labels_ = None
        self.proven_ = False
        return self

    def problem(
        self,
        X: Any,
        y: Any = None,
        sensitive: Any = None,
        candidates: Any = None,
        sample_weight: Any = None,
    ) -> Problem:
        """Return the problem that `fit` solves, checked and encoded, for your own searches."""
        self._check_parameters()
        rows = read_rows(self, Columns(X, y, sensitive, sample_weight))
        return self._problem(rows, candidates)

    def _check_parameters(self) -> None:
        check_choice("support", self.support, ("free", "rows", "features"))
        if isinstance(self.init, str) and self.init not in _STARTS:
            raise InputError(
                f"init={self.init!r} is unknown: use one of {', '.join(_STARTS)}, or an array"
            )
        for name, least in (("m", 1), ("n_init", 1), ("max_iter", 0), ("sample", 1)):
            value = getattr(self, name)
            if (name, value) != ("n_init", "auto"):
                check_whole(name, value, least)
        for name in ("swaps", "progressive"):
            value = getattr(self, name)
            if value != "auto" and not isinstance(value, bool):
                raise InputError(f"{name}={value!r}: use True, False or 'auto'")
        if self.tol != "auto":
            check_not_negative("tol", self.tol)
        if not isinstance(self.prove, bool) or (self.prove and self.support == "free"):
            raise InputError(
                f"prove={self.prove!r}: use True or False; True needs support='rows' or 'features'"
            )
        check_jobs(self.n_jobs)
        check_terms(self)

    def _problem(self, rows: EncodedInput, candidates: Any) -> Problem:
        """Build the problem of these rows: cells, slots, and the rows that may represent each
        cell.
        """
        table = rows.table
        cells = rows.cells
        if candidates is not None and self.support == "free":
            raise InputError(
                "support='free' chooses no rows, so it takes no candidates: use 'rows' or "
                "'features'"
            )
        may = candidate_mask(candidates, rows.n)[rows.used]
        ids = value_ids(table)
        if self.support == "features":
            pools = [np.flatnonzero(may)] * cells.n_cells
        else:
            pools = [
                np.flatnonzero(may & (cells.cell == g)) for g in range(cells.n_cells)
            ]
        available = np.array([len(np.unique(ids[pool])) for pool in pools])
        available *= cells.counts > 0
        slots = self.slots
        if self._starts_at_rows:
            slots = np.bincount(
                cells.cell[self._init_rows(rows)], minlength=cells.n_cells
            )
        if self.m > table.n:
            raise InputError(
                f"m={self.m} is larger than the {table.n} rows (n_samples={table.n}): lower m"
            )
        limited = self.epsilon is not None and (self.crossed or cells.levels.ndim == 1)
        seats = count_slots(
            slots, self.m, cells, available, constrained=limited, positive=self.positive
        )
        for g in np.flatnonzero(seats > available).tolist():
            # Equal rows count as the same, except in a cell with fewer distinct values than seats.
            if seats[g] > len(pools[g]):
                raise InputError(
                    f"cell {cells.name(g)} gets {seats[g]} representatives but has {len(pools[g])} "
                    "candidates: lower its slots, or allow more candidates"
                )
            ids[pools[g]] = ids.max() + 1 + np.arange(len(pools[g]))
        cell_of = np.repeat(np.arange(cells.n_cells), seats)
        return Problem.of(rows, self, cells, cell_of, pools, ids)

    @property
    def _starts_at_rows(self) -> bool:
        """Whether `init` names rows by position."""
        return not isinstance(self.init, str) and np.ndim(self.init) == 1

    def _init_rows(self, among: EncodedInput) -> Array:
        """Check the rows in `init`; return their positions in `among.table`, sorted by cell."""
        rows = np.asarray(self.init)
        n = among.n
        if rows.dtype.kind not in "iu" or rows.shape != (self.m,):
            raise InputError(
                f"init must be m={self.m} row numbers below {n}, a method's name or points"
            )
        candidate_mask(rows, n, "init")
        position = np.full(n, -1)
        position[among.used] = np.arange(among.table.n)
        if (position[rows] < 0).any():
            raise InputError(
                f"init names row {rows[position[rows].argmin()]}, whose weight is 0: "
                "name rows with a "
                f"weight "
                "above 0"
            )
        rows = position[rows]
        return np.asarray(rows[np.argsort(among.cells.cell[rows], kind="stable")])

    def _init_start(self, problem: Problem, among: EncodedInput) -> Array:
        """Check `init`; return its rows (m,), as positions in the table, or its points (m, p),
        encoded.
        """
        if self._starts_at_rows:
            rows = self._init_rows(among)
            for g, pool in enumerate(problem.pools):
                refused = np.setdiff1d(rows[problem.cell_of == g], pool)
                if len(refused):
                    row = among.used[refused[0]]
                    raise InputError(
                        f"init names row {row}, which is not a candidate of its cell"
                    )
            return rows
        if self.support != "free":
            raise InputError(
                f"init holds points: with support={self.support!r} pass row positions (m,)"
            )
        points = among.encoder.encode(self.init).values
        if len(points) != self.m:
            raise InputError(
                f"init has shape {points.shape}: give points as ({self.m}, {problem.table.p})"
            )
        return points

    def _solve(self, problem: Problem, rows: EncodedInput) -> tuple[Descent, Steps]:
        """Run the starts that `init` and `n_init` set; return the best descent and the steps."""
        rng = generator(self.random_state)
        terms = self.swaps, self.progressive, check_jobs(self.n_jobs), self.tol
        solver = Solver(problem, int(self.max_iter), *terms)
        if isinstance(self.init, str):
            found = best_start(solver, self.init, rng, self.n_init)
        else:
            start = solver.from_start(self._init_start(problem, rows), rng)
            found = solver.finish(start, rng, kicks=False), 1, 1, False, None
        best, self.n_starts_, self.n_agreeing_, self.proven_, self.spread_ = found
        return best, solver.steps

    def _sample_size(self) -> int:
        """Number of rows of a table on disk that are solved in memory."""
        return max(int(self.sample), COSTS[self.cost].sampled * int(self.m))

    def _sample_pass(self, table: BlockTable, say: Callable[[str], None]) -> SamplePass:
        seed = int(generator(deepcopy(self.random_state)).integers(1, 2**53))
        terms = self, self._sample_size(), int(self.m), seed
        sample_pass = run_sampling_pass(
            table, *terms, lambda share: say(f"pass 1, a sample: {percent(share, 0)}")
        )
        say(f"solving a sample of {sample_pass.rows.table.n:,} rows")
        return sample_pass

    def _represent(self, best: Descent, problem: Problem, rows: EncodedInput) -> Array:
        """Set the attributes of the representatives; return their points (m, p), in X's
        precision.
        """
        points = best.points
        cells = problem.cells
        level, outcome = np.divmod(problem.cell_of, cells.n_outcomes)
        self.sensitive_ = None
        self.y_ = None
        costs = {}
        if rows.has_levels:
            self.sensitive_ = cells.levels[level]
            costs["sensitive"] = self.cost_sensitive
        if rows.has_y:
            self.y_ = cells.outcomes[outcome]
            costs["y"] = self.cost_outcome
        if best.rows is not None:
            self.row_index_ = rows.used[best.rows]
            self.representatives_ = pick(rows.X, self.row_index_)
        else:
            self.representatives_ = rows.encoder.decode(points)
            if rows.encoder.dtype is not None:
                encoded = rows.encoder.encode(self.representatives_)
                points = encoded.values.astype(np.float64, copy=False)
        set_features(self, rows)
        self._represented = Represented(
            points, rows.encoder, problem.without_rows(), costs, self.epsilon
        )
        return points

    def _certify(
        self,
        weights: Array,
        objective: float,
        lower_bound: float,
        best: Descent,
        problem: Problem,
    ) -> None:
        """Set the attributes of the certificate and of the descent."""
        self.weights_ = weights * (problem.m / weights.sum())
        self.objective_ = objective
        self.lower_bound_ = lower_bound
        mass = np.bincount(problem.cell_of, self.weights_, problem.cells.n_cells)
        self.violation_ = violation(mass, problem.target, groups=problem.groups)
        self.imbalance_ = imbalance(mass, problem.target)
        self.target_ = problem.target
        # In X's precision the points may cost slightly more or less than in the descent.
        self.history_ = np.maximum(best.history, objective)
        self.history_[-1] = objective
        self.n_iter_ = len(best.history) - 1
        self.converged_ = best.converged
