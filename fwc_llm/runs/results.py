"""From a run's journal to its numbers: answers.csv and results.json."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from fwc_llm.answers import parse_answer, probability
from fwc_llm.errors import FwcError
from fwc_llm.metrics.counts import METRICS
from fwc_llm.models.base import Reply
from fwc_llm.runs.folder import QUESTION_COLUMNS, THRESHOLD, THRESHOLD_COLUMN, RunFolder
from fwc_llm.runs.journal import Journal, Replies
from fwc_llm.runs.settings import FITTED
from fwc_llm.runs.threshold_selection import FILE_NAME as POOL_FILE
from fwc_llm.runs.threshold_selection import Marks, answered_at, choose_thresholds
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
        folder.write_questions(questions(plan, held=True), plan.n_threshold_calls, POOL_FILE)


def score(folder: RunFolder, journal: Journal, stopped: str | None = None) -> dict[str, Any]:
    """Parse every reply of the journal, write answers.csv and results.json; return the latter's content.

    No request is made. `stopped` says why the run ended before its last request, when it did.
    """
    journal.check_in_place()
    described = folder.describe()
    replies = Replies(journal)
    if replies.simulated and not described.get("simulated_answers", described["simulated"]):
        described = folder.mark_simulated()
    simulated = {"simulated": "true" if described["simulated"] else "false"}
    rule = described["settings"]["threshold"]
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

    def arm(name: str) -> dict[str, Any]:
        found = given.metrics(name)
        if rule is not None:
            found["threshold"] = marks.describe(name, rule) | {"answers": moved.metrics(name)}
        return found | wordings(replies.others.get(name, ()))

    folder.write_answers(rows(), () if rule is None else (THRESHOLD_COLUMN,))
    settings = described["settings"]
    data = {
        "format": "fwc-llm-results/1",
        "task": described["task"],
        "model": described["model"],
        "api": settings["api"],
        "simulated": described["simulated"],
        "simulated_answers": described.get("simulated_answers", described["simulated"]),
        "reference": described.get("reference", False),
        **({"local": True} if described.get("local") else {}),
        **{name: settings[name] for name in ("n_test", "base_parity", "seed", "repeats")},
        **({"samples": settings["samples"]} if settings["samples"] != 1 else {}),
        "returned_models": replies.models,
        "rows": described.get("rows"),
        **({"untrue": described["untrue"]} if described.get("untrue") else {}),
        "requests": counts["requests"],
        "unanswered": counts["unanswered"],
        "no_reply": [{"reason": why, "requests": n} for why, n in reasons.most_common(_MOST_REASONS)],
        "stopped": stopped,
        "usage": asdict(journal.usage),
        "batch_usage": asdict(journal.batch_usage),
    }
    if rule is not None:
        missing = sum(row["reason"] == "error" for row in held)
        data |= {"threshold": rule, "pool_requests": len(held), "pool_unanswered": missing}
    data["arms"] = [arm(name) for name in described["arms"]]
    folder.write_json("results.json", data)
    return data


def questions(plan: "Plan", held: bool = False) -> Iterator[dict[str, Any]]:
    """Every question of the run in the order of its calls; `held`: those about rows of the pool."""
    from fwc_llm.runs.plan import rows_of

    for repeat in plan.repeats:
        rows = repeat.rows(held)
        groups, labels = plan.task.sensitive(rows), plan.task.labels(rows)
        for arm in plan.arms:
            for position, (row, values) in enumerate(rows_of(rows)):
                label = "yes" if labels[position] else "no"
                for variant in [THRESHOLD] if held else (variant for variant, _ in plan.variants(values)):
                    found = arm.name, repeat.index, row, variant, groups[position], label
                    yield dict(zip(QUESTION_COLUMNS, found, strict=True))


def _answered(question: Mapping[str, Any], record: Mapping[str, Any] | None) -> dict[str, Any]:
    row = {name: question[name] for name in QUESTION_COLUMNS}
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


_VALUES = {"yes": 1.0, "no": 0.0, "": math.nan}

_Kind = tuple[int, str, str, str, str]  # repeat, group, label, answer, reason


class Tally:
    """How many answers to rows as they are each arm has of every kind."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[_Kind]] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one row, a line of answers.csv or what has its `arm` to `reason`."""
        counts = self._counts.setdefault(row["arm"], Counter())
        if not row["variant"]:
            counts[int(row["repeat"]), row["group"], row["label"], row["answer"], row["reason"]] += 1

    def metrics(self, arm: str) -> dict[str, Any]:
        """The arm's metrics: the mean over repeats, the standard deviation, and each repeat."""
        counts = self._counts.get(arm, Counter())
        if not counts:
            raise FwcError(
                f"run.json names the arm {arm!r}, about which no question was asked: restore run.json"
            )
        by_repeat: dict[int, Counter[_Kind]] = {}
        sizes: Counter[str] = Counter()
        unparsed: Counter[str] = Counter()
        for kind, n in counts.items():
            by_repeat.setdefault(kind[0], Counter())[kind] = n
            sizes[kind[1]] += n
            if kind[4]:
                unparsed[kind[4]] += n
        measured = [_metrics(by_repeat[repeat]) for repeat in sorted(by_repeat)]
        found: dict[str, Any] = {"arm": arm, "n": counts.total(), "per_repeat": [{} for _ in measured]}
        for metric in ("coverage", *METRICS):
            values = [getattr(metrics, metric) for metrics in measured]
            found[metric] = _null(fmean(values))
            found[f"{metric}_sd"] = _null(_spread(values))
            for each, value in zip(found["per_repeat"], values, strict=True):
                each[metric] = _null(value)
        groups = dict.fromkeys(group for metrics in measured for group in metrics.rates)

        def mean(name: str) -> dict[str, float | None]:
            """The mean over repeats, of which one may lack a group."""
            values = [getattr(metrics, name) for metrics in measured]
            return {group: _null(fmean(each.get(group, math.nan) for each in values)) for group in groups}

        return found | {
            "rates": mean("rates"),
            "sizes": {group: sizes[group] for group in groups},
            "coverage_by_group": mean("coverage_by_group"),
            "unparsed": dict(unparsed),
            "undefined": {metric: why for metrics in measured for metric, why in metrics.reasons.items()},
        }


