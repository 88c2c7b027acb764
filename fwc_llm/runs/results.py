"""Scores a run: computes answers.csv and results.json from questions and journal.

Thresholds on P(yes) are chosen by validation rows (docs/protocol.md, "A threshold").
"""

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fwc_llm.answers import PARSER, read_answer
from fwc_llm.files import is_file
from fwc_llm.models.base import Usage, is_simulation
from fwc_llm.models.client import STATED
from fwc_llm.models.recorded import Key, key_of, reply_of
from fwc_llm.runs.folder import (
    PARSED_COLUMNS,
    QUESTION_COLUMNS,
    ROW_COLUMNS,
    THRESHOLD_COLUMN,
    RunFolder,
)
from fwc_llm.runs.journal import Journal
from fwc_llm.runs.settings import FITTED
from fwc_llm.runs.unread import unread_summary
from fwc_llm.sanitize import Fields, Json, truncate
from fwc_llm.words import Words

if TYPE_CHECKING:
    from fwc_llm.runs.plan import Plan


POOL_FILE = "pool.jsonl"
NEVER = 1.000001  # a threshold that no P(yes) reaches
_MOST_REASONS = 5
_NO_REPLY = ("error", "unfinished")
# Keys of run.json and of its settings that results.json repeats.
_OF_RUN = ("task", "model", "simulated", "simulated_answers")
_OF_SETTINGS = ("api", "n_test", "base_parity", "seed", "repeats")


def write_questions(folder: RunFolder, plan: "Plan") -> None:
    """Write questions.jsonl, to which `score` joins replies; pool.jsonl for a threshold."""
    folder.write_questions(list(plan.questions()))
    if plan.n_threshold_calls:
        folder.write_questions(list(plan.questions(validation=True)), POOL_FILE)


class _Last(NamedTuple):
    """The last reply to a question: `PARSED_COLUMNS`, further fields of its record."""

    cells: tuple[Any, ...] = ("", "error", None, "")
    error: str = ""
    model: str = ""
    truncated: bool = False
    contradicts: bool = False


class Replies:
    """The last reply to each question in a journal; `read_answer` explains the arguments."""

    def __init__(
        self,
        journal: Journal,
        words: Words | None = None,
        greedy: bool = False,
        stated: bool = False,
    ) -> None:
        words = words or journal.words
        stated = stated or journal.stated
        self.simulated = False
        self._last: dict[Key, _Last] = {}
        for record in journal.records():
            error, model = (
                sys.intern(str(record.get(name) or "")) for name in ("error", "model")
            )
            reading = read_answer(reply_of(record), words, greedy, stated)
            if reading.p_yes is None:
                p_yes = None
            else:
                p_yes = float(reading.p_yes)
            text = sys.intern(truncate(record["text"] or ""))
            cells = reading.answer.value or "", reading.answer.reason, p_yes, text
            last = _Last(
                cells, error, model, bool(record.get("truncated")), reading.contradicts
            )
            self._last[key_of(record)] = last
            self.simulated |= is_simulation(model, record.get("fingerprint"))
        self.models = sorted({last.model for last in self._last.values()} - {""})
        self.truncated = sum(last.truncated for last in self._last.values())
        self.contradicting = sum(last.contradicts for last in self._last.values())

    def row(self, question: Fields) -> Json:
        """The question with its parsed reply, as a line of answers.csv."""
        cells_asked = {
            name: question[name]
            for name in (*QUESTION_COLUMNS, *ROW_COLUMNS)
            if name in question
        }
        cells = self._last.get(key_of(question), _Last()).cells
        return cells_asked | dict(zip(PARSED_COLUMNS, cells, strict=True))

    def error(self, question: Fields) -> str:
        """The reason why the question has no reply; "" if unknown."""
        return self._last.get(key_of(question), _Last()).error


