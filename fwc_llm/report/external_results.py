"""Reads tables of decisions, output of the Batch API and logs of Inspect.

Rows of the latter two have `output` (the reply), `decision` (yes, no, or "" for an unread reply), `arm` and
`row`, those of Inspect also `repeat` and `target`; metadata and scores are further columns.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fwc_llm.answers import parse_answer
from fwc_llm.cell_rules import at
from fwc_llm.data import raw_table
from fwc_llm.data.raw_table import RawTable, table_of_rows
from fwc_llm.errors import FwcError
from fwc_llm.models.base import Reply
from fwc_llm.models.inspect import read_log
from fwc_llm.taskfile import DEFAULT_MARKERS

_BATCH_REPLIES = "response.body.choices[0].message.content", "response.body.output"


def open_results(path: Path, content: bytes, **layout: Any) -> RawTable:
    """Read a table, output of the Batch API or a log of Inspect, one row per reply."""
    if path.suffix == ".eval":
        return table_of_rows(path, list(_inspect(path)), DEFAULT_MARKERS)
    source = raw_table.sniff_source(path, content, **layout)
    if source.format != "jsonl":
        return raw_table.open_table(path, content, source)
    value = raw_table.json_value(path, raw_table.unpacked(path, content)[1])
    if isinstance(value, dict) and {"eval", "plan"} <= value.keys():
        return table_of_rows(path, list(_inspect(path)), DEFAULT_MARKERS)
    if isinstance(value, dict) and {"custom_id", "response"} <= value.keys():
        value = [value]
    rows = raw_table.json_rows(path, value)
    if rows and {"custom_id", "response"} <= rows[0].keys():
        return table_of_rows(path, _batch(path, rows), DEFAULT_MARKERS)
    return table_of_rows(path, rows, source.markers)


def _batch(path: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of a Batch API's output file: reply, model and id."""
    table = []
    for row in rows:
        found = (at(row, place) for place in _BATCH_REPLIES)
        reply = next((value for value in found if value not in (None, "")), "")
        result = {
            "output": _text(reply),
            "arm": str(at(row, "response.body.model") or ""),
            "row": str(row.get("custom_id") or ""),
        }
        table.append(_row(result))
    if not any(result["output"] for result in table):
        raise FwcError(f"{path}: no row has a reply at {' or '.join(_BATCH_REPLIES)}")
    return table


def _inspect(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the samples of any Inspect log: reply, target, metadata and scores."""
    log = read_log(path)
    for sample in log.samples or ():
        target = sample.target if isinstance(sample.target, str) else ", ".join(sample.target)
        output = "" if sample.error or sample.invalidation else sample.output.completion
        result = {"output": output, "target": target, "arm": log.eval.model, "row": str(sample.id)}
        scores = {f"score.{name}": score.value for name, score in (sample.scores or {}).items()}
        yield _row(result | {"repeat": sample.epoch - 1}, sample.metadata, scores)


def _row(result: dict[str, Any], *more: Any) -> dict[str, Any]:
    """A row: result, decision parsed from the reply, entries of `more` mappings."""
    row = result | {"decision": parse_answer(Reply(result["output"])).value or ""}
    for values in more:
        for name, cell in values.items() if isinstance(values, Mapping) else ():
            row.setdefault(str(name), _text(cell) if isinstance(cell, dict | list) else cell)
    return row


def _text(value: Any) -> str:
    """A reply as text: that of a message, or of a list's last message, else JSON."""
    if isinstance(value, list) and value and isinstance(value[-1], dict):
        value = value[-1]
    for name in ("content", "text", "answer"):
        if isinstance(value, dict) and isinstance(value.get(name), str | list):
            return _text(value[name])
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