def arm_metrics(name: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The metrics of an arm whose answers these rows are; see `Tally`."""
    tally = Tally()
    for row in rows:
        tally.add({**row, "arm": name})
    return tally.metrics(name)


def _metrics(counts: "Counter[_Kind]") -> "GroupMetrics":
    from fwc_llm.metrics import group_metrics

    kinds = list(counts)
    return group_metrics(
        [_VALUES[answer] for *_, answer, _ in kinds],
        [int(label == "yes") for _, _, label, *_ in kinds],
        [group for _, group, *_ in kinds],
        weights=list(counts.values()),
    )


def _spread(values: list[float]) -> float:
    """The standard deviation; NaN for a single value, and where one is undefined (as the mean then is)."""
    return stdev(values) if len(values) > 1 and not any(map(math.isnan, values)) else math.nan


def _null(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else float(value)


Asked = Sequence[tuple[float | None, Mapping[str, float | None]]]  # P(yes) of a question and of the others


def wordings(asked: Asked) -> dict[str, Any]:
    """An arm's contradictions by the name of the other question, as `wordings`; empty where there is none."""
    if not asked:
        return {}
    from fwc_llm.metrics.probability_checks import OPPOSITE, contradictions

    names = dict.fromkeys(name for _, others in asked for name in others)
    first, *each = (
        [math.nan if p is None else p for p in column]
        for column in ([p for p, _ in asked], *([others.get(name) for _, others in asked] for name in names))
    )
    found = zip(names, each, strict=True)
    return {"wordings": {name: contradictions(first, p, name.startswith(OPPOSITE)) for name, p in found}}
