"""From replies about held rows to a threshold, and from a threshold to answers.

See docs/protocol.md, "A threshold".

P(yes) is taken with the six digits of answers.csv, so that whoever reads that file finds the same answers.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fwc_llm.runs.settings import FITTED

if TYPE_CHECKING:
    from fwc_llm.metrics.thresholds import Curve

FILE_NAME = "pool.jsonl"
NEVER = 1.000001  # the threshold that no P(yes) reaches
UNKNOWN = "no P(yes)"

Row = Mapping[str, Any]  # a line of answers.csv


def choose_thresholds(
    rule: float | str, held: Sequence[Row], keys: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], dict[str, Any]]:
    """The threshold of every arm and repeat in `keys`, with how it was found.

    A `rule` that is a number is the threshold. "fit" takes the most accurate threshold on the `held` rows, of
    equal ones that of the least gap, then the nearest to one half; "base-rate" the one whose rate of yes is
    nearest to the share of label yes among these rows, of equal ones the most accurate. `threshold` is None
    where no held row has a P(yes).
    """
    if rule not in FITTED:
        return {key: {"repeat": key[1], "threshold": float(rule)} for key in keys}
    by_key: dict[tuple[str, int], list[Row]] = {key: [] for key in keys}
    for row in held:
        by_key.setdefault((str(row["arm"]), int(row["repeat"])), []).append(row)
    return {key: {"repeat": key[1], **_chosen(str(rule), rows)} for key, rows in by_key.items()}


def _chosen(rule: str, rows: Sequence[Row]) -> dict[str, Any]:
    from fwc_llm.metrics.thresholds import at_base_rate, most_accurate, threshold_curve

    known = [row for row in rows if row["p_yes"] != ""]
    found: dict[str, Any] = {"threshold": None, "rows": len(rows), "known": len(known)}
    if not known:
        return found
    curve = threshold_curve(
        [float(row["p_yes"]) for row in known],
        [int(row["label"] == "yes") for row in known],
        [row["group"] for row in known],
    )
    place = most_accurate(curve) if rule == "fit" else at_base_rate(curve)
    return found | _of_held(curve, place)


def _of_held(curve: "Curve", place: int) -> dict[str, Any]:
    """What a threshold does on the rows that it was chosen on."""
    value, half, gap = float(curve.thresholds[place]), curve.place(0.5), float(curve.gap[place])
    return {
        "threshold": min(value, NEVER),
        "accuracy": float(curve.accuracy[place]),
        "accuracy_at_half": float(curve.accuracy[half]),
        "demographic_parity_difference": None if math.isnan(gap) else gap,
        "share_of_yes": float(curve.share[place]),
        "base_rate": curve.base_rate,
        "ties": int(curve.ties[place]),
    }


def at_threshold(row: Row, threshold: float | None) -> str:
    """The answer by P(yes): yes from the threshold up; empty where either is not known."""
    if threshold is None or row["p_yes"] == "":
        return ""
    return "yes" if float(row["p_yes"]) >= threshold else "no"


class Marks:
    """Answers to test rows by the thresholds `chosen` for each arm and repeat, one after the other."""

    def __init__(self, chosen: Mapping[tuple[str, int], dict[str, Any]]) -> None:
        self._chosen = chosen
        self._ties: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()

    def answer(self, row: Row) -> str:
        """The row's answer at its threshold, counted where it is a row as it is."""
        value = self._chosen[row["arm"], int(row["repeat"])]["threshold"]
        if not row["variant"]:
            self._ties[row["arm"]] += row["p_yes"] != "" and float(row["p_yes"]) == value
            self._unknown[row["arm"]] += row["p_yes"] == "" and row["reason"] != "error"
        return at_threshold(row, value)

    def describe(self, arm: str, rule: float | str) -> dict[str, Any]:
        """What results.json says of an arm's threshold, once all its rows were answered.

        `ties` are test rows exactly at the threshold, `unknown` those that were answered without a P(yes).
        """
        found = [one for (name, _), one in self._chosen.items() if name == arm]
        thresholds = [one["threshold"] for one in found if one["threshold"] is not None]
        return {
            "rule": rule,
            "threshold": fmean(thresholds) if len(thresholds) == len(found) else None,
            "per_repeat": found,
            "ties": self._ties[arm],
            "unknown": self._unknown[arm],
        }


def answered_at(row: Row) -> dict[str, Any]:
    """The row with the answer at the threshold in the place of the answer that was given."""
    answer = row["threshold_answer"]
    return {**row, "answer": answer, "reason": "" if answer else row["reason"] or UNKNOWN}
