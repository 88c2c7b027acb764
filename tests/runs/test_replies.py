"""Which record of a journal answers which question."""

from pathlib import Path
from typing import Any

import pytest

from fwc_llm.errors import FwcError
from fwc_llm.runs.journal import Journal, Replies
from fwc_llm.runs.results import Tally, arm_metrics


def record(row: str, text: str | None, number: int, **others: Any) -> dict[str, Any]:
    return {"request": f"{number:032x}", "arm": "zero", "repeat": 0, "row": row, "variant": "", "text": text,
            "error": None if text else "no", **others}  # fmt: skip


def question(row: str, repeat: int = 0) -> dict[str, Any]:
    return {"arm": "zero", "repeat": repeat, "row": row, "variant": ""}


def test_the_last_record_of_a_question_counts(tmp_path: Path) -> None:
    rows = [f"rows.parquet:{k}\n ü" for k in range(4300)]  # more than are looked up at once
    with Journal(tmp_path) as journal:
        assert [found for _, found in Replies(journal).of([question("a")])] == [None]
        for number, row in enumerate(reversed(rows)):
            journal.append(record(row, None if number % 3 else f"of {row}", number, model="first"))
        for number, row in enumerate(rows[::2]):
            journal.append(record(row, f"then {row}", number, model="second"))
        journal.append(record(rows[1], None, 1, model=""))
        replies = Replies(journal)
        asked = [question(row) for row in rows] + [question(rows[0], 1), question("another")]
        found = list(replies.of(asked))
        known = {one["row"]: one["text"] for one in journal.records()}
    assert [one for one, _ in found] == asked
    assert [one and (one["row"], one["text"]) for _, one in found[:-2]] == [(row, known[row]) for row in rows]
    assert known[rows[1]] is None
    assert found[-1][1] is found[-2][1] is None
    assert replies.models == ["first", "second"]


def test_answers_in_other_words_are_those_of_the_last_record(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for row, text, others in (("a", "yes", {"not": 0.1}), ("b", "no", {"not": 0.2}), ("a", "no", {})):
            journal.append(record(row, text, 1, p_yes=0.5, others=others))
        assert Replies(journal).others == {"zero": [(0.5, {"not": 0.2})]}


def test_a_journal_that_is_damaged_is_named(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(record("a", "yes", 1))
        replies = Replies(journal)
        text = journal.path.read_bytes()
        journal.path.write_bytes(text.replace(b'"text"', b'"tixt"'))
        with pytest.raises(FwcError, match=r"journal\.jsonl is damaged at byte 31"):
            list(replies.of([question("a")]))


def test_what_is_held_does_not_grow_with_the_answers() -> None:
    tally, rows = Tally(), []
    for k in range(3000):
        answer = ("yes", "no", "")[k % 3]
        rows.append(
            {"arm": "fwc", "repeat": str(k % 2), "variant": "", "group": "fm"[k % 5 > 2], "answer": answer,
             "label": ("no", "yes")[k % 7 > 3], "reason": "" if answer else "refusal", "row": f"r{k}"}
        )  # fmt: skip
        tally.add(rows[-1])
        tally.add({**rows[-1], "variant": "counterfactual:x", "answer": "no"})
    found = tally.metrics("fwc")
    assert found == arm_metrics("fwc", rows)
    assert found["n"] == 3000
    assert found["unparsed"] == {"refusal": 1000}
    assert found["coverage"] == pytest.approx(2 / 3)
    right = sum(row["answer"] == row["label"] for row in rows) / 2000
    assert found["accuracy"] == pytest.approx(right, abs=1e-3)
    assert len(found["per_repeat"]) == 2
