"""From a run's journal to its numbers: answers.csv and results.json."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from fwc_llm.answers import parse_answer, probability
from fwc_llm.metrics.cells import METRICS
from fwc_llm.models.base import Reply
from fwc_llm.runs.folder import THRESHOLD, THRESHOLD_COLUMN, RunFolder
from fwc_llm.runs.journal import Journal
from fwc_llm.runs.settings import FITTED
from fwc_llm.runs.thresholds import FILE_NAME as POOL_FILE
from fwc_llm.runs.thresholds import answered_at, at_threshold, choose_thresholds, describe_arm
from fwc_llm.runs.wordings import wordings
from fwc_llm.untrusted import shortened

if TYPE_CHECKING:
    from fwc_llm.metrics import GroupMetrics
    from fwc_llm.runs.plan import Plan

_MOST_REASONS = 5
_REPLY_FIELDS = ("text", "finish_reason", "error", "refusal", "logprobs", "p_yes")


def write_questions(folder: RunFolder, plan: "Plan") -> None:
    """Write questions.jsonl with every question of the run: what `score` joins the replies to.

    Those about rows of the pool, which choose a threshold, go into pool.jsonl.
    """
    folder.write_questions(questions(plan), plan.n_questions)
    if plan.n_threshold_calls:
        folder.write_questions(held_questions(plan), plan.n_threshold_calls, POOL_FILE)


def score(folder: RunFolder, journal: Journal, stopped: str | None = None) -> dict[str, Any]:
    """Parse every reply of the journal, write answers.csv and results.json; return the latter's content.

    No request is made. `stopped` says why the run ended before its last request, when it did.
    """
    journal.check_in_place()
    described = folder.describe()
    kept = (*_REPLY_FIELDS, "model", "others")  # a long run's raw responses stay on disk
    replies = {_key(record): {name: record.get(name) for name in kept} for record in journal.records()}
    simulated = {"simulated": "true" if described["simulated"] else "false"}
    rows = [
        _answered(question, replies.get(_key(question))) | simulated for question in folder.read_questions()
    ]
    rule = described["settings"].get("threshold")
    chosen: Mapping[tuple[str, int], dict[str, Any]] = {}
    held: list[dict[str, Any]] = []
    if rule is not None:
        asked = folder.read_questions(POOL_FILE) if rule in FITTED else ()
        held = [_answered(one, replies.get(_key(one))) for one in asked]
        keys = list(dict.fromkeys((row["arm"], int(row["repeat"])) for row in rows))
        chosen = choose_thresholds(rule, held, keys)
        for row in rows:
            value = chosen[row["arm"], int(row["repeat"])]["threshold"]
            row[THRESHOLD_COLUMN] = at_threshold(row, value)
    folder.write_answers(rows, () if rule is None else (THRESHOLD_COLUMN,))
    data = {
        "format": "fwc-llm-results/1",
        "task": described["task"],
        "model": described["model"],
        "api": described["settings"].get("api", "chat"),
        "simulated": described["simulated"],
        "simulated_answers": described.get("simulated_answers", described["simulated"]),
        "reference": described.get("reference", False),
        **({"local": True} if described.get("local") else {}),
        **{name: described["settings"][name] for name in ("n_test", "base_parity", "seed", "repeats")},
        **({"samples": described["settings"]["samples"]} if "samples" in described["settings"] else {}),
        "returned_models": sorted({str(r["model"]) for r in replies.values() if r.get("model")}),
        "rows": described.get("rows"),
        **({"untrue": described["untrue"]} if described.get("untrue") else {}),
        "requests": len(rows),
        "unanswered": sum(row["reason"] == "error" for row in rows),
        "no_reply": _why_no_reply(rows, replies),
        "stopped": stopped,
        "usage": asdict(journal.usage),
        "batch_usage": asdict(journal.batch_usage),
        **({} if rule is None else {"threshold": rule, "pool_requests": len(held)}),
        **({} if rule is None else {"pool_unanswered": sum(row["reason"] == "error" for row in held)}),
        "arms": [
            arm_metrics(name, own) | _by_threshold(name, own, rule, chosen) | wordings(name, replies)
            for name, own in ((n, [row for row in rows if row["arm"] == n]) for n in described["arms"])
        ],
    }
    folder.write_json("results.json", data)
    return data


def _by_threshold(
    arm: str,
    rows: list[dict[str, Any]],
    rule: float | str | None,
    chosen: Mapping[tuple[str, int], dict[str, Any]],
) -> dict[str, Any]:
    """The arm's threshold, and its metrics by the answers at the threshold; empty without one."""
    if rule is None:
        return {}
    found = [one for (name, _), one in chosen.items() if name == arm]
    metrics = arm_metrics(arm, answered_at(rows))
    return {"threshold": {**describe_arm(rule, rows, found), "answers": metrics}}


