"""From a run's journal to its numbers: answers.csv and results.json."""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.metrics.counts import COUNTED, METRICS, count_cells, measure, undefined_reasons
from fwc_llm.models.base import SIMULATED, Reply
from fwc_llm.runs.folder import (
    PARSED_COLUMNS,
    QUESTION_COLUMNS,
    ROW_COLUMNS,
    THRESHOLD,
    THRESHOLD_COLUMN,
    RunFolder,
)
from fwc_llm.runs.joint import ROWS, split_record
from fwc_llm.runs.journal import Journal, Key, key_of, parsed
from fwc_llm.runs.settings import FITTED
from fwc_llm.runs.threshold_selection import FILE_NAME as POOL_FILE
from fwc_llm.runs.threshold_selection import at_threshold, choose_thresholds
from fwc_llm.untrusted import shortened

if TYPE_CHECKING:
    from fwc_llm.runs.plan import Plan


_MOST_REASONS = 5
_UNKNOWN = "no P(yes)"
_REPLY_FIELDS = ("text", "finish_reason", "error", "refusal", "logprobs", "p_yes")


def write_questions(folder: RunFolder, plan: "Plan") -> None:
    """Write questions.jsonl with every question of the run: what `score` joins the replies to.

    Those about rows of the pool, which choose a threshold, go into pool.jsonl.
    """
    further = [name for name in ROW_COLUMNS if plan.row_columns[name]]
    folder.write_questions(questions(plan), plan.n_questions, further=further)
    if plan.n_threshold_calls:
        folder.write_questions(questions(plan, validation=True), plan.n_threshold_calls, POOL_FILE)


def questions(plan: "Plan", validation: bool = False) -> Iterator[dict[str, Any]]:
    """Every question of the run in the order of its calls; `validation`: those about rows of the pool."""
    from fwc_llm.runs.plan import rows_of

    for repeat in plan.repeats:
        rows = repeat.rows(validation)
        groups, labels = plan.task.sensitive(rows), plan.task.labels(rows)
        columns = {name: rows[column].astype(str) for name, column in plan.row_columns.items() if column}
        numbers = plan.requests(repeat)
        further = [{name: cells.iloc[at] for name, cells in columns.items()} for at in range(len(rows))]
        for arm in plan.arms:
            for position, (row, values) in enumerate(rows_of(rows)):
                label = "yes" if labels[position] else "no"
                variants = [THRESHOLD] if validation else [name for name, _ in plan.variants(row, values)]
                if not validation and row in numbers:
                    variants.append(f"{ROWS}{numbers[row]}")
                for variant in variants:
                    cells = arm.name, repeat.index, row, variant, groups[position], label
                    yield dict(zip(QUESTION_COLUMNS, cells, strict=True)) | further[position]