def score(folder: RunFolder, journal: Journal, stopped: str | None = None) -> Json:
    """Parse all replies; write answers.csv and results.json; return the latter.

    After another version of the parser, the returned value has `reparsed`: by arm, the number of
    answers that this version parses differently.
    """
    journal.check_in_place()
    folder.unseal()
    described = folder.describe()
    parameters = described.get("parameters") or {}
    greedy = parameters.get("temperature") == 0
    settings = described["settings"]
    stated = settings.get("answer_format") == STATED
    replies = Replies(journal, described.get("words"), greedy, stated)
    described.setdefault("simulated_answers", described["simulated"])
    if replies.simulated and not described["simulated_answers"]:
        described = folder.change(simulated=True, simulated_answers=True)
    simulated = {"simulated": "true" if described["simulated"] else "false"}
    rule = settings["threshold"]
    rows = [replies.row(question) | simulated for question in folder.read_questions()]
    reparsed = Counter[str]()
    if described.get("parser", 1) != PARSER and is_file(folder.path / "answers.csv"):
        before = {key_of(row): row["answer"] for row in folder.read_answers()}
        reparsed.update(
            row["arm"]
            for row in rows
            if before.get(key_of(row), row["answer"]) != row["answer"]
        )
    if described.get("parser") != PARSER:
        folder.change(parser=PARSER)
    validation = list[Json]()
    chosen = dict[tuple[str, int], Json]()
    if rule is not None:
        if rule in FITTED:
            validation = [
                replies.row(question) for question in folder.read_questions(POOL_FILE)
            ]
        chosen = choose_thresholds(
            rule, validation, dict.fromkeys(map(_arm_and_repeat, rows))
        )
        for row in rows:
            row[THRESHOLD_COLUMN] = at_threshold(
                row, chosen[_arm_and_repeat(row)]["threshold"]
            )
    folder.write_answers(rows)
    by_arm: dict[str, list[Json]] = {}
    for row in rows:
        by_arm.setdefault(row["arm"], []).append(row)
    unanswered = [row for row in rows if row["reason"] in _NO_REPLY]
    reasons = Counter(filter(None, map(replies.error, unanswered)))

    unread = unread_summary(rows, parameters, stated)
    unknown = journal.unknown + journal.unknown_batch
    data = {
        "format": "fwc-llm-results/2",
        **{name: described[name] for name in _OF_RUN},
        "reference": described.get("reference", False),
        **{name: settings[name] for name in _OF_SETTINGS},
        "returned_models": replies.models,
        "rows": described.get("rows"),
        "requests": len(rows),
        "unanswered": len(unanswered),
        "no_reply": [
            {"reason": why, "requests": n}
            for why, n in reasons.most_common(_MOST_REASONS)
        ],
        "stopped": stopped,
        "usage": asdict(journal.usage),
        "batch_usage": asdict(journal.batch_usage),
    }
    further = {
        "local": described.get("local"),
        "samples": settings["samples"] if settings["samples"] > 1 else None,
        "truncated": replies.truncated,
        "p_yes": "stated" if stated else None,
        "p_yes_contradicts": replies.contradicting,
        "unread": unread,
        "unknown_usage": asdict(unknown) if unknown != Usage() else None,
    }
    data |= {name: value for name, value in further.items() if value}
    if rule is not None:
        data |= {
            "threshold": rule,
            "pool_requests": len(validation),
            "pool_unanswered": sum(row["reason"] in _NO_REPLY for row in validation),
            "thresholds": [
                _thresholds(name, of_arm, chosen) for name, of_arm in by_arm.items()
            ],
        }
    folder.write_json("results.json", data)
    return data | ({"reparsed": reparsed} if reparsed else {})


def _arm_and_repeat(row: Fields) -> tuple[str, int]:
    return row["arm"], int(row["repeat"])


def _thresholds(
    arm: str, rows: Sequence[Fields], chosen: Mapping[tuple[str, int], Fields]
) -> Json:
    """An arm's thresholds by repeat, test rows exactly at them, and rows without P(yes)."""
    per_repeat = [selection for (name, _), selection in chosen.items() if name == arm]
    thresholds = {
        selection["repeat"]: selection["threshold"] for selection in per_repeat
    }
    plain = [row for row in rows if not row["variant"]]
    with_p = [row for row in plain if row["p_yes"] is not None]
    return {
        "arm": arm,
        "threshold": None
        if None in thresholds.values()
        else fmean(thresholds.values()),
        "per_repeat": per_repeat,
        "ties": sum(row["p_yes"] == thresholds[int(row["repeat"])] for row in with_p),
        "unknown": sum(
            row["p_yes"] is None and row["reason"] not in _NO_REPLY for row in plain
        ),
    }


def choose_thresholds(
    rule: float | str, rows: Iterable[Fields], keys: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], Json]:
    """The threshold of every (arm, repeat) in `keys`, None if no row has a P(yes)."""
    if rule not in FITTED:
        return {key: {"repeat": key[1], "threshold": float(rule)} for key in keys}
    by_key = defaultdict[tuple[str, int], list[Fields]](list)
    for row in rows:
        by_key[str(row["arm"]), int(row["repeat"])].append(row)
    return {key: {"repeat": key[1], **_chosen(rule, by_key[key])} for key in keys}


def _chosen(rule: float | str, rows: Sequence[Fields]) -> Json:
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


def at_threshold(row: Fields, threshold: float | None) -> str:
    """Yes if P(yes) is at least the threshold, else no; "" if either is None."""
    if threshold is None or row["p_yes"] is None:
        return ""
    return "yes" if row["p_yes"] >= threshold else "no"
