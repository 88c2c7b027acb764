"""Prediction-powered inference: rows not asked about reduce the variance.

Features, group and label of all rows of the table are known. A cross-fitted predictor, trained on
the rows that were asked about, predicts the model's answers for all rows. Survey statistics call
the method the difference estimator (Särndal, Swensson & Wretman 1992); machine learning calls it
prediction-powered inference (Angelopoulos et al. 2023; cross-fitted: Zrnic & Candès 2024). In a
stratum

    p = mean of the answers − λ (mean prediction of asked rows − mean prediction of rows not asked).

The term with λ has mean 0 for every predictor, even if some answers are not parsed. λ minimises the
variance on the other folds (PPI++, Angelopoulos, Duchi & Zrnic 2023). The variance is expressed as
effective rows, so that limits, gaps, ratios, verdicts and tests are those of any sample
(`variance`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm.errors import FwcError
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.counts import (
    BY_KEY,
    RATES,
    REFER,
    Codes,
    Floats,
    sums_by,
    undefined_is_nan,
)
from fwc_llm.metrics.run_answers import RunAnswers
from fwc_llm.metrics.sampling_design import NOT_ASSISTED
from fwc_llm.metrics.variance import ArmArrays

MIN_ROWS = 40  # rows asked about, at least, for assisted estimates
MIN_ROWS_OF_STRATUM = 20
MOST = 50_000  # rows not asked about that are predicted: of more rows, a sample
FOLDS = 10
_C = 0.5  # inverse strength of the predictor's ridge penalty
_LARGEST = 2.0  # largest λ: predictions are shrunken, so the best λ may be above 1
_CELL = "group and label"
_COMMON = 10  # rows of a category, at least, that has a column of its own
RATES_ASSISTED = (
    "accuracy",
    "selection_rate",
    "true_positive_rate",
    "false_positive_rate",
)


@dataclass(frozen=True)
class FeatureTable:
    """All N rows that test rows are drawn from; none may be an example.

    `features` has a column of numbers or texts per feature, without the outcome.
    """

    rows: "pd.Index[Any]"
    group: "np.ndarray"
    label: "np.ndarray"
    features: pd.DataFrame

    @cached_property
    def encoded(self) -> Floats:
        """Features (N, p), standardised or one-hot, and group by label."""
        values = self.features.select_dtypes("number", exclude=["timedelta", "complex"])
        values = values.astype(np.float64)
        # larger and infinite numbers count as missing
        values = values.where(values.abs() < 1e100)
        values = values.fillna(values.mean().fillna(0.0))
        spread = values.std(ddof=0)
        values = (values - values.mean()) / spread.where(spread > 0, 1.0)
        texts = self.features.drop(columns=values.columns).astype(str)
        texts[_CELL] = self.group.astype(str) + self.label.astype(str).astype(object)
        counts = texts.apply(lambda column: column.map(column.value_counts()))
        common = texts.where(counts >= _COMMON, "")
        words = pd.get_dummies(common, dtype=np.float64)
        return np.hstack([values.to_numpy(), words.to_numpy()])


@dataclass(frozen=True)
class Predictions:
    """Predictions for one arm's questions and for the rows that were not asked about.

    `predicted` (n,) is P(yes) by a predictor that was trained without the question's `fold` (n,).
    `rows` (G, 2) counts the rows not asked about by group and label; `means` (K, G, 2) are each
    fold's mean predictions for them.
    """

    predicted: Floats
    fold: Codes
    means: Floats
    rows: Floats

    @undefined_is_nan
    def __call__(
        self,
        sample: ArmArrays,
        rate: str,
        weight: Floats,
        value: Floats,
        share: Floats,
        stratum: Codes,
    ) -> tuple[Floats, Floats, Floats, Floats] | None:
        """Return the changes of the shares (C,) of strata; None if predictions cannot assist the
        rate.

        An answer has a `stratum`, a `weight` (0 if it does not count), and a `value` (1 for a hit).
        Returns (C,) to add to the shares; (C,) factors of the effective rows; (n,) to subtract from
        each question's influence; (C,) factors of the influence after that.
        """
        if rate not in RATES_ASSISTED:
            return None
        two = np.s_[:REFER, :REFER]  # labels and answers
        hits = RATES[rate].hits[two].T * 1.0  # (answer, label)
        eligible = RATES[rate].counted[two].max(1) * 1.0
        strata = len(share)
        cell = sample.cell
        by_cell = np.full(2 * sample.groups, -1, dtype=np.int64)
        by_cell[cell] = stratum
        if (
            strata <= sample.groups
        ):  # strata are groups: a cell without questions belongs to its group
            by_cell = np.where(
                by_cell < 0, by_cell.reshape(-1, 2).max(1).repeat(2), by_cell
            )

        def of_cells(values: Floats) -> Floats:
            used = by_cell >= 0
            return np.asarray(
                np.bincount(by_cell[used], values.ravel()[used], strata), float
            )

        by_stratum = sums_by(stratum, strata)
        rest = of_cells(self.rows * eligible)
        asked_share = (
            eligible[sample.label] / by_stratum(eligible[sample.label])[stratum]
        )
        if_no, if_yes = (np.tile(hit, sample.groups) for hit in hits)
        hit = self.predicted * if_yes[cell] + (1 - self.predicted) * if_no[cell]
        means = self.means.reshape(len(self.means), -1)
        predictions = (
            np.nan_to_num(means * if_yes + (1 - means) * if_no)
            * (self.rows * eligible).ravel()
        )
        means = np.stack([of_cells(fold) for fold in predictions]) / rest  # (K, C)
        part = by_stratum(weight)
        psi = np.nan_to_num(weight / part[stratum] * (value - share[stratum]))
        away = np.nan_to_num(
            asked_share * (hit - by_stratum(asked_share * hit)[stratum])
        )
        # U rows within strata.
        many = 1 + int(sample.row.max())
        key, first, inverse = np.unique(
            stratum * many + sample.row, return_index=True, return_inverse=True
        )
        of = key // many
        by_row = sums_by(of, strata)
        fold = self.fold[first]
        answers, control, sampled, counted_of = (
            np.bincount(inverse, values) for values in (psi, away, asked_share, weight)
        )
        scaled = np.nan_to_num(part[of]) ** 2 * control
        shared, squared = (
            v.sum() - np.bincount(fold, v) for v in (scaled * answers, scaled * control)
        )
        weights = np.clip(np.nan_to_num(shared / squared), 0.0, _LARGEST)[
            :, None
        ]  # λ by the other folds
        number, enough = (by_row(values > 0) for values in (sampled, counted_of))
        weights = weights * rest / (rest + number)  # (K, C)
        before = by_row(answers**2)
        corrected = answers - weights[fold, of] * control
        after = by_row(corrected**2)
        spread = by_stratum(asked_share * hit**2) - by_stratum(asked_share * hit) ** 2
        total_spread = after + (weights**2).mean(0) * spread / rest
        worth = before / total_spread
        scale = np.sqrt(total_spread / after)
        of_question = weights[self.fold, stratum]
        shift = -by_stratum(
            of_question * asked_share * (hit - means[self.fold, stratum])
        )
        moved = share + shift
        used = (
            (enough >= MIN_ROWS_OF_STRATUM)
            & (worth > 1)
            & np.isfinite(scale)
            & (moved >= 0)
            & (moved <= 1)
        )
        return (
            np.where(used, shift, 0.0),
            np.where(used, worth, 1.0),
            np.where(used[stratum], part[stratum] * of_question * away, 0.0),
            np.where(used, scale, 1.0),
        )


def assisted_answers(run: RunAnswers, table: FeatureTable) -> RunAnswers:
    """Assist every value by predictions, from `MIN_ROWS` rows on.

    All answers about one row, of all arms and repeats, are in one fold.
    """
    samples = run.plain_samples
    assists = dict[str, Predictions]()
    first = next(iter(samples.values()))
    designed = first.weight is not None or first.cluster is not None
    if designed or run.design.refers:
        raise FwcError(NOT_ASSISTED)
    asked = np.concatenate([answers.row for answers in run.answers.values()])
    names = pd.Index(asked).unique()
    position = table.rows.get_indexer(names)
    lacking = names[position < 0]
    if len(lacking):
        raise FwcError(f"the table lacks the row {lacking[0]!r}, which was asked about")
    if first.rows < MIN_ROWS:
        return replace(run, assist=True)
    rest = np.setdiff1d(np.arange(len(table.rows)), position)
    code = pd.Index(run.groups, dtype=object).get_indexer(
        pd.Index(table.group, dtype=object)
    )
    rest = rest[code[rest] >= 0]
    cell = (2 * code + table.label)[rest]
    size = np.bincount(cell, minlength=2 * first.groups).astype(np.float64)
    if len(rest) > MOST:
        chosen = np.random.default_rng(0).choice(len(rest), MOST, replace=False)
        rest = rest[chosen]
        cell = cell[chosen]
    x = table.encoded
    rows = int(first.row.max()) + 1
    fold = np.random.default_rng(0).permutation(rows) % FOLDS
    for arm, sample in samples.items():
        asked_rows = position[sample.row]
        of_rest = x[rest], cell, size
        found = _predictions(sample, x[asked_rows], fold[sample.row], *of_rest)
        assists |= {} if found is None else {arm: found}
    return replace(run, assists=assists, assist=True)


@undefined_is_nan
def _predictions(
    sample: ArmArrays, x: Floats, fold: Codes, rest: Floats, cell: Codes, size: Floats
) -> Predictions | None:
    """Cross-fit the predictions of one arm; None if a fold's predictor would see answers all alike.

    `x` (n, p) are the features of the questions; `rest` and `cell` are features and cells of (a
    sample of) the other rows, of which there are `size` by cell.
    """
    known = sample.parsed
    target = sample.yes
    # P(yes) says more than the answer
    target = np.where(np.isnan(sample.scores), target, sample.scores)
    predicted = np.zeros(len(fold))
    cells = len(size)
    shape = (sample.groups, -1)
    means = np.full((FOLDS, cells), np.nan)
    count = np.bincount(cell, minlength=cells)
    for number in range(FOLDS):
        train = known & (fold != number)
        held_out = fold == number
        yes = target[train]
        if not 0 < yes.sum() < len(yes):
            return None
        predict = _predictor(x[train], yes)
        predicted[held_out] = predict(x[held_out])
        if len(rest):
            means[number] = np.bincount(cell, predict(rest), cells) / count
    by_cell = means.reshape(FOLDS, *shape), size.reshape(shape)
    return Predictions(predicted, fold, *by_cell)


def _predictor(x: Floats, y: Floats) -> Callable[[Floats], Floats]:
    """Fit a ridge logistic regression to shares y (n,) of rows x (n, p); returns what predicts."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=_C, solver="newton-cholesky", tol=1e-10)
    labels = np.repeat((1, 0), len(y))
    # Each row stands there twice, as a yes with the weight y and as a no with the rest.
    fitted.fit(np.concatenate([x, x]), labels, np.concatenate([y, 1 - y]))
    return lambda rows: np.asarray(fitted.predict_proba(rows)[:, 1])


def effective_sample_size(
    plain: ArmEstimates, assisted: ArmEstimates, key: str
) -> int | None:
    """Return n V / V_assisted of a metric for n rows; None if undefined.

    V is the variance, for a gap or ratio that of the two groups farthest apart.
    """
    metric = BY_KEY[key]
    rate = f"{metric.rates[0]} of all"
    places: Any = [np.array([0])]
    if metric.kind != "share":
        judged = plain.sample.eligible_groups
        values = {rate: assisted.counted(rate).values[judged] for rate in metric.rates}
        rate = max(values, key=lambda name: np.ptp(values[name]))
        if len(judged) < 2 or np.isnan(values[rate]).any():
            return None
        places = [judged[[values[rate].argmin()]], judged[[values[rate].argmax()]]]
    variances = []
    for shares in (plain.counted(rate), assisted.counted(rate)):
        factor, _ = shares.spread(*places)
        variances.append(factor[0] ** 2 * sum(shares.plain[at][0] for at in places))
    before, after = variances
    if not (0 < before < np.inf and 0 < after < np.inf):
        return None
    return round(float(plain.sample.rows * before / after))