class Replies:
    """The last reply to each question in a journal, parsed.

    `models` are the names that services returned, `others` by arm the answers to the same question in other
    words: the P(yes) of the first, and those of the others by name. `simulated` says that a reply carries the
    mark of a simulation; `truncated` counts replies to inputs that the service cut off, as it says itself.
    """

    def __init__(self, journal: Journal) -> None:
        self.simulated = False
        # By question: the columns from `answer` to `reply`, the error, the model, whether it was truncated.
        self._last: dict[Key, tuple[tuple[str, ...], str, str, bool]] = {}
        others: dict[Key, tuple[float | None, Mapping[str, float | None]]] = {}
        for record in (each for whole in journal.records() for each in split_record(whole)):
            key = key_of(record)
            error, model = (sys.intern(str(record.get(name) or "")) for name in ("error", "model"))
            self._last[key] = _parsed(record), error, model, bool(record.get("truncated"))
            self.simulated |= SIMULATED in str(record.get("fingerprint"))
            if not key[3]:
                others[key] = record.get("p_yes"), record.get("others") or {}
        self.models = sorted({model for _, _, model, _ in self._last.values()} - {""})
        self.truncated = sum(truncated for *_, truncated in self._last.values())
        self.others: dict[str, list[tuple[float | None, Mapping[str, float | None]]]] = {}
        for (arm, *_), pair in others.items():
            if pair[1]:
                self.others.setdefault(arm, []).append(pair)

    def row(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The question as a line of answers.csv."""
        columns = self._last.get(key_of(question), (_NO_REPLY,))[0]
        asked = {name: question[name] for name in (*QUESTION_COLUMNS, *ROW_COLUMNS) if name in question}
        return asked | dict(zip(PARSED_COLUMNS, columns, strict=True))

    def error(self, question: Mapping[str, Any]) -> str:
        """Why the question has no reply; empty where nobody knows."""
        return self._last.get(key_of(question), (_NO_REPLY, ""))[1]


_NO_REPLY = ("", "error", "", "")


def reply_of(record: Mapping[str, Any]) -> Reply:
    """Return a journal's record as the reply that it was."""
    fields = {"text": None} | {name: record[name] for name in _REPLY_FIELDS if record.get(name) is not None}
    pairs = ((token, value) for token, value in record.get("logprobs") or () if value is not None)
    return Reply(**fields | {"logprobs": tuple(pairs) or None})


def _parsed(record: Mapping[str, Any]) -> tuple[str, ...]:
    if record["text"] is None:
        return _NO_REPLY
    answer, why, p_yes = parsed(reply_of(record)).values()
    p_text = "" if p_yes is None else repr(float(p_yes))
    return answer or "", why, p_text, sys.intern(shortened(record["text"]))


def score(folder: RunFolder, journal: Journal, stopped: str | None = None) -> dict[str, Any]:
    """Parse every reply of the journal, write answers.csv and results.json; return the latter's content.

    No request is made. `stopped` says why the run ended before its last request, when it did.
    """
    journal.check_in_place()
    described = folder.describe()
    replies = Replies(journal)
    if replies.simulated and not described.get("simulated_answers", described["simulated"]):
        described = folder.change(simulated=True, simulated_answers=True)
    simulated = {"simulated": "true" if described["simulated"] else "false"}
    settings = described["settings"]
    rule = settings["threshold"]
    validation = [replies.row(each) for each in folder.read_questions(POOL_FILE)] if rule in FITTED else []
    keys = dict.fromkeys((each["arm"], int(each["repeat"])) for each in folder.read_questions())
    chosen = {} if rule is None else choose_thresholds(rule, validation, keys)
    answered, moved = Tally(), Tally()
    counts: Counter[Any] = Counter()
    reasons: Counter[str] = Counter()

    def rows() -> Iterator[dict[str, Any]]:
        """The lines of answers.csv, each counted as it is written."""
        for question in folder.read_questions():
            row = replies.row(question) | simulated
            arm = row["arm"]
            answered.add(row)
            joint = row["variant"].startswith(ROWS)
            first = not joint or (arm, row["repeat"], row["variant"]) not in counts
            counts[arm, row["repeat"], row["variant"]] += joint
            counts["requests"] += first
            if row["reason"] == "error" and first:
                counts["unanswered"] += 1
                reasons[replies.error(question)] += 1
            if rule is not None:
                threshold = chosen[arm, int(row["repeat"])]["threshold"]
                row[THRESHOLD_COLUMN] = answer = at_threshold(row, threshold)
                if not row["variant"]:
                    counts["ties", arm] += row["p_yes"] != "" and float(row["p_yes"]) == threshold
                    counts["unknown", arm] += row["p_yes"] == "" and row["reason"] != "error"
                moved.add({**row, "answer": answer, "reason": "" if answer else row["reason"] or _UNKNOWN})
            yield row

    def arm(name: str) -> dict[str, Any]:
        metrics = answered.metrics(name)
        if rule is not None:
            per_repeat = [each for (arm, _), each in chosen.items() if arm == name]
            thresholds = [each["threshold"] for each in per_repeat]
            metrics["threshold"] = {
                "rule": rule,
                "threshold": None if None in thresholds else fmean(thresholds),
                "per_repeat": per_repeat,
                "ties": counts["ties", name],
                "unknown": counts["unknown", name],
                "answers": moved.metrics(name),
            }
        return metrics | wordings(replies.others.get(name, ()))

    first = next(iter(folder.read_questions()), {})
    further = [*[THRESHOLD_COLUMN] * (rule is not None), *(name for name in ROW_COLUMNS if name in first)]
    folder.write_answers(rows(), tuple(further))
    reasons.pop("", None)
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
        **({"truncated": replies.truncated} if replies.truncated else {}),
        "no_reply": [{"reason": why, "requests": n} for why, n in reasons.most_common(_MOST_REASONS)],
        "stopped": stopped,
        "usage": asdict(journal.usage),
        "batch_usage": asdict(journal.batch_usage),
    }
    if settings.get("until_decided"):
        rows_asked = sum(each["arm"] == first["arm"] for each in folder.read_questions())
        data["until_decided"] = {"rows": rows_asked, "of": settings["n_test"]}
        data["until_decided"] |= {"ended": described["ended"]} if described.get("ended") else {}
    if rule is not None:
        missing = sum(row["reason"] == "error" for row in validation)
        data |= {"threshold": rule, "pool_requests": len(validation), "pool_unanswered": missing}
    data["arms"] = [arm(name) for name in described["arms"]]
    folder.write_json("results.json", data)
    return data


