"""Chooses thresholds on P(yes) by validation rows (docs/protocol.md, "A threshold")."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.runs.settings import FITTED, Settings
from fwc_llm.runs.splits import (
    Split,
    cells_of_rows,
    equal_rows,
    hold_out,
    most_rows,
    nearest_whole,
    whole_step,
)
from fwc_llm.sanitize import Fields, Json

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.tasks import Task

FILE_NAME = "pool.jsonl"
NEVER = 1.000001  # a threshold that no P(yes) reaches
_MOST, _LEAST = 200, 20  # limits of the default number of validation rows

Row = Fields  # a line of answers.csv, with P(yes) as a number or None


def draw_validation_rows(
    task: "Task",
    split: Split,
    settings: Settings,
    seed: int,
    examples: Sequence[Fields],
) -> "tuple[pd.DataFrame, Split]":
    """A repeat's validation rows, 0 if none are needed; the split without them."""
    if settings.threshold not in FITTED:
        return split.pool.iloc[:0], split
    free = split.candidates
    if examples:
        free = free & ~equal_rows(task, split.pool, examples)
    open_split = replace(split, candidates=free)
    rows = _number_of_rows(task, open_split, settings)
    try:
        validation, left = hold_out(task, open_split, rows, settings.base_parity, seed)
    except FwcError as error:
        raise FwcError(
            f"--threshold {settings.threshold} needs rows of the pool: {error}"
        ) from None
    return validation, replace(
        left, candidates=left.candidates | (split.candidates & ~free)
    )


def _number_of_rows(task: "Task", split: Split, settings: Settings) -> int:
    """As many as test rows, at most 200, and at most half of each cell's candidates."""
    most = min(settings.n_test, _MOST)
    parity = settings.base_parity
    if parity is None:
        return max(min(most, int(split.candidates.sum()) // 2), 2)
    step = whole_step(task.groups, parity)
    least = math.ceil(_LEAST / step) * step
    cells = cells_of_rows(task, split.pool)[split.candidates]
    counts = np.bincount(cells, minlength=2 * len(task.groups)).reshape(-1, 2)
    fitting = most_rows(task.groups, counts // 2, parity)
    return min(nearest_whole(task.groups, most, parity), max(fitting, least))


def choose_thresholds(
    rule: float | str, rows: Iterable[Row], keys: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], Json]:
    """The threshold of every (arm, repeat) in `keys`, None if no row has a P(yes)."""
    if rule not in FITTED:
        return {key: {"repeat": key[1], "threshold": float(rule)} for key in keys}
    by_key = defaultdict[tuple[str, int], list[Row]](list)
    for row in rows:
        by_key[str(row["arm"]), int(row["repeat"])].append(row)
    return {key: {"repeat": key[1], **_chosen(rule, by_key[key])} for key in keys}


def _chosen(rule: float | str, rows: Sequence[Row]) -> Json:
    from fwc_llm.metrics.decision_thresholds import (
        HALF,
        at_base_rate,
        most_accurate,
        threshold_curve,
    )

    with_p = [row for row in rows if row["p_yes"] is not None]
    counts = {"threshold": None, "rows": len(rows), "known": len(with_p)}
    if not with_p:
        return counts
    p = np.array([row["p_yes"] for row in with_p])
    labels = np.array([row["label"] == "yes" for row in with_p])
    curve = threshold_curve(p, labels, [row["group"] for row in with_p])
    index = most_accurate(curve) if rule == "fit" else at_base_rate(curve)
    gap = float(curve.gap[index])
    return counts | {
        "threshold": min(float(curve.thresholds[index]), NEVER),
        "accuracy": float(curve.accuracy[index]),
        "accuracy_at_half": float(((p >= HALF) == labels).mean()),
        "dp_gap": None if math.isnan(gap) else gap,
        "share_of_yes": float(curve.share[index]),
        "base_rate": curve.base_rate,
        "ties": int(curve.ties[index]),
    }


def at_threshold(row: Row, threshold: float | None) -> str:
    """Yes if P(yes) is at least the threshold, else no; "" if either is None."""
    if threshold is None or row["p_yes"] is None:
        return ""
    return "yes" if row["p_yes"] >= threshold else "no"