def held_questions(plan: "Plan") -> Iterator[dict[str, Any]]:
    """The questions about rows of the pool, in the order of their calls."""
    for repeat in plan.repeats:
        if repeat.held is None:
            continue
        groups, labels = plan.task.sensitive(repeat.held), plan.task.labels(repeat.held)
        for arm in plan.arms:
            for row, group, label in zip(repeat.held.index.astype(str), groups, labels, strict=True):
                yield {
                    "arm": arm.name,
                    "repeat": repeat.index,
                    "row": row,
                    "variant": THRESHOLD,
                    "group": group,
                    "label": "yes" if label else "no",
                }


def questions(plan: "Plan") -> Iterator[dict[str, Any]]:
    """Every question of the run, in the order of its calls."""
    from fwc_llm.runs.plan import rows_of

    task = plan.task
    for repeat in plan.repeats:
        rows = repeat.split.test
        groups, labels = task.sensitive(rows), task.labels(rows)
        for arm in plan.arms:
            for position, (row, values) in enumerate(rows_of(rows)):
                for variant, _ in plan.variants(values):
                    yield {
                        "arm": arm.name,
                        "repeat": repeat.index,
                        "row": row,
                        "variant": variant,
                        "group": groups[position],
                        "label": "yes" if labels[position] else "no",
                    }


def _key(row: Mapping[str, Any]) -> tuple[str, int, str, str]:
    return row.get("arm", ""), int(row.get("repeat") or 0), row.get("row", ""), row.get("variant", "")


def _why_no_reply(
    rows: list[dict[str, Any]], replies: Mapping[Any, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The most frequent reasons for which requests have no reply, each with its number."""
    errors = (replies.get(_key(row), {}).get("error") for row in rows if row["reason"] == "error")
    counts = Counter(str(error) for error in errors if error)
    return [{"reason": reason, "requests": n} for reason, n in counts.most_common(_MOST_REASONS)]


def _answered(question: Mapping[str, Any], record: Mapping[str, Any] | None) -> dict[str, Any]:
    row = {name: question[name] for name in ("arm", "repeat", "row", "variant", "group", "label")}
    if record is None or record["text"] is None:
        return {**row, "answer": "", "reason": "error", "p_yes": "", "reply": ""}
    fields = {name: record[name] for name in _REPLY_FIELDS if record[name] is not None}
    pairs = ((token, value) for token, value in record["logprobs"] or () if value is not None)
    fields["logprobs"] = tuple(pairs) or None
    reply = Reply(**fields)
    answer = parse_answer(reply)
    p_yes = probability(reply)
    return {
        **row,
        "answer": answer.value or "",
        "reason": answer.reason,
        "p_yes": "" if p_yes is None else repr(float(p_yes)),
        "reply": shortened(record["text"]),
    }


def arm_metrics(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The arm's metrics: the mean over repeats, the standard deviation, and each repeat.

    `rows` hold `repeat`, `variant`, `group`, `label`, `answer` ("yes", "no" or "") and `reason`.
    """
    factual = [row for row in rows if not row["variant"]]
    repeats = sorted({int(row["repeat"]) for row in factual})
    measured = [_metrics([row for row in factual if int(row["repeat"]) == repeat]) for repeat in repeats]
    arm: dict[str, Any] = {"arm": name, "n": sum(metrics.n for metrics in measured)}
    for metric in ("coverage", *METRICS):
        values = [getattr(metrics, metric) for metrics in measured]
        arm[metric] = _null(fmean(values))
        arm[f"{metric}_sd"] = _null(_spread(values))
        arm.setdefault("per_repeat", [{} for _ in values])
        for each, value in zip(arm["per_repeat"], values, strict=True):
            each[metric] = _null(value)
    groups = dict.fromkeys(group for metrics in measured for group in metrics.rates)  # a repeat may lack one
    arm["rates"] = {
        group: _null(fmean(metrics.rates.get(group, math.nan) for metrics in measured)) for group in groups
    }
    arm["sizes"] = {group: sum(metrics.sizes.get(group, 0) for metrics in measured) for group in groups}
    arm["coverage_by_group"] = {
        group: _null(fmean(metrics.coverage_by_group.get(group, math.nan) for metrics in measured))
        for group in groups
    }
    arm["unparsed"] = dict(Counter(row["reason"] for row in factual if row["reason"]))
    arm["undefined"] = {metric: why for metrics in measured for metric, why in metrics.reasons.items()}
    return arm


def _metrics(rows: list[dict[str, Any]]) -> "GroupMetrics":
    import numpy as np

    from fwc_llm.metrics import group_metrics

    value = {"yes": 1.0, "no": 0.0, "": math.nan}
    return group_metrics(
        np.array([value[row["answer"]] for row in rows]),
        np.array([row["label"] == "yes" for row in rows], dtype=np.int8),
        np.array([row["group"] for row in rows]),
    )


def _spread(values: list[float]) -> float:
    """The standard deviation; NaN for a single value, and where one is undefined (as the mean then is)."""
    if len(values) < 2 or any(map(math.isnan, values)):
        return math.nan
    return stdev(values)


def _null(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else float(value)