_VALUES = {"yes": 1.0, "no": 0.0, "": math.nan}

_Kind = tuple[int, str, str, str, str]  # repeat, group, label, answer, reason


class Tally:
    """How many answers to rows as they are each arm has of every kind."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[_Kind, tuple[int, float]]] = {}  # answers of a kind, and their weight

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one row, a line of answers.csv or what has its `arm` to `reason`."""
        kinds = self._kinds.setdefault(row["arm"], {})
        if not row["variant"]:
            kind = int(row["repeat"]), row["group"], row["label"], row["answer"], row["reason"]
            n, weight = kinds.get(kind, (0, 0.0))
            kinds[kind] = n + 1, weight + float(row.get("weight", 1.0))

    def metrics(self, arm: str) -> dict[str, Any]:
        """The arm's metrics: the mean over repeats, the standard deviation, and each repeat."""
        kinds = self._kinds.get(arm, {})
        if not kinds:
            raise FwcError(
                f"run.json names the arm {arm!r}, about which no question was asked: restore run.json"
            )
        sizes: Counter[str] = Counter()
        unparsed: Counter[str] = Counter()
        for (_, group, _, _, reason), (n, _) in kinds.items():
            sizes[group] += n
            unparsed[reason] += n
        del unparsed[""]
        measured = []
        for repeat in sorted({kind[0] for kind in kinds}):
            own = {kind: weight for kind, (_, weight) in kinds.items() if kind[0] == repeat}
            _, groups, labels, answers, _ = zip(*own, strict=True)
            cells = count_cells(
                [_VALUES[answer] for answer in answers],
                [int(label == "yes") for label in labels],
                groups,
                weights=list(own.values()),
            )
            measured.append((cells.groups, measure(cells.counts)))
        summary: dict[str, Any] = {"arm": arm, "n": sizes.total(), "per_repeat": [{} for _ in measured]}
        for name in ("coverage", *(metric.key for metric in COUNTED)):
            values = [float(each.values.get(name, each.coverage)[0]) for _, each in measured]
            for described, value in zip(summary["per_repeat"], values, strict=True):
                described[name] = _null(value)
            summary[name] = _null(fmean(values))
            defined = len(values) > 1 and not any(map(math.isnan, values))
            summary[f"{name}_sd"] = float(stdev(values)) if defined else None
        seen = dict.fromkeys(group for names, _ in measured for group in names)

        def mean(rate: str) -> dict[str, float | None]:
            """The mean over repeats, of which one may lack a group."""
            values = [dict(zip(names, each.rates[rate][0], strict=True)) for names, each in measured]
            return {group: _null(fmean(each.get(group, math.nan) for each in values)) for group in seen}

        reasons = (pair for names, each in measured for pair in undefined_reasons(each, names))
        return summary | {
            "rates": mean("rate"),
            "sizes": {group: sizes[group] for group in seen},
            "coverage_by_group": mean("coverage"),
            "unparsed": dict(unparsed),
            "undefined": {metric: why for metric, why in reasons if metric in METRICS},
        }


def arm_metrics(name: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The metrics of an arm whose answers these rows are; see `Tally`."""
    tally = Tally()
    for row in rows:
        tally.add({**row, "arm": name})
    return tally.metrics(name)


def _null(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else float(value)


def wordings(asked: Sequence[tuple[float | None, Mapping[str, float | None]]]) -> dict[str, Any]:
    """An arm's contradictions by the name of the other question, as `wordings`; empty where there is none.

    `asked` are the P(yes) of a question and those of the others.
    """
    if not asked:
        return {}
    from fwc_llm.metrics.probability_checks import OPPOSITE, contradictions

    first = np.array([p for p, _ in asked], dtype=float)  # None is NaN
    names = dict.fromkeys(name for _, others in asked for name in others)
    second = {name: np.array([others.get(name) for _, others in asked], dtype=float) for name in names}
    return {
        "wordings": {name: contradictions(first, p, name.startswith(OPPOSITE)) for name, p in second.items()}
    }
