"""`FairCoreset`: the solver as a scikit-learn estimator."""

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from fwc_llm.coreset.certificate import ComparedRows, CoresetCertificate, Represented, certified
from fwc_llm.coreset.distance import wasserstein
from fwc_llm.coreset.fit import CoresetFit
from fwc_llm.coreset.problem.encoded_input import is_constrained
from fwc_llm.coreset.problem.frames import Columns
from fwc_llm.coreset.problem.ground_cost import blocks
from fwc_llm.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Estimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators."""

    def __sklearn_tags__(self) -> Any:
        """Tags for scikit-learn's tools."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = is_constrained(self)
        return tags


class FairCoreset(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, Estimator, CoresetFit):  # type: ignore[misc]
    """A Fair Wasserstein Coreset: m weighted representatives of n rows, within a parity limit.

    Minimises the Wasserstein distance between the rows (mass 1/n each, or by `sample_weight`) and the
    weighted representatives subject to |p(y|d) / p_T(y) − 1| ≤ epsilon for every protected level d and
    outcome y (the paper's problem (4); docs/method.md, "The problem").

    Args:
        m: number of representatives.
        epsilon: parity limit in [0, 1), or one for each level ({level: limit}, a tuple where levels are
            crossed), or None for no constraint; `fit` then takes X alone, too.
        cost: "l1" or "sqeuclidean" over the numeric columns; every categorical mismatch costs 1.
        support: "free" (any point), "rows" (real rows of the representative's own cell) or "features"
            (the features of any real row).
        slots: how many representatives each cell gets: "proportional", "balanced-positive", "equal", or a
            table of counts, (|D|, |Y|) with levels and outcomes sorted, or {(level, outcome): count}.
        target: outcome distribution p_T, in sorted order of the outcomes or {outcome: p}; None: the rows'.
        positive: the outcome that "balanced-positive" balances.
        cost_sensitive: what it costs to move a row to another protected level.
        cost_outcome: what it costs to move a row to another outcome.
        init: "k-means++", "random", rows (m,) by position (their cells then are the slots), or, with
            support="free", points (m, p) in cell order and in the units of X.
        n_init: number of starts; the best is kept. "auto": with at most 30,000 coresets of rows, the best
            of all; on other small tables (n · m up to 4,000) at most 30, until four end at the best
            objective; on up to 8,192 rows two, if swaps follow as by swaps="auto"; else one. Where swaps
            follow, the best of the starts is then kicked (docs/method.md, "Starts and local optima").
        max_iter: largest number of moves of the representatives in one start.
        random_state: seed, or a numpy Generator.
        swaps: whether swaps follow the descent, to escape its local optimum. "auto": with support "rows" or
            "features" on up to 262,144 rows (on larger tables: on the samples). Free representatives are
            swapped on up to 8,192 rows, and on more start from swapped real rows; neither if all columns are
            numbers and n · m exceeds a million. True: always, for larger tables on samples of rows; the fit
            may then take several times as long as the descent alone.
        progressive: whether a start by "k-means++" or "random" uses larger and larger samples, so that few
            iterations run on all rows; "auto": from 8,192 rows on, with support="free" also at least 64 rows
            per representative. The last iterations always run on all rows, and end when one lowers the
            objective by less than 2e-5 of it.
        n_jobs: number of threads; None or -1 for all processors, -2 for all but one. The result does not
            depend on it.
        scale: whether the numbers of X become z-scores; "auto": those of a DataFrame do, those of an array
            are used as they are, with a `ScaleWarning` where its columns differ by orders of magnitude.
        sample: rows of a table on disk (files, memory maps, Dask) that are solved in memory, at least 2,000
            for every representative (3,200 with cost="sqeuclidean"); all rows then certify the result. Real
            rows (support "rows" and "features") are chosen among them. A table of at most this many rows is
            fitted in memory.
        column_weights: the factor of each column's cost, after scaling: (p,), or {column: weight} (for an
            array {position: weight}), with 1 for all others. 0 leaves a column out of the distance: in a free
            representative it is then the mean, or any category.
        penalty: a soft limit, with epsilon=None: the cost of each unit of mass whose outcome would have to
            change for exact parity. 0 is no limit; if the penalty is large enough, parity is exact. Cells may
            lack rows.
        crossed: whether the combinations of several protected attributes keep the limit, or, if False, the
            levels of each: combinations may then lack outcomes, and {level: limit} has the levels of all
            attributes ("0: x" and "1: x" if two share x). HiGHS solves the inner problem, which takes longer.
        prove: whether to find `outer_bound_`, with support "rows" or "features" and at most 25 million pairs
            of a row and a candidate. It takes up to 20 CPU seconds for 5,000 rows.

    Attributes:
        representatives_: (m, p) features in the units of X; a pandas DataFrame when X was a DataFrame.
        sensitive_: (m,) protected level of each, or (m, k) when k attributes are crossed; None when none were
            given.
        y_: (m,) outcome of each; None when none were given.
        weights_: (m,) θ, not negative, summing to m.
        row_index_: (m,) position of each representative's row in X; None with support="free".
        objective_: Wasserstein distance between rows and coreset, in units of the cost; with a penalty, plus
            penalty · `imbalance_`.
        lower_bound_: lower bound of the inner problem for these representatives, part of the certificate.
        outer_bound_: with `prove`, a lower bound of the objective of every choice of rows with these slots
            (docs/method.md, "The outer bound"); else None.
        violation_: largest |p(y|d) / p_T(y) − 1|, of `weights_`.
        imbalance_: share of `weights_` that would have to change its outcome for exact parity in every level.
        labels_: (n,) the representative that carries each row in the optimal plan; the one with the largest
            part of a row that is split; −1 for a row of weight 0. None for a table on disk that is larger
            than `sample`.
        target_: (|Y|,) p_T, in sorted order of the outcomes.
        history_: objective at the start and after every move that was kept; the last is `objective_`. For a
            table on disk, all values but the last refer to the sample.
        n_iter_: number of these moves.
        converged_: whether the descent ended by itself, before `max_iter` moves.
        n_starts_: number of starts.
        n_agreeing_: how many of them ended at the best objective: the more, the surer is the optimum.
        spread_: mean relative excess of the starts' objectives over the best one: the smaller, the surer is
            the optimum. With one start, that of the starts on a sample; None if no starts were compared (set
            n_init=2).
        proven_: whether all coresets with these slots were compared, so that none is better.
        n_features_in_, feature_names_in_ (when X was a DataFrame).
    """

    # Hardly anybody who passes `sensitive` means something else, so `fit` and `score` ask for it.
    __metadata_request__fit = {"sensitive": True, "progress": UNUSED}  # noqa: RUF012
    __metadata_request__score = {"sensitive": True}  # noqa: RUF012
    __metadata_request__predict = {"sensitive": UNUSED}  # noqa: RUF012
    __metadata_request__transform = {"sensitive": UNUSED}  # noqa: RUF012

    def plot(self) -> "Figure":
        """Draw the weighted share of each outcome within each protected level, and the descent.

        The shaded band is what epsilon allows around p_T. Raises `FwcError` without matplotlib (extra
        `plot`), `NotFittedError` before `fit`.
        """
        check_is_fitted(self)
        from fwc_llm.plotting import COLOURS, MARKERS, SOFT, name_lines, panels

        m, everything = len(self.weights_), np.full(len(self.weights_), "all")
        levels = everything if self.sensitive_ is None else self.sensitive_
        names = np.array([" & ".join(map(str, np.atleast_1d(level))) for level in levels])
        outcomes = everything if self.y_ is None else np.asarray(self.y_)
        shares = pd.crosstab(names, outcomes, self.weights_, aggfunc="sum", normalize="index").fillna(0.0)
        title = f"{m} representatives: objective {self.objective_:.6g}, violation {self.violation_:.2g}"
        with panels([title], [5.0, 4.0], 1.8 + 0.3 * len(shares)) as (figure, (parity, descent)):
            for place, (kind, share) in enumerate(shares.items()):
                colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
                parity.plot(share, range(len(shares)), marker, color=colour, label=str(kind))
                if isinstance(self.epsilon, Real) and shares.shape[1] == len(self.target_):
                    ends = [self.target_[place] * (1 + sign * float(self.epsilon)) for sign in (-1, 1)]
                    parity.axvspan(*ends, color=colour, alpha=0.3, linewidth=0)
            parity.set(
                xlabel="share of the outcome by weight", xlim=(0, 1), title="Outcome within each level"
            )
            name_lines(parity, shares.index.tolist())
            parity.legend(frameon=False)
            descent.plot(self.history_, color=COLOURS[4])
            descent.axhline(self.lower_bound_, color=SOFT, linestyle="--", label="lower bound")
            descent.set_xticks(range(0, self.n_iter_ + 1, 1 + self.n_iter_ // 8))
            descent.set(xlabel="move that was kept", ylabel="objective", title="Descent")
            descent.legend(frameon=False)
        return figure

    def predict(self, X: Any, y: Any = None, sensitive: Any = None) -> np.ndarray:
        """(n,) index of each row's nearest representative, the first on ties.

        Weights and parity limit do not matter; for the rows of the fit, `labels_` follows the plan, which
        keeps the limit. Without `y` and `sensitive` the features alone decide, as in a pipeline.
        """
        points, rows = self._rows(X, y, sensitive)
        nearest = np.empty(rows.table.n, np.intp)
        for block in blocks(rows.table.n):
            nearest[block] = points.costs(rows, block).argmin(axis=1)
        return nearest

    def transform(self, X: Any, y: Any = None, sensitive: Any = None) -> np.ndarray:
        """(n, m) ground costs between rows and representatives; y and sensitive count if given."""
        points, rows = self._rows(X, y, sensitive)
        return points.costs(rows)

    def score(self, X: Any, y: Any = None, sensitive: Any = None, sample_weight: Any = None) -> float:
        """Minus the Wasserstein distance between the rows and the coreset with its weights; higher is better.

        With y and sensitive, and for the rows of the fit, this is −`objective_`. Without y or sensitive the
        distance is smaller: compare only scores with the same arguments. Memory: a few times n · m float64.
        """
        points, rows = self._rows(X, y, sensitive, sample_weight)
        return -wasserstein(points.costs(rows), self.weights_, rows.masses).objective

    def certify(
        self, X: Any, y: Any, sensitive: Any, weights: Any = None, sample_weight: Any = None
    ) -> CoresetCertificate:
        """Certify the representatives for other rows, such as held-out ones.

        Args:
            X: (n, p) features, as in `fit`.
            y: (n,) outcomes.
            sensitive: (n,) or (n, k) protected levels.
            weights: (m,) weights of the representatives, such as `weights_`; None: the best for these rows
                within the parity limit. The target stays that of the fit (`target_`).
            sample_weight: (n,) what each row stands for, as in `fit`.
        """
        points, rows = self._rows(X, y, sensitive, sample_weight)
        for name, labels, categories in (("y", y, points.outcomes), ("sensitive", sensitive, points.levels)):
            if labels is None and categories is not None:
                raise InputError(f"certify needs {name}, because fit had {name}: pass one value per row")
        return certified(points, rows, weights)

    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> np.ndarray | None:
        """Fit, and return `labels_`: each row's representative under the optimal plan."""
        return self.fit(X, y, **fit_params).labels_

    def _rows(self, *columns: Any) -> tuple[Represented, ComparedRows]:
        check_is_fitted(self)
        return self._represented, self._represented.read(Columns(*columns))

    @property
    def _n_features_out(self) -> int:
        """Columns of `transform`, named faircoreset0, faircoreset1, …"""
        return len(self.weights_)
