"""Requests about several rows; in the journal, `row` is then a JSON list of rows."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fwc_llm.answers import without_reasoning
from fwc_llm.models.base import CRITERIA, LINES, QUESTION, Message, Messages
from fwc_llm.words import YES_NO

ROWS = "rows:"  # prefix of the variant; the request's number follows
_LINE = re.compile(r"[\W_]*(?:record\s+)?(\d{1,6})[\s.:)\]*_|-]+(\S.*)", re.IGNORECASE)


def joint_messages(
    fixed: Messages, asked: Sequence[Messages], words: Mapping[str, str] = YES_NO
) -> list[Message]:
    """Join prompts: `fixed`, numbered records, one instruction or a question per record."""
    records = "\n\n".join(f"Record {n}:\n{_text(each)}" for n, each in enumerate(asked, 1))
    question = next((m["content"] for m in asked[0] if m["role"] == QUESTION and "name" not in m), None)
    if question is None:
        lines = f"{len(asked)} line{'s' * (len(asked) > 1)} {LINES} {words['yes']} or {words['no']}."
        task = f"Answer every record as if it stood alone, with {lines}"
        return [*fixed, {"role": "user", "content": f"{records}\n\n{task}"}]
    questions: list[Message] = []
    for n in range(1, len(asked) + 1):
        questions.append({"role": QUESTION, "content": f"About record {n}: {question}"})
        if n > 1:
            questions[-1]["name"] = str(n)
    meant = [message for message in asked[0] if message.get("name", "").startswith(CRITERIA)]
    return [*fixed, {"role": "user", "content": records}, *questions, *meant]


def _text(messages: Messages) -> str:
    return "\n\n".join(m["content"] for m in messages if m["role"] != QUESTION).removeprefix("Record:\n")


def split_record(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Split a multi-row request's record by row; yield other records unchanged.

    A chat's reply without one numbered line per row, in their order, is no answer for any row.
    """
    if not str(record.get("variant") or "").startswith(ROWS):
        yield record
        return
    rows, text = json.loads(record["row"]), record["text"]
    alike = {**record, "others": {}, "logprobs": None, "p_yes": None}
    if text is None:
        yield from (alike | {"row": row} for row in rows)
        return
    if not record.get("logprobs") and (record.get("p_yes") is not None or record.get("others")):
        others = {"1": record.get("p_yes"), **(record.get("others") or {})}
        for number, row in enumerate(rows, 1):
            p = others.get(str(number))
            answer = "" if p is None else "yes" if p >= 0.5 else "no"
            yield alike | {"row": row, "text": answer, "p_yes": p, "refusal": p is None}
        return
    visible = without_reasoning(text)[0].replace("```", "")
    lines = [_LINE.fullmatch(line) for line in visible.splitlines() if line.strip()]
    complete = [int(line[1]) for line in lines if line] == list(range(1, len(rows) + 1)) and all(lines)
    other = f"(a reply without {len(rows)} numbered lines)"
    for index, row in enumerate(rows):
        line = lines[index] if complete else None
        yield alike | {"row": row, "text": other if line is None else line[2]}
