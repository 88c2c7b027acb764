"""From a run's journal to its numbers: answers.csv and results.json."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fwc_llm.answers import parse_answer, probability
from fwc_llm.models.base import Reply
from fwc_llm.runs.folder import THRESHOLD, THRESHOLD_COLUMN, RunFolder
from fwc_llm.runs.journal import Journal, Replies
from fwc_llm.runs.settings import FITTED
from fwc_llm.runs.tally import Tally
from fwc_llm.runs.thresholds import FILE_NAME as POOL_FILE
from fwc_llm.runs.thresholds import Marks, answered_at, choose_thresholds
from fwc_llm.runs.wordings import wordings
from fwc_llm.untrusted import shortened

if TYPE_CHECKING:
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
    replies = Replies(journal)
    simulated = {"simulated": "true" if described["simulated"] else "false"}
    rule = described["settings"]["threshold"]
    samples = described["settings"]["samples"]
    marks, held = Marks({}), []
    if rule is not None:
        asked = folder.read_questions(POOL_FILE) if rule in FITTED else ()
        held = [_answered(one, record) for one, record in replies.of(asked)]
        keys = dict.fromkeys((one["arm"], int(one["repeat"])) for one in folder.read_questions())
        marks = Marks(choose_thresholds(rule, held, list(keys)))
    given, moved = Tally(), Tally()
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()

    def rows() -> Iterator[dict[str, Any]]:
        """The lines of answers.csv, each counted as it is written."""
        for question, record in replies.of(folder.read_questions()):
            row = _answered(question, record) | simulated
            given.add(row)
            counts["requests"] += 1
            if row["reason"] == "error":
                counts["unanswered"] += 1
                if record is not None and record.get("error"):
                    reasons[str(record["error"])] += 1
            if rule is not None:
                row[THRESHOLD_COLUMN] = marks.answer(row)
                moved.add(answered_at(row))
            yield row

    folder.write_answers(rows(), () if rule is None else (THRESHOLD_COLUMN,))
    data = {
        "format": "fwc-llm-results/1",
        "task": described["task"],
        "model": described["model"],
        "api": described["settings"]["api"],
        "simulated": described["simulated"],
        "simulated_answers": described.get("simulated_answers", described["simulated"]),
        "reference": described.get("reference", False),
        **({"local": True} if described.get("local") else {}),
        **{name: described["settings"][name] for name in ("n_test", "base_parity", "seed", "repeats")},
        **({"samples": samples} if samples != 1 else {}),
        "returned_models": replies.models,
        "rows": described.get("rows"),
        **({"untrue": described["untrue"]} if described.get("untrue") else {}),
        "requests": counts["requests"],
        "unanswered": counts["unanswered"],
        "no_reply": [{"reason": why, "requests": n} for why, n in reasons.most_common(_MOST_REASONS)],
        "stopped": stopped,
        "usage": asdict(journal.usage),
        "batch_usage": asdict(journal.batch_usage),
        **({} if rule is None else {"threshold": rule, "pool_requests": len(held)}),
        **({} if rule is None else {"pool_unanswered": sum(row["reason"] == "error" for row in held)}),
        "arms": [
            given.metrics(name)
            | (
                {}
                if rule is None
                else {"threshold": marks.describe(name, rule) | {"answers": moved.metrics(name)}}
            )
            | wordings(replies.others.get(name, ()))
            for name in described["arms"]
        ],
    }
    folder.write_json("results.json", data)
    return data


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


def _answered(question: Mapping[str, Any], record: Mapping[str, Any] | None) -> dict[str, Any]:
    row = {name: question[name] for name in ("arm", "repeat", "row", "variant", "group", "label")}
    if record is None or record["text"] is None:
        return {**row, "answer": "", "reason": "error", "p_yes": "", "reply": ""}
    fields = {name: record[name] for name in _REPLY_FIELDS if record.get(name) is not None}
    pairs = ((token, value) for token, value in record.get("logprobs") or () if value is not None)
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
