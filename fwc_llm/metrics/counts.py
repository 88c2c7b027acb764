"""Definitions of all rates and metrics.

Rates of answers are shares of the parsed answers. Undefined values are NaN, never 0, and a sentence
explains them (docs/statistics.md, "What is estimated").
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.int8]
# Decorator of functions, not of generators: what is undefined is NaN, without a warning.
undefined_is_nan = np.errstate(divide="ignore", invalid="ignore")

# Codes of labels and answers, in the order of counts. An answer that is not known is NaN.
NO = 0
YES = 1
REFER = 2
UNPARSED = 3
SHAPE = 3, 4  # of counts by label and answer
CODES: Mapping[str, float] = {"no": NO, "yes": YES, "refer": REFER, "": math.nan}


@dataclass(frozen=True)
class Rate:
    """A share of answers: `hits` among those that are `counted`.

    Both are flags (3, 4) by label (no, yes, refer) and answer (no, yes, refer, unparsed).
    """

    hits: Flags
    counted: Flags

    @property
    def of_mix(self) -> bool:
        """Whether the answer decides which rows are counted: the mix of labels decides the rate."""
        answered = self.counted[:, :UNPARSED]
        return bool((answered.any(1) & ~answered.all(1)).any())

    @property
    def counted_anyway(self) -> Flags:
        """Flags (3, 4) of what is counted whatever the answer in place of none."""
        answered = self.counted[:, :UNPARSED]
        return np.column_stack([answered, answered.all(1)])

    def extreme_answers(self, side: int) -> Codes:
        """The answers (3,), by label, that lower (side 0) or raise (side 1) the rate most where an
        answer is missing; a rate that counts missing answers has none in their place.
        """
        # A hit raises the rate, another counted answer lowers it, others do not count.
        effect = np.where(self.hits, 1, np.where(self.counted, -1, 0))[:, :UNPARSED]
        extreme = effect.argmax(1) if side else effect.argmin(1)
        return np.where(self.counted[:, UNPARSED], UNPARSED, extreme)


def _flags(no: str, yes: str, refer: str = "....") -> Flags:
    return np.array([[letter == "x" for letter in row] for row in (no, yes, refer)])


# First the text for rows with label no, then for label yes and refer; its letters: answered no,
# yes, refer, not parsed. A referral is not a yes; rows of label refer are neither right nor wrong.
_YES = ".x.."
_ANSWERED = "xxx."
_DECIDED = "xx.."
RATES: Mapping[str, Rate] = {
    "accuracy": Rate(_flags("x...", _YES), _flags(_ANSWERED, _ANSWERED)),
    "coverage": Rate(_flags(*3 * [_ANSWERED]), _flags(*3 * ["xxxx"])),
    "selection_rate": Rate(_flags(*3 * [_YES]), _flags(*3 * [_ANSWERED])),
    "refer_rate": Rate(_flags(*3 * ["..x."]), _flags(*3 * [_ANSWERED])),
    "label_rate": Rate(_flags(_YES, _YES), _flags(_ANSWERED, _ANSWERED)),
    "true_positive_rate": Rate(_flags("....", _YES), _flags("....", _ANSWERED)),
    "false_positive_rate": Rate(_flags(_YES, "...."), _flags(_ANSWERED, "....")),
    "precision": Rate(_flags("....", _YES), _flags(_YES, _YES)),
    "accuracy_decided": Rate(_flags("x...", _YES), _flags(_DECIDED, _DECIDED)),
    "selection_rate_decided": Rate(_flags(*3 * [_YES]), _flags(*3 * [_DECIDED])),
}


@dataclass(frozen=True)
class Metric:
    """A metric of an arm: `key` in files, gates and Python, `title` in tables.

    `kind`: the "share" of all answers, or the "gap" (largest minus smallest) or "ratio" (smallest
    over largest) of the groups' rates. A gap of several `rates` is the largest of their gaps.
    `source`: answers, P(yes), or all replies, with or without an answer. `headline` metrics are in
    every table. Texts show shares in per cent and gaps in points, with `digits` decimals.
    """

    key: str
    title: str
    kind: Literal["share", "gap", "ratio"]
    rates: tuple[str, ...]
    headline: bool = False
    source: Literal["answers", "p_yes", "replies"] = "answers"

    @property
    def judged(self) -> bool:
        """Whether a value has a verdict: the impact ratio judges ratios, and Brier scores differ
        anyway.
        """
        return self.kind == "gap" and self.key != "brier_gap"

    @property
    def words(self) -> str:
        """The metric in a sentence."""
        return _WORDS.get(self.key) or self.title.removesuffix(" %").lower()

    @property
    def scale(self) -> int:
        """Factor of a value in texts."""
        return 1 if self.kind == "ratio" else 100

    @property
    def digits(self) -> int:
        """Decimals of a value in tables."""
        return 2 if self.kind == "ratio" else 1


_WORDS = {  # of metrics whose titles are abbreviations
    "dp_gap": "gap",
    "dp_ratio": "ratio",
    "eo_gap": "gap in either kind of error",
    "tpr_gap": "gap among those whose true answer is yes",
    "fpr_gap": "gap among those whose true answer is no",
    "auc_gap": "gap in AUC",
    "brier_gap": "gap in Brier scores",
    "refer_gap": "gap in referrals",
    "refer_rate": "share of referrals",
}
_ODDS = "true_positive_rate", "false_positive_rate"
TABLE: tuple[Metric, ...] = (
    Metric("accuracy", "Accuracy %", "share", ("accuracy",), True),
    Metric("dp_gap", "DP gap", "gap", ("selection_rate",), True),
    Metric("label_gap", "Gap at equal labels", "gap", ("label_rate",), True),
    Metric("dp_ratio", "DP ratio", "ratio", ("selection_rate",), True),
    Metric("eo_gap", "EO gap", "gap", _ODDS, True),
    Metric("tpr_gap", "TPR gap", "gap", _ODDS[:1]),
    Metric("fpr_gap", "FPR gap", "gap", _ODDS[1:]),
    Metric("precision_gap", "Precision gap", "gap", ("precision",)),
    Metric("refer_gap", "Refer gap", "gap", ("refer_rate",)),
    Metric("refer_rate", "Referred %", "share", ("refer_rate",)),
    Metric("auc_gap", "AUC gap", "gap", ("auc",), source="p_yes"),
    Metric("brier_gap", "Brier gap", "gap", ("brier",), source="p_yes"),
)
# Shares of all replies, with or without an answer. All but the first are reasons for having none;
# "unread" are replies that ended well, in which no answer was found.
REPLY_RATES = "coverage", "refused", "filtered", "truncated", "unfinished", "unread"
# What a group lacks whose rate is undefined.
AMONG: Mapping[str, str] = {
    "selection_rate": "parsed answer",
    "selection_rate_decided": "yes or no",
    "refer_rate": "parsed answer",
    "label_rate": "parsed answer to each label",
    "true_positive_rate": "parsed answer with label yes",
    "false_positive_rate": "parsed answer with label no",
    "precision": "yes",
    "auc": "P(yes) of each label",
    "brier": "P(yes)",
} | dict.fromkeys(REPLY_RATES, "reply")
REPLIES: tuple[Metric, ...] = tuple(
    metric
    for rate in REPLY_RATES
    for metric in (
        Metric(rate, f"{rate.title()} %", "share", (rate,), source="replies"),
        Metric(f"{rate}_gap", f"{rate.title()} gap", "gap", (rate,), source="replies"),
    )
)
BY_KEY: Mapping[str, Metric] = {metric.key: metric for metric in (*TABLE, *REPLIES)}
METRICS: tuple[str, ...] = tuple(metric.key for metric in TABLE if metric.headline)
OF_REFERRALS = "refer_gap", "refer_rate"  # defined where there is a third answer
COUNTED: tuple[Metric, ...] = tuple(
    metric for metric in TABLE if metric.source == "answers"
)
# The metrics of answers yes and no alone, by key of those that count referrals, too.
DECIDED: Mapping[str, Metric] = {
    key: replace(
        BY_KEY[key], rates=tuple(f"{rate}_decided" for rate in BY_KEY[key].rates)
    )
    for key in ("accuracy", "dp_gap")
}


def sums_by(of: Codes, parts: int) -> Callable[[npt.ArrayLike], Floats]:
    """Return a function that sums values (n,) by their part `of` (n,)."""
    return lambda values: np.asarray(np.bincount(of, values, parts), np.float64)


@undefined_is_nan
def quotient(part: npt.ArrayLike, whole: npt.ArrayLike) -> Floats:
    """Return part / whole (n,); NaN or infinite for a whole of 0."""
    return np.asarray(np.divide(part, whole))


def value_of(metric: Metric, rates: Mapping[str, Floats]) -> Floats:
    """Return a gap or ratio (...) of the groups' `rates`, which are (..., G) by name.

    NaN for one group; a ratio is also NaN if no rate is above 0.
    """
    shares = [rates[name] for name in metric.rates]
    if shares[0].shape[-1] < 2:
        return np.full(shares[0].shape[:-1], np.nan)
    if metric.kind == "gap":
        return np.asarray(np.maximum.reduce([np.ptp(rate, axis=-1) for rate in shares]))
    return quotient(shares[0].min(-1), shares[0].max(-1))


def levels_of(names: Any) -> tuple[list[str], Codes]:
    """Return the distinct names, sorted, and the index (n,) of each name; names are texts or
    categories.
    """
    if hasattr(names, "categories"):
        levels = sorted(names.remove_unused_categories().categories)
        return levels, names.set_categories(levels).codes.astype(np.int64)
    different, code = np.unique(np.asarray(names).astype(np.str_), return_inverse=True)
    return different.tolist(), code.astype(np.int64)


def plain(value: Any) -> Any:
    """Convert a value for JSON: NaN and infinities become None, numpy numbers Python's; an object
    with a method `plain` becomes what that returns.
    """
    if hasattr(value, "plain"):
        return plain(value.plain())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
