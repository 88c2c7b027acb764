"""The choice of a threshold: rows of the pool, replies about them, and answers by it.

See docs/protocol.md, "A threshold". P(yes) is taken with the digits of answers.csv, so that whoever reads
that file finds the same answers.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.models import Client, Model, traits
from fwc_llm.runs.journal import Call, Journal, call_id, parameters_json
from fwc_llm.runs.row_matching import row_values
from fwc_llm.runs.settings import FITTED, Settings
from fwc_llm.runs.splits import Split, cell_counts, hold_out, nearest_whole, whole_step

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.tasks import Task


_MOST, _LEAST = 200, 20  # rows, where nobody says how many


def hold(
    task: "Task", split: Split, settings: Settings, seed: int, examples: Sequence[Mapping[str, Any]]
) -> "tuple[pd.DataFrame | None, Split]":
    """The held rows of one repeat, drawn like its test rows, and the split without them as examples.

    None, and the split as it is, for a threshold that takes no rows. No held row equals a test row or one of
    the `examples` that are given. Unless their number is set, at least half of the pool's rows of every cell
    remain for examples.

    Errors: `FwcError` for a pool with too few rows.
    """
    if settings.threshold not in FITTED:
        return None, split
    free = split
    if examples:
        taken = set(row_values(task, examples))
        others = [key not in taken for key in row_values(task, split.pool)]
        free = replace(split, candidates=split.candidates & others)
    rows = settings.threshold_rows or _default_rows(task, free, settings)
    try:
        held, left = hold_out(task, free, rows, settings.base_parity, seed)
    except FwcError as error:
        raise FwcError(f"the rows of the pool for --threshold (--threshold-rows): {error}") from None
    return held, replace(left, candidates=left.candidates | (split.candidates & ~free.candidates))


def _default_rows(task: "Task", split: Split, settings: Settings) -> int:
    """As many rows as are tested, at most 200, and at most half of what any cell has."""
    most, parity = min(settings.n_test, _MOST), settings.base_parity
    if parity is None:
        return max(min(most, int(split.candidates.sum()) // 2), 2)
    groups, labels = task.sensitive(split.pool), task.labels(split.pool)
    step = whole_step(task.groups, parity)
    n = nearest_whole(task.groups, most, parity)
    while n - step >= _LEAST and any(
        2 * count > (split.candidates & (groups == group) & (labels == (answer == "yes"))).sum()
        for (group, answer), count in cell_counts(task.groups, n, parity).items()
    ):
        n -= step
    return n


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
    value, half, gap = float(curve.thresholds[place]), curve.place(0.5), float(curve.gap[place])
    return found | {
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


TRIED = 8  # questions after which a model that gives no P(yes) is known


def with_logprobs(model: object, settings: Settings, client: Client) -> tuple[Client, str]:
    """The client with log-probabilities where a threshold needs them, and what to say of that."""
    needed = settings.threshold is not None and settings.api == "chat" and isinstance(model, str)
    if not needed or client.logprobs:
        return client, ""
    said = f"--threshold {settings.threshold} needs P(yes): --logprobs is switched on"
    return client.updated(logprobs=True), said


def needs_trial(settings: Settings, model: Model, client: Client) -> bool:
    """Whether a few questions come first: not for decision models, and not in batches, which take hours."""
    return settings.threshold is not None and traits(model).api == "chat" and not client.batch


def check_probability(model: Model, calls: Sequence[Call], journal: Journal) -> None:
    """Refuse with `ProviderError` a model whose replies to these calls are there and have no P(yes)."""
    parameters = parameters_json(model)
    tried = {call_id(parameters, call) for call in calls}
    said = [
        record.get("p_yes")
        for record in journal.records()
        if record["request"] in tried and record["text"] is not None
    ]
    if said and all(p is None for p in said):
        raise ProviderError(
            f"{model.name} gives no P(yes), which --threshold needs (the first {len(said)} replies have "
            "none): leave --threshold out, or ask a model that gives log-probabilities (--logprobs)"
        )
