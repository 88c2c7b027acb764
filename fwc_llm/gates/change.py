"""E-detectors: a change that a running mean hides, with a stated rate of false alarms.

Blocks of new decisions, a part of each group in its order, make differences D of rates in [−1, 1]. While the
condition does not hold, D is at most 0 on average (a gap less its bound, say), and a bet 1 + λ D gains
nothing. The evidence M ← (M + 1)(1 + λ D) sums such bets from every possible time of a change (Shiryaev 1963;
Roberts 1966); with an alarm where it reaches N, there is at most one false alarm in N blocks on average, and
so in N decisions (Shin, Ramdas & Rinaldo 2024, *E-detectors*, theorem 2.4). The mean over several λ, and over
the pairs of groups and rates of a metric, is such evidence again.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

import numpy as np
import numpy.typing as npt

from fwc_llm.errors import FwcError
from fwc_llm.gates.condition import KEY_OF, GateCondition
from fwc_llm.metrics.counts import BY_KEY, RATES, UNPARSED, Codes, Floats

_BETS = np.array([0.05, 0.1, 0.2, 0.4])  # λ

Evidence = Mapping[str, Sequence[float]]  # by what is compared: the logarithm of M for each λ


def check_watched(condition: GateCondition, labelled: bool = True) -> None:
    """Refuse what has no detector: differences of arms, what is not counted from decisions, conditions on too
    little harm, and what needs labels where there are none.
    """
    metric = BY_KEY[KEY_OF[condition.metric]]
    worse = ">" if metric.kind == "gap" else "<"
    if condition.minus is not None or set(metric.rates) - set(RATES):
        raise FwcError(f'"{condition.text}" cannot be monitored: name one metric of decisions, such as dp')
    if not labelled and set(metric.rates) - {"rate", "coverage"}:
        raise FwcError(f'"{condition.text}" needs true outcomes: name their column with --label')
    if condition.operator[0] != worse:
        raise FwcError(f'"{condition.text}" cannot be monitored: {condition.metric} is watched with {worse}')


def collected(
    evidence: Evidence,
    condition: GateCondition,
    answer: Floats,
    label: npt.NDArray[np.integer],
    group: Codes,
    names: Sequence[str],
) -> dict[str, list[float]]:
    """Return the evidence after new decisions (n,) in their order, of groups (n,) with these `names`.

    `answer` is 1, 0 or NaN, `label` 1 or 0.
    """
    more = {name: list(logs) for name, logs in evidence.items()}
    for name, differences in _differences(condition, answer, label, group, names):
        gains = np.cumsum(np.log1p(_BETS[:, None] * differences), axis=1)
        before = np.concatenate([np.zeros((len(_BETS), 1)), gains[:, :-1]], axis=1)
        own = np.array(more.get(name) or [-np.inf] * len(_BETS))
        with np.errstate(invalid="ignore"):
            logs = gains[:, -1] + np.logaddexp(own, np.logaddexp.reduce(-before, axis=1))
        more[name] = logs.tolist()
    return more


def total(evidence: Evidence) -> float:
    """Return M, the mean over all that is compared and all bets."""
    logs = np.array(list(evidence.values()), np.float64)
    mean = np.logaddexp.reduce(logs, axis=None) - np.log(max(1, logs.size))
    return float(np.exp(min(700.0, mean)))


def _differences(
    condition: GateCondition,
    answer: Floats,
    label: npt.NDArray[np.integer],
    group: Codes,
    names: Sequence[str],
) -> Iterator[tuple[str, Floats]]:
    """Yield what is compared, and the differences of its blocks in order."""
    metric, bound = BY_KEY[KEY_OF[condition.metric]], condition.bound
    kind = np.where(np.isnan(answer), UNPARSED, answer).astype(np.int64)
    for rate in metric.rates:
        counted, hits = RATES[rate].counted[label, kind], RATES[rate].hits[label, kind].astype(np.float64)
        if metric.kind == "share":
            if counted.any():
                yield rate, bound - hits[counted]
            continue
        rows = [hits[counted & (group == place)] for place in range(len(names))]
        for first, second in permutations(range(len(names)), 2):
            if blocks := min(len(rows[first]), len(rows[second])):
                high, low = _means(rows[first], blocks), _means(rows[second], blocks)
                differences = high - low - bound if metric.kind == "gap" else bound * low - high
                yield f"{rate}: {names[first]} | {names[second]}", differences


def _means(values: Floats, blocks: int) -> Floats:
    """The means of so many blocks of values (n,), as equal in size as can be."""
    start = np.arange(blocks) * len(values) // blocks
    size = np.diff(start, append=len(values))
    return np.asarray(np.add.reduceat(values, start) / size)
