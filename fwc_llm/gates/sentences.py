"""Who gets how much, in words: terminal, page, gates, JUnit and monitor print these sentences."""

from collections.abc import Mapping

from fwc_llm.gates.condition import GateCondition
from fwc_llm.metrics.counts import BY_KEY, Metric
from fwc_llm.metrics.records import Record
from fwc_llm.metrics.statistics import Statistics
from fwc_llm.number_format import DASH, interval, number, signed

MORE: Mapping[str, str] = {  # what narrows intervals, by the units that were drawn
    "rows": "more rows",
    "people": "rows of more people",
}
_LIMITS = {">": "at most", ">=": "under", "<": "at least", "<=": "over"}
_LONGEST = 40  # characters of a name


def cut(name: str) -> str:
    """A name of at most 40 characters."""
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 1]}…"


def in_words(arm: str) -> str:
    """The name of an arm in a sentence, where "zero" would read as a number."""
    return "zero-shot" if arm == "zero" else cut(arm)


def decimals(rates: Mapping[str, float], gap: float) -> int:
    """One where whole points would read as if the gap were not that of the rates, else none."""
    whole = [round(100 * rate, 0) for rate in rates.values()]
    return int(max(whole) - min(whole) != round(100 * gap, 0))


def who_gets(rates: Mapping[str, float], digits: int = 0) -> str:
    """The rates of yes of the groups with the lowest and the highest."""
    order = sorted(rates, key=rates.__getitem__)
    low, high = (
        f"{number(rates[name], digits, 100)} % of {cut(name)}"
        for name in (order[0], order[-1])
    )
    if len(rates) > 2:
        high += f", the lowest and highest of {len(rates)} groups"
    return f"yes for {low} and {high}"


def points(value: float, digits: int = 0) -> str:
    """A share in percentage points."""
    text = number(value, digits, 100)
    return f"{text} point" + "s" * (text != "1")


def measured(
    metric: Metric, record: Record, limit: GateCondition | None = None, least: int = 0
) -> str:
    """A metric in words, with its interval and its limit; `least` is the fewest decimals."""
    scale = metric.scale
    digits = _digits(record, limit, 2 if metric.kind == "ratio" else least)
    value = number(record.value, digits, scale)
    text = f"{metric.words} {value} %"
    if limit is not None and limit.minus:
        both = f"{in_words(record.arm)} less that of {in_words(limit.minus)}"
        text = f"{metric.words} of {both}: {signed(record.value, digits, scale)}"
    elif metric.key == "accuracy":
        text = f"{value} % right"
    elif metric.kind == "ratio":
        text = f"a {metric.words} of {value}"
    elif metric.kind == "gap":
        text = f"a {metric.words} of {points(record.value, digits)}"
    brackets = [interval(record.ends, digits, scale)]
    if limit is not None:
        brackets.append(f"limit: {in_limits(limit)}")
    known = [part for part in brackets if part != DASH]
    return f"{text} ({'; '.join(known)})" if known else text


def in_limits(condition: GateCondition) -> str:
    """What a metric may be to keep from a condition; shares and gaps are times 100."""
    bound = BY_KEY[condition.metric].scale * condition.bound
    return f"{_LIMITS[condition.operator]} {bound:g}"


def _digits(record: Record, limit: GateCondition | None, least: int) -> int:
    """The decimals with which no end of an interval looks like the limit."""
    if limit is None:
        return least
    for digits in (least, least + 1):
        places = digits if least == 2 else digits + 2
        ends = {round(end, places) for end in record.ends}
        if round(limit.bound, places) not in ends:
            return digits
    return least + 2


def who_gets_how_much(
    stats: Statistics,
    arm: str,
    limit: GateCondition | None = None,
    record: Record | None = None,
) -> str:
    """The rates of yes and the gap of an arm, or the metric of a `limit`."""
    metric = BY_KEY[limit.metric if limit is not None else stats.lead]
    record = record or stats.of(metric.key, arm)
    rates = {name: rate.value for name, rate in stats.rates(arm).items()}
    compared = (
        metric.rates[0] in ("selection_rate", "label_rate") and metric.kind != "share"
    )
    if not compared or not rates or (limit is not None and limit.minus):
        return measured(metric, record, limit)
    digits = 0
    if metric.key == "dp_gap":
        digits = decimals(rates, record.value)
    text = measured(metric, record, limit, digits)
    between = ";" if metric.rates == ("label_rate",) else ","
    return f"{who_gets(rates, digits)}{between} {text}"
