"""Scores of the arms and their bootstrap, by the plan: as answered, centred, fitted.

Arrays: A arms, n rows (the same in all arms), D draws, 4 cells of group and label (0·no, 0·yes,
1·no, 1·yes).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logit
from scipy.stats import t

from fwc_llm.answers import parse_answer
from fwc_llm.metrics.decision_thresholds import most_accurate, threshold_curve
from fwc_llm.models import Reply

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_ANSWERS = ("accuracy", "gap", "dp")
METRICS = {
    "as answered": _ANSWERS,
    "centred": _ANSWERS,
    "fitted": _ANSWERS,
    "ranking": ("auc",),
}
DRAWS = 10_000
_CHUNK = 500
_BINS = 10
SEED = 1
LEAST_SETS = 3  # of a strategy, for an interval over its sets
LEAST_DIFFERENT = (
    5  # answers of an arm that differ from the rest, for the arm to count as answered
)


@dataclass(frozen=True)
class Experiment:
    """The complete arms of an experiment: which strategy each is of, and what was said of every
    row.
    """

    arms: tuple[str, ...]
    groups: tuple[str, str]
    group: npt.NDArray[np.intp] = field(repr=False)  # (n,)
    label: npt.NDArray[np.intp] = field(repr=False)  # (n,)
    said: Flags = field(repr=False)  # (A, n), answered yes
    p_yes: Floats = field(repr=False)  # (A, n)
    shares: tuple[float, float] | None = (
        None  # of the groups in the table, where rows are drawn by group
    )

    @property
    def log_odds(self) -> Floats:
        """Log-odds of P(yes) (A, n)."""
        return np.asarray(logit(np.clip(self.p_yes, 1e-9, 1 - 1e-9)))

    @property
    def cell(self) -> npt.NDArray[np.intp]:
        """Cell of each row (n,)."""
        return 2 * self.group + self.label

    @property
    def weight(self) -> Floats:
        """What each row counts for (n,), of mean 1."""
        if self.shares is None:
            return np.ones(len(self.label))
        shares = np.array(self.shares) / sum(self.shares)
        return (shares * len(self.label) / np.bincount(self.group))[self.group]

    def sets(self) -> dict[str, list[int]]:
        """Arms of each strategy, by their number."""
        found: dict[str, list[int]] = {}
        for number, arm in enumerate(self.arms):
            found.setdefault(strategy_of(arm), []).append(number)
        return found

    def fitted(self) -> Flags:
        """Yes (A, n) at the threshold that is most accurate on the other half of the rows, in
        two folds.
        """
        fold = np.random.default_rng(SEED).permutation(len(self.label)) % 2
        yes = np.zeros_like(self.said)
        for arm, p in enumerate(self.p_yes):
            for half in (0, 1):
                there = fold != half
                here = fold == half
                curve = threshold_curve(
                    p[there],
                    self.label[there],
                    self.group[there].astype(str),
                    self.weight[there],
                )
                yes[arm, here] = p[here] >= curve.thresholds[most_accurate(curve)]
        return yes


def strategy_of(arm: str) -> str:
    """The strategy of an arm called `strategy-seed`."""
    return arm.partition("-")[0]


def read_experiment(
    rows: Sequence[Mapping[str, str]],
    expected: Sequence[str],
    shares: Mapping[str, float] | None = None,
) -> Experiment:
    """Return the arms that answer every row that the first one does, in the expected order.

    `shares` are the groups' shares of the table, to which the rows are weighted back.
    """
    by_arm: dict[str, dict[str, Mapping[str, str]]] = {}
    for row in rows:
        by_arm.setdefault(row["arm"], {})[row["row"]] = row
    order = list(by_arm[expected[0]])
    arms = tuple(arm for arm in expected if by_arm.get(arm, {}).keys() == set(order))
    table = [[by_arm[arm][row] for row in order] for arm in arms]
    first = table[0]
    groups = sorted({row["group"] for row in first})
    if len(groups) != 2:
        raise SystemExit(f"two groups are needed, not {groups}")
    return Experiment(
        arms,
        (groups[0], groups[1]),
        np.array([groups.index(row["group"]) for row in first]),
        np.array([int(row["label"] == "yes") for row in first]),
        np.array(
            [
                [parse_answer(Reply(row["reply"])).value == "yes" for row in arm]
                for arm in table
            ]
        ),
        np.array([[float(row["p_yes"]) for row in arm] for arm in table]),
        None if shares is None else (shares[groups[0]], shares[groups[1]]),
    )


def measure(rates: Floats, share: Floats) -> Floats:
    """Accuracy, gap at equal labels, DP gap (…, 3) from the cells' rates of yes (…, 4) and shares.

    Gaps are the second group's rate minus the first's; at equal labels, the mean over the two
    labels.
    """
    correct = rates * [0, 1, 0, 1] + (1 - rates) * [1, 0, 1, 0]
    first, second = (
        (rates * share)[..., part].sum(-1) / share[part].sum()
        for part in (slice(2), slice(2, 4))
    )
    at_equal_labels = (rates[..., 2:] - rates[..., :2]).mean(-1)
    return np.stack([(correct * share).sum(-1), at_equal_labels, second - first], -1)


def bootstrap(data: Experiment, draws: int = DRAWS) -> dict[str, Floats]:
    """Metrics (D + 1, A, M) by scoring: of the data, then of each draw.

    Rows are resampled within cells, the same ones in all arms. The centre of the log-odds is
    estimated anew in each draw; the thresholds of `fitted` stay.
    """
    rng = np.random.default_rng(SEED)
    n = len(data.label)
    share = np.bincount(data.cell, data.weight, minlength=4) / n
    fitted = data.fitted()
    parts: dict[str, list[Floats]] = {name: [] for name in METRICS}
    for first in range(0, draws + 1, _CHUNK):
        count = min(_CHUNK, draws + 1 - first)
        weight = np.zeros((count, n))
        for rows in (np.flatnonzero(data.cell == cell) for cell in range(4)):
            weight[:, rows] = rng.multinomial(
                len(rows), np.full(len(rows), 1 / len(rows)), count
            )
        if first == 0:
            weight[0] = 1.0
        weighted = weight * data.weight
        centre = weighted @ data.log_odds.T / n
        yes = {"as answered": data.said[None], "fitted": fitted[None]}
        yes["centred"] = data.log_odds[None] > centre[:, :, None]
        for name, answered in yes.items():
            cells = [data.cell == cell for cell in range(4)]
            rates = [
                (weight[:, None, c] * answered[..., c]).sum(-1) / c.sum() for c in cells
            ]
            parts[name].append(measure(np.stack(rates, -1), share))
        areas = np.stack([_auc(p, data.label, weighted) for p in data.p_yes], 1)
        parts["ranking"].append(areas[..., None])
    return {name: np.concatenate(part) for name, part in parts.items()}


def _auc(p: Floats, label: npt.NDArray[np.intp], weight: Floats) -> Floats:
    """Area under the ROC curve (D,) of the scores `p` (n,), with the weights (D, n) of the rows."""
    values, place = np.unique(p, return_inverse=True)
    at_value = [np.zeros((len(weight), len(values))) for _ in (0, 1)]
    for kind in (0, 1):
        for row in np.flatnonzero(label == kind):
            at_value[kind][:, place[row]] += weight[:, row]
    no, yes = at_value
    below = np.cumsum(no, 1) - no / 2
    return np.asarray((yes * below).sum(1) / (yes.sum(1) * no.sum(1)))


def estimate(
    draws: Floats, first: Sequence[int], second: Sequence[int] = ()
) -> dict[str, Any]:
    """A strategy's mean over its arms, minus another's where given, from a metric's draws (D +
    1, A).

    `examples`: 95 % percentile interval over rows, for these sets. `error`: the standard error from
    the rows and, where a strategy has several sets, from these. `freedom`: its degrees of freedom
    (Satterthwaite), as if the rows' variance were known.
    """
    sides = [list(arms) for arms in (first, second) if arms]
    means = [draws[:, arms].mean(1) for arms in sides]
    if len(means) == 2:
        values = means[0] - means[1]
    else:
        values = means[0]
    low, high = np.quantile(values[1:], (0.025, 0.975))
    several = [arms for arms in sides if len(arms) > 1]
    of_sets = [float(draws[0, arms].var(ddof=1)) / len(arms) for arms in several]
    variance = float(values[1:].var()) + sum(of_sets)
    lost = sum(
        part**2 / (len(arms) - 1) for part, arms in zip(of_sets, several, strict=True)
    )
    return {
        "value": float(values[0]),
        "examples": [float(low), float(high)],
        "error": variance**0.5,
        "freedom": variance**2 / lost if lost else None,
    }


def over_sets(found: Mapping[str, Any]) -> dict[str, Any]:
    """The 95 % t interval of the strategy and its p-value."""
    value = found["value"]
    error = found["error"]
    if error == 0:
        return {"strategy": [value, value], "p": 1.0}
    freedom = found["freedom"] or np.inf
    width = float(t.ppf(0.975, freedom)) * error
    p = float(2 * t.sf(abs(value) / error, freedom))
    return {"strategy": [value - width, value + width], "p": p}


def holm(values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values."""
    order = np.argsort(values)
    adjusted = [0.0] * len(values)
    largest = 0.0
    for number, place in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - number) * values[place]))
        adjusted[place] = largest
    return adjusted


def calibration(data: Experiment) -> Iterator[dict[str, Any]]:
    """Expected calibration error of each arm by group: ten bins of equal width, weighted by
    their rows.
    """
    for arm, p in zip(data.arms, data.p_yes, strict=True):
        errors = {}
        for number, name in enumerate(data.groups):
            here = data.group == number
            bins = np.minimum((p[here] * _BINS).astype(int), _BINS - 1)
            gaps = [
                abs((p[here] - data.label[here])[bins == b].sum()) for b in range(_BINS)
            ]
            errors[name] = float(sum(gaps) / here.sum())
        yield {"arm": arm, "calibration_error": errors}
