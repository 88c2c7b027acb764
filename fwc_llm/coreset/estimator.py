"""`FairCoreset`: the solver as a scikit-learn estimator."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils.metadata_routing import UNUSED

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.certificate import CoresetCertificate, certified
from fwc_llm.coreset.distance import wasserstein
from fwc_llm.coreset.fit import CoresetFit
from fwc_llm.coreset.problem.cells import level_name
from fwc_llm.coreset.problem.encoded_input import is_constrained
from fwc_llm.coreset.problem.frames import Columns
from fwc_llm.coreset.problem.ground_cost import blocks
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.errors import InputError, check_call

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _named(method: _Method) -> _Method:
    """The method with the estimator's name in its errors, for pipelines of many steps."""

    takes = signature(method)

    @wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        name = type(self).__name__
        check_call(takes, (self, *arguments), options, name)
        try:
            return method(self, *arguments, **options)
        except InputError as error:
            if name in str(error):
                raise
            raise type(error)(f"{name}: {error}") from error.__cause__

    return call  # type: ignore[return-value]


class UnfittedError(InputError, NotFittedError):  # type: ignore[misc]
    """A method of an estimator before its `fit`."""


class FairCoreset(
    CoresetFit,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """A Fair Wasserstein Coreset: m weighted representatives of n rows, within a parity limit.

    Minimises the Wasserstein distance between the rows (mass 1/n each, or by `sample_weight`) and
    the weighted representatives subject to |p(y|d) / p_T(y) − 1| ≤ epsilon for every protected
    level d and outcome y (the paper's problem (4); docs/method.md, "The problem").

    Args:
        m: number of representatives.
        epsilon: parity limit in [0, 1); or {level: limit} for every level (a tuple if attributes
            are crossed); or None for no limit. Without a limit and a penalty, `fit` needs only X.
        cost: "l1" or "sqeuclidean" over the numeric columns; every categorical mismatch costs 1.
        support: "free" (any point), "rows" (real rows of the representative's own cell) or
            "features" (the features of any real row).
        slots: number of representatives per cell: "proportional", "balanced-positive", "equal", or
            counts: a table (|D|, |Y|) with levels and outcomes sorted, or {(level, outcome):
            count}.
        target: outcome distribution p_T: shares in sorted order of the outcomes, or {outcome:
            share}; None: the distribution of the rows.
        positive: the positive outcome, for slots="balanced-positive".
        cost_sensitive: cost of moving a row to another protected level.
        cost_outcome: cost of moving a row to another outcome.
        init: "k-means++"; "random"; (m,) positions of rows, whose cells then replace `slots`; or,
            with support="free", points (m, p) in cell order and in the units of X.
        n_init: number of starts; the best is kept. "auto": with real rows, and possible coresets up
            to 30,000 and up to 3,000,000 / n, all are compared if bounds exclude most. Other small
            tables (n · m up to 4,000) get starts until four end at the best objective, at most 30.
            Larger ones of up to 8,192 rows get two starts if swaps follow as in swaps="auto" and n
            · m is at most 64,000 (half with real rows, four times as much with categories); all
            others get one. With such swaps, up to 8,192 rows, the best start is kicked if under
            four agree, as long as kicks pay (docs/method.md, "Starts and local optima").
        max_iter: largest number of iterations of one descent; an iteration moves all
            representatives.
        tol: relative gain of an iteration that ends a descent on all rows. "auto": 0, but 2e-5
            where samples grow, and 2.5e-4 for free representatives with n · m above 2²⁰. 0 descends
            to the last digit.
        random_state: seed, or a numpy Generator.
        swaps: whether swaps follow the descent, to leave its local optimum. "auto": with support
            "rows" or "features" on up to 262,144 rows, and on the samples of larger tables. Free
            representatives are swapped on up to 8,192 rows; on more rows they start from swapped
            real rows; they do neither if all columns are numeric and n · m exceeds 2²⁰, if n · m is
            at most 1,000, or unless `progressive` is "auto". True: always; free representatives,
            and those of larger tables, are swapped on a sample of the rows. The fit may then take
            several times as long.
        progressive: whether a start by "k-means++" or "random" uses growing samples, so that few
            iterations run on all rows. "auto": from 8,192 rows on; with support="free" only with at
            least 64 rows per representative. The last iterations run on all rows, to `tol`.
        n_jobs: number of threads; None or -1 for all processors, -2 for all but one. The result
            does not depend on it.
        scale: whether numeric columns become z-scores. "auto": beside categorical columns, whose
            mismatch costs 1; columns of numbers alone, in a DataFrame or an array, stay as they
            are, and a `ScaleWarning` follows if they differ by orders of magnitude.
        sample: number of rows of a table on disk (files, Dask) that are solved in
            memory, raised to 2,000 per representative (3,200 with cost="sqeuclidean"). With support
            "rows" and "features", representatives are chosen among these rows. All rows certify the
            result. A table of at most this many rows is fitted in memory.
        column_weights: factor of each column's cost, after scaling: (p,); or {column: weight} (for
            an array {position: weight}), 1 for columns not named. A column of weight 0 does not
            count; in this column, a free representative has the mean, or an arbitrary category.
        penalty: soft limit, with epsilon=None: cost per unit of mass whose outcome would have to
            change for exact parity. 0 is no limit; with a large enough penalty, parity is exact.
            Cells may lack rows.
        crossed: True: the limit holds for the combinations of several protected attributes. False:
            for the levels of each attribute. Combinations may then lack outcomes; {level: limit}
            names the levels of all attributes ("0: x" and "1: x" if two share x); HiGHS solves the
            inner problem, which takes longer.
        prove: whether to compute `outer_bound_`; needs support "rows" or "features" and at most 25
            million pairs of a row and a candidate. For 5,000 rows it takes up to 20 CPU seconds.

    Attributes:
        representatives_: (m, p) features in the units of X; a table of X's library when X was a
            DataFrame.
        sensitive_: (m,) protected level of each representative, or (m, k) for k attributes; None if
            `fit` got no protected levels.
        y_: (m,) outcome of each representative; None if `fit` got no outcomes.
        weights_: (m,) θ, not negative, summing to m.
        row_index_: (m,) position of each representative's row in X; None with support="free".
        objective_: Wasserstein distance between rows and coreset, in units of the cost; with a
            penalty, plus penalty · `imbalance_`.
        lower_bound_: lower bound of these representatives' objective over all weights within the
            limit.
        outer_bound_: with `prove`, a lower bound of the objective of every choice of rows with
            these slots (docs/method.md, "The outer bound"); else None.
        violation_: largest |p(y|d) / p_T(y) − 1| of `weights_`.
        imbalance_: share of `weights_` that would have to change its outcome for exact parity in
            every level.
        labels_: (n,) index of the representative that carries each row, or the largest part of a
            split row, in the optimal plan; −1 for a row of weight 0. None for a table on disk with
            more than `sample` rows.
        target_: (|Y|,) p_T, in sorted order of the outcomes.
        history_: objective at the start and after every iteration that lowered it; the last is
            `objective_`. For a table on disk, all values but the last refer to the sample.
        n_iter_: number of iterations that lowered the objective.
        converged_: whether the descent ended by itself, before `max_iter` iterations.
        n_starts_: number of starts.
        n_agreeing_: number of starts with the best start's objective: the more, the surer is the
            optimum.
        spread_: mean relative excess of the starts' objectives over the best one: the smaller, the
            surer is the optimum. With one start, the spread of the starts on a sample; None if no
            starts were compared (set n_init=2).
        proven_: whether all coresets with these slots were compared, so that no other has a lower
            objective.
        n_features_in_, feature_names_in_ (when X was a DataFrame).
    """

    # `fit` and `score` request `sensitive` by default, so that scikit-learn routes it to them.
    __metadata_request__fit = {"sensitive": True, "progress": UNUSED}  # noqa: RUF012
    __metadata_request__score = {"sensitive": True}  # noqa: RUF012
    __metadata_request__predict = {"sensitive": UNUSED}  # noqa: RUF012
    __metadata_request__transform = {"sensitive": UNUSED}  # noqa: RUF012

    if not TYPE_CHECKING:  # type checkers read them in CoresetFit
        __init__ = _named(CoresetFit.__init__)
        fit = _named(CoresetFit.fit)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = is_constrained(
            self
        )  # y, with a parity limit or a penalty
        return tags

    def plot(self) -> "Figure":
        """Draw the weighted share of each outcome within each protected level, and the descent.

        The shaded band is the range that epsilon allows around p_T. Raises `FwcError` without
        matplotlib (extra `plot`), `NotFittedError` before `fit`.
        """
        self._check_fitted()
        from fwc_llm.plotting import COLOURS, MARKERS, SOFT, name_lines, panels

        m = len(self.weights_)
        everything = np.full(m, "all")
        levels = everything if self.sensitive_ is None else self.sensitive_
        outcomes = everything if self.y_ is None else np.asarray(self.y_)
        names = np.array(list(map(level_name, levels)))
        shares = pd.crosstab(
            names, outcomes, self.weights_, aggfunc="sum", normalize="index"
        ).fillna(0.0)
        title = (
            f"{m} representatives: objective {self.objective_:.6g}, violation "
            f"{self.violation_:.2g}"
        )
        with panels([title], [5.0, 4.0], [1.8 + 0.3 * len(shares)]) as (
            figure,
            (parity, descent),
        ):
            for number, (kind, share) in enumerate(shares.items()):
                colour = COLOURS[number % len(COLOURS)]
                marker = MARKERS[number % len(MARKERS)]
                parity.plot(
                    share, range(len(shares)), marker, color=colour, label=str(kind)
                )
                if isinstance(self.epsilon, Real) and shares.shape[1] == len(
                    self.target_
                ):
                    ends = [
                        self.target_[number] * (1 + sign * float(self.epsilon))
                        for sign in (-1, 1)
                    ]
                    parity.axvspan(*ends, color=colour, alpha=0.3, linewidth=0)
            parity.set(
                xlabel="share of the outcome by weight",
                xlim=(0, 1),
                title="Outcome within each level",
            )
            name_lines(parity, shares.index.tolist())
            parity.legend(frameon=False)
            descent.plot(self.history_, color=COLOURS[4])
            descent.axhline(
                self.lower_bound_, color=SOFT, linestyle="--", label="lower bound"
            )
            descent.set_xticks(range(0, self.n_iter_ + 1, 1 + self.n_iter_ // 8))
            descent.set(
                xlabel="move that was kept", ylabel="objective", title="Descent"
            )
            descent.legend(frameon=False)
        return figure

    @_named
    def predict(self, X: Any, y: Any = None, sensitive: Any = None) -> Array:
        """Return (n,) the index of each row's nearest representative, the first on ties.

        Weights and the parity limit do not count here; `labels_` follows the plan, which keeps the
        limit. Without `y` and `sensitive` the features alone decide, as in a pipeline.
        """
        problem = self._problem_of(X, y, sensitive)
        nearest = np.empty(problem.table.n, np.intp)
        for block in blocks(problem.table.n):
            nearest[block] = self._costs(problem, block).argmin(axis=1)
        return nearest

    @_named
    def transform(self, X: Any, y: Any = None, sensitive: Any = None) -> Array:
        """Return (n, m) ground costs between rows and representatives, of y and sensitive too if
        given.
        """
        return self._costs(self._problem_of(X, y, sensitive))

    @_named
    def score(
        self, X: Any, y: Any = None, sensitive: Any = None, sample_weight: Any = None
    ) -> float:
        """Return minus the Wasserstein distance between the rows and the weighted coreset.

        The distance is that of `fit`: y and sensitive are needed if `fit` had them. The fitted rows
        score −`objective_` if `penalty` is not set. Memory: a few times n · m float64.
        """
        problem = self._problem_of(X, y, sensitive, sample_weight)
        self._check_labels("score", y, sensitive)
        return -wasserstein(
            self._costs(problem), self.weights_, problem.masses
        ).objective

    @_named
    def certify(
        self,
        X: Any,
        y: Any,
        sensitive: Any,
        weights: Any = None,
        sample_weight: Any = None,
    ) -> CoresetCertificate:
        """Certify the representatives for other rows, such as held-out ones.

        Args:
            X, y, sensitive, sample_weight: as in `fit`, in memory.
            weights: (m,) weights of the representatives, such as `weights_`; None: the best for
                these rows within the parity limit. The target stays `target_`.
        """
        problem = self._problem_of(X, y, sensitive, sample_weight)
        self._check_labels("certify", y, sensitive)
        represented = self._represented
        return certified(problem, represented.points, weights, represented.epsilon)

    def _check_labels(self, method: str, y: Any, sensitive: Any) -> None:
        """Refuse to do without labels that `fit` had."""
        for name, labels, fitted in (
            ("y", y, self.y_),
            ("sensitive", sensitive, self.sensitive_),
        ):
            if labels is None and fitted is not None:
                raise InputError(
                    f"{method} needs {name}, because fit had {name}: pass one value per row"
                )

    def _problem_of(self, *columns: Any) -> Problem:
        self._check_fitted()
        return self._represented.problem_of(Columns(*columns))

    def _check_fitted(self) -> None:
        if not hasattr(self, "weights_"):
            raise UnfittedError("FairCoreset is not fitted: call fit first")

    def _costs(self, problem: Problem, rows: slice = slice(None)) -> Array:
        return problem.costs(self._represented.points, problem.cell_of, rows)

    @property
    def _n_features_out(self) -> int:
        """Columns of `transform`, named faircoreset0, faircoreset1, …"""
        return len(self.weights_)
