"""Model-assisted estimates: the rows that were not asked about make the answers to the others say more.

Features, group and label of all rows of the table are known. A predictor of the model's own answers, trained
on the rows that were asked about and cross-fitted, predicts them for all rows; the asked ones correct its
mean. Survey statistics call it the difference estimator (Särndal, Swensson & Wretman 1992), machine learning
prediction-powered inference (Angelopoulos et al. 2023; cross-fitted: Zrnic & Candès 2024). In a stratum

    p = mean of the answers − λ (mean prediction of asked rows − that of the rows not asked),

whose correction has mean 0 whatever the predictor is, also where answers could not be parsed. λ is fitted on
the other folds for the least variance (PPI++, Angelopoulos, Duchi & Zrnic 2023). The variance becomes
effective rows, so that limits, gaps, ratios, verdicts and tests are those of any sample (`variance`).

Where decisions are known of all rows and labels of some, the roles change: labels are predicted. What depends
on them is a ratio, such as the true positive rate R = E[decision · label] / E[label], and the correction is
that of its linearised variable, label (decision − R) / E[label] (Särndal et al., section 5.5).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.counts import BY_KEY, RATES, UNPARSED, Codes, Floats
from fwc_llm.metrics.variance import ArmArrays, RateEstimates

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.metrics.run_answers import RunAnswers

MIN_ROWS = 40  # rows asked about, below which nothing is assisted
MIN_ROWS_OF_STRATUM = 20
MOST = 50_000  # rows not asked about that are predicted; of more, a sample
FOLDS = 10
_C = 0.5  # inverse strength of the predictor's ridge
_LARGEST = 2.0  # λ: predictions are shrunken, so that more than 1 may be best
RATES_ASSISTED = ("accuracy", "rate", "true_positive_rate", "false_positive_rate")


@dataclass(frozen=True)
class FeatureTable:
    """All N rows that test rows are drawn from: their names, groups and labels (N,), and features.

    Where labels are what is predicted, `label` has the decisions, 2 for one that could not be parsed.
    `features` (N, …) has a column each, numbers or texts, without the outcome; None of its rows may be an
    example of its own.
    """

    rows: "pd.Index[Any]"
    group: "np.ndarray"
    label: "np.ndarray"
    features: "pd.DataFrame"

    @cached_property
    def matrix(self) -> Floats:
        """The features (N, p): numbers standardised, categories a column each, group by label as well."""
        import pandas as pd
        from sklearn.compose import make_column_transformer
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        values = self.features.select_dtypes("number", exclude=["timedelta", "complex"]).astype(np.float64)
        values = values.where(values.abs() < 1e100)  # neither missing nor infinite
        numbers, values = list(values.columns), values.fillna(values.mean().fillna(0.0))
        texts = [name for name in self.features.columns if name not in numbers]
        frame = pd.concat([self.features[texts].astype(str), values], axis=1)
        frame["\x1fgroup and label"] = pd.Series(self.group, frame.index).astype(str) + self.label.astype(str)
        rare = OneHotEncoder(min_frequency=10, handle_unknown="infrequent_if_exist", sparse_output=False)
        encode = make_column_transformer(
            (StandardScaler(), numbers), (rare, [*texts, "\x1fgroup and label"])
        )  # fmt: skip
        return np.asarray(encode.fit_transform(frame), np.float64)


@dataclass(frozen=True)
class Predictions:
    """Predictions for one arm's questions and for the rows that were not asked about.

    `predicted` (n,) is P(yes) by a predictor that saw no row of the question's `fold` (n,), and `means`
    (K, G, 2) the mean that the predictor of each fold gives to the rows of each group and label that were not
    asked about, of which there are `rows` (G, 2). `of_labels`: the labels' P(yes) is predicted, and decisions
    (no, yes, not parsed) stand in the place of labels.
    """

    predicted: Floats
    fold: Codes
    means: Floats
    rows: Floats
    of_labels: bool = False

    @property
    def rates(self) -> tuple[str, ...]:
        """The rates that predictions assist."""
        of_answers = tuple(name for name, rate in RATES.items() if rate.of_answers)
        return RATES_ASSISTED + of_answers * self.of_labels

    @np.errstate(divide="ignore", invalid="ignore")
    def adjusted(
        self, sample: ArmArrays, rate: str, weight: Floats, value: Floats, share: Floats, stratum: Codes
    ) -> tuple[Floats, Floats, Floats, Floats] | None:
        """Return what predictions change in the shares (C,) of strata (n,); None of a rate without any.

        `weight` (n,) are the answers' weights, 0 where they do not count, `value` (n,) whether they are hits.
        The first (C,) is added to shares, the second (C,) multiplies their effective rows, the third (n,) is
        taken from each question's influence, which then grows by the fourth (C,).
        """
        if rate not in self.rates:
            return None
        hits, counted = RATES[rate].hits * 1.0, RATES[rate].counted * 1.0  # (predicted, kind)
        if not self.of_labels:
            hits, counted = hits[:, :UNPARSED].T, counted[:, :UNPARSED].T
        strata, kinds = len(share), hits.shape[1]
        kind = _kind(sample, self.of_labels)
        cell = kinds * sample.group + kind
        by_cell = np.full(kinds * sample.groups, -1, dtype=np.int64)
        by_cell[cell] = stratum
        if (by_cell[cell] != stratum).any():
            return None  # strata that no table has, such as those of conditional parity
        if strata <= sample.groups:  # labels as they come: a cell without a question belongs to its group
            by_cell = np.where(by_cell < 0, by_cell.reshape(-1, kinds).max(1).repeat(kinds), by_cell)
        eligible = counted.max(0)

        def of_cells(values: Floats) -> Floats:
            here = by_cell >= 0
            return np.asarray(np.bincount(by_cell[here], values.ravel()[here], strata), float)

        rest = of_cells(self.rows * eligible)
        asked = eligible[kind] * (1.0 if sample.weight is None else sample.weight)
        asked = asked / np.bincount(stratum, asked, strata)[stratum]
        if_no, if_yes = (np.tile(hit, sample.groups) for hit in hits)
        if self.of_labels:
            base = np.bincount(stratum, asked * (weight > 0), strata)[by_cell]
            if_no, if_yes = (
                (hit - share[by_cell] * np.tile(among, sample.groups)) / base
                for hit, among in zip((if_no, if_yes), counted, strict=True)
            )
        hit = self.predicted * if_yes[cell] + (1 - self.predicted) * if_no[cell]
        means = self.means.reshape(len(self.means), -1)
        predictions = np.nan_to_num(means * if_yes + (1 - means) * if_no) * (self.rows * eligible).ravel()
        means = np.stack([of_cells(fold) for fold in predictions]) / rest  # (K, C)
        part = np.bincount(stratum, weight, strata)
        psi = np.nan_to_num(weight / part[stratum] * (value - share[stratum]))
        away = np.nan_to_num(asked * (hit - np.bincount(stratum, asked * hit, strata)[stratum]))
        # Units within strata, U of them.
        many = int(sample.unit.max(initial=-1)) + 1
        key, first, place = np.unique(stratum * many + sample.unit, return_index=True, return_inverse=True)
        of, fold = key // many, self.fold[first]
        answers, control, each, counted_of = (
            np.bincount(place.ravel(), values) for values in (psi, away, asked, weight)
        )
        scaled = np.nan_to_num(part[of]) ** 2 * control
        shared, own = (v.sum() - np.bincount(fold, v) for v in (scaled * answers, scaled * control))
        weights = np.clip(np.nan_to_num(shared / own), 0.0, _LARGEST)[:, None]  # by the units of other folds
        number, enough = (np.bincount(of, values > 0, strata) for values in (each, counted_of))
        weights = weights * rest / (rest + number)  # (K, C)
        before = np.bincount(of, answers**2, strata)
        after = np.bincount(of, (answers - weights[fold, of] * control) ** 2, strata)
        spread = np.bincount(stratum, asked * hit**2, strata) - np.bincount(stratum, asked * hit, strata) ** 2
        whole = after + (weights**2).mean(0) * spread / rest
        worth, scale = before / whole, np.sqrt(whole / after)
        of_question = weights[self.fold, stratum]
        shift = -np.bincount(stratum, of_question * asked * (hit - means[self.fold, stratum]), strata)
        moved = share + shift
        used = (
            (enough >= MIN_ROWS_OF_STRATUM) & (worth > 1) & np.isfinite(scale) & (moved >= 0) & (moved <= 1)
        )
        return (
            np.where(used, shift, 0.0),
            np.where(used, worth, 1.0),
            np.where(used[stratum], part[stratum] * of_question * away, 0.0),
            np.where(used, scale, 1.0),
        )


def _kind(sample: ArmArrays, of_labels: bool) -> Codes:
    """The kind of each row (n,): its label, or the decision where labels are predicted."""
    return sample.kind if of_labels else sample.label.astype(np.int64)


def assisted_samples(
    run: "RunAnswers", samples: Mapping[str, ArmArrays], table: FeatureTable, of_labels: bool = False
) -> dict[str, ArmArrays]:
    """Return the arms' samples with predictions for their questions; as they are with few rows.

    Folds go by row, or person: all answers about one, of all arms and repeats, are in one fold. `of_labels`:
    the table has decisions in the place of labels, which are predicted. Raises `FwcError` for a table that
    lacks a row that was asked about, has one twice, or says other things about one.
    """
    import pandas as pd

    first = next(iter(samples.values()))
    names = list(dict.fromkeys(name for a in run.answers.values() for name in a.row))
    place = table.rows.get_indexer(pd.Index(names)) if table.rows.is_unique else np.zeros(0, dtype=np.intp)
    if not table.rows.is_unique:
        raise FwcError(f"the table has two rows {table.rows[table.rows.duplicated()][0]!r}: name each once")
    if (place < 0).any():
        raise FwcError(f"the table lacks the row {names[int(np.argmin(place))]!r}, which was asked about")
    for sample in samples.values():
        group, label = (values[place[sample.row]] for values in (table.group, table.label))
        other = (group != np.array(run.groups, object)[sample.group]) | (label != _kind(sample, of_labels))
        if other.any():
            raise FwcError(
                f"the row {names[sample.row[int(np.argmax(other))]]!r} has another group or "
                f"{'decision' if of_labels else 'label'} in the table than in the answers"
            )
    if first.rows < MIN_ROWS:
        return dict(samples)
    rest = np.setdiff1d(np.arange(len(table.rows)), place)
    code = pd.Index(run.groups, dtype=object).get_indexer(pd.Index(table.group[rest], dtype=object))
    rest, code = rest[code >= 0], code[code >= 0]
    kinds = 3 if of_labels else 2
    cell = kinds * code + table.label[rest]
    size = np.bincount(cell, minlength=kinds * first.groups).astype(np.float64)
    if len(rest) > MOST:
        chosen = np.random.default_rng(0).choice(len(rest), MOST, replace=False)
        rest, cell = rest[chosen], cell[chosen]
    units = int(max(sample.unit.max() for sample in samples.values())) + 1
    fold = np.random.default_rng(0).permutation(units) % FOLDS
    assisted = {}
    for arm, sample in samples.items():
        x = table.matrix
        own = _predictions(sample, x[place[sample.row]], fold[sample.unit], x[rest], cell, size, of_labels)
        assisted[arm] = replace(sample, assist=own)
    return assisted


@np.errstate(divide="ignore", invalid="ignore")
def _predictions(
    sample: ArmArrays, x: Floats, fold: Codes, rest: Floats, cell: Codes, size: Floats, of_labels: bool
) -> Predictions | None:
    """The cross-fitted predictions of one arm, to rows in cells of a `size`; None where all are alike."""
    from sklearn.linear_model import LogisticRegression

    known, target = sample.parsed | of_labels, sample.yes
    if of_labels:
        target = np.asarray(sample.label, np.float64)
    elif sample.p_yes is not None:  # more than yes or no
        target = np.asarray(np.where(np.isnan(sample.p_yes), target, sample.p_yes), np.float64)
    predicted, cells, shape = np.zeros(len(fold)), len(size), (sample.groups, -1)
    means, count = np.full((FOLDS, cells), np.nan), np.bincount(cell, minlength=cells)
    for place in range(FOLDS):
        train, here = known & (fold != place), fold == place
        yes = target[train]
        if not 0 < yes.sum() < len(yes):
            return None
        both = np.concatenate([x[train], x[train]]), np.repeat([1, 0], len(yes))
        model = LogisticRegression(C=_C, max_iter=300)
        model.fit(*both, sample_weight=np.concatenate([yes, 1 - yes]))
        if here.any():
            predicted[here] = model.predict_proba(x[here])[:, 1]
        if len(rest):
            means[place] = np.bincount(cell, model.predict_proba(rest)[:, 1], cells) / count
    return Predictions(predicted, fold, means.reshape(FOLDS, *shape), size.reshape(shape), of_labels)


def effective_sample_size(plain: ArmEstimates, assisted: ArmEstimates, key: str) -> int | None:
    """Return n V / V_assisted of a metric, of the pair of groups that is farthest apart; None without any."""
    metric, judged = BY_KEY[key], plain.sample.eligible_groups
    rate, pair = f"{metric.rates[0]} of all", list[Codes]()
    if metric.kind != "share":
        values = {rate: assisted.counted(rate).values[judged] for rate in metric.rates}
        rate = max(values, key=lambda name: np.ptp(values[name]))
        if len(judged) < 2 or np.isnan(values[rate]).any():
            return None
        pair = [judged[[values[rate].argmin()]], judged[[values[rate].argmax()]]]
    variances = [_variance(own.counted(rate), *pair) for own in (plain, assisted)]
    if not all(np.isfinite(variance) and variance > 0 for variance in variances):
        return None
    return round(plain.sample.rows * variances[0] / variances[1])


def _variance(shares: RateEstimates, first: Codes | None = None, second: Codes | None = None) -> float:
    factor, _ = shares.spread(first, second)
    plain = shares.plain if first is None or second is None else shares.plain[first] + shares.plain[second]
    return float(factor[0] ** 2 * plain[0])
