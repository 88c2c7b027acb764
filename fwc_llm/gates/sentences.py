"""Who gets how much, in words: terminal, page, gates, JUnit and monitor print these sentences."""

import math
from collections.abc import Collection, Mapping, Sequence

from fwc_llm.gates.condition import GateCondition
from fwc_llm.metrics.counts import BY_KEY, REPLY_RATES, Metric
from fwc_llm.metrics.records import Record
from fwc_llm.metrics.statistics import Statistics
from fwc_llm.number_format import interval, number, short, signed

MORE: Mapping[str, str] = {  # what narrows intervals, by the units that were drawn
    "rows": "more rows",
    "people": "rows of more people",
    "decisions": "more decisions",
}
_LIMITS = {">": "at most", ">=": "under", "<": "at least", "<=": "over"}
_SHOWN_BY = {"label_rate": "selection_rate"}  # the rate of groups that is told instead
_GETS: Mapping[str, str] = {  # what the members of a group get, by rate
    **{rate: f"{rate} for" for rate in REPLY_RATES},
    "selection_rate": "yes for",
    "label_rate": "yes for",
    "refer_rate": "referred for",
    "coverage": "an answer for",
    "true_positive_rate": "among true yes, yes for",
    "false_positive_rate": "among true no, yes for",
    "precision": "a yes is right for",
}
_LONGEST = 40  # characters of a name


def cut(name: str) -> str:
    """A name of at most 40 characters."""
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 1]}…"


def in_words(arm: str) -> str:
    """The name of an arm in a sentence, where "zero" would read as a number."""
    return "zero-shot" if arm == "zero" else cut(arm)


def who_gets(rates: Mapping[str, float], rate: str = "selection_rate") -> str:
    """The `rate` of the groups with the lowest and the highest."""
    order = sorted(rates, key=rates.__getitem__)
    low, high = (
        f"{number(rates[name], 1, 100)} % of {cut(name)}"
        for name in (order[0], order[-1])
    )
    if len(rates) > 2:
        high += f", the lowest and highest of {len(rates)} groups"
    return f"{_GETS[rate]} {low} and {high}"


def points(value: float) -> str:
    """A share in percentage points."""
    return f"{number(value, 1, 100)} points"


def measured(metric: Metric, record: Record, limit: GateCondition | None = None) -> str:
    """A metric in words, with its interval and its limit."""
    form = signed if limit is not None and limit.minus and not limit.size else number
    value = form(record.value, metric.digits, metric.scale)
    text = f"{metric.words} {value} %"
    if limit is not None and limit.minus:
        unit = " points" * (metric.kind != "ratio")
        text = f"{difference_words(record.arm, limit)}: {value}{unit}"
    elif metric.key == "accuracy":
        text = f"{value} % right"
    elif metric.kind == "ratio":
        text = f"a {metric.words} of {value}"
    elif metric.kind == "gap":
        text = f"a {metric.words} of {value} points"
    limits = [] if limit is None else [limit.bound]
    brackets = [interval(record.ends, metric.digits, metric.scale, limits)]
    if math.isnan(record.low):
        brackets = []
    if limit is not None:
        brackets.append(f"limit: {in_limits(limit)}")
    return f"{text} ({'; '.join(brackets)})" if brackets else text


def difference_words(arm: str, limit: GateCondition) -> str:
    """The difference of two arms that a limit is about; a distance has no sign."""
    words = f"{BY_KEY[limit.metric].words} of {in_words(arm)}"
    other = f"that of {in_words(limit.minus or '')}"
    return (
        f"distance of the {words} from {other}"
        if limit.size
        else f"{words} less {other}"
    )


def in_limits(condition: GateCondition) -> str:
    """What a metric may be to keep from a condition; shares and gaps are times 100."""
    bound = short(condition.bound, BY_KEY[condition.metric].scale)
    return f"{_LIMITS[condition.operator]} {bound}"


def bounds_of(limits: Sequence[GateCondition], metric: Metric) -> list[float]:
    """The bounds of a metric of one arm among `limits`."""
    own = (limit for limit in limits if limit.minus is None)
    return [limit.bound for limit in own if limit.metric == metric.key]


def still_open(metric: Metric, record: Record, limit: GateCondition, why: str) -> str:
    """Why it is open whether a limit is kept, and whether a gap or difference is shown."""
    none = 1.0 if metric.kind == "ratio" else 0.0
    compares = metric.kind != "share" or limit.minus is not None
    if not compares or not (record.low > none or record.high < none):
        return why
    what = "a gap" if limit.minus is None else "a difference"
    return f"{what} is shown, but not whether it keeps to the limit: {why}"


def of_either_kind(keys: Collection[str]) -> list[str]:
    """A note where the EO gap stands beside the gaps of which it is the larger."""
    either = BY_KEY["eo_gap"]
    parts = [key for key in keys if {*BY_KEY[key].rates} < {*either.rates}]
    if either.key not in keys or not parts:
        return []
    words = f"the {either.words} (equalized odds)"
    kinds = "the gaps among true yes and among true no"
    return [
        f"{words.capitalize()} is the larger of {kinds}, and its interval is wider."
    ]


def who_gets_how_much(
    stats: Statistics,
    arm: str,
    limit: GateCondition | None = None,
    record: Record | None = None,
) -> str:
    """The rates of yes and the gap of an arm, or the metric of a `limit`."""
    metric = BY_KEY[limit.metric if limit is not None else stats.lead]
    text = measured(metric, record or stats.of(metric.key, arm), limit)
    if metric.kind == "share" or (limit is not None and limit.minus):
        return text
    told = {rate: stats.shares(arm, _SHOWN_BY.get(rate, rate)) for rate in metric.rates}
    rate, rates = max(told.items(), key=lambda one: _width(one[1].values()))
    if not rates or rate not in _GETS:
        return text
    return f"{who_gets(rates, rate)}{';' if rate in _SHOWN_BY else ','} {text}"


def _width(shares: Collection[float]) -> float:
    return max(shares, default=0.0) - min(shares, default=0.0)
