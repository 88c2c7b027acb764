"""Reads tables of decisions, output of the Batch API and logs of Inspect.

Rows of the latter two have `output` (the reply), `decision` (yes, no, or "" for a reply without an
answer), the `reason` for the latter, `finish_reason`, `refusal`, `arm` and `row`, those of Inspect
also `repeat` and `target`; metadata and scores are further columns.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fwc_llm.answers import parse_answer
from fwc_llm.data import raw_table
from fwc_llm.data.raw_table import RawTable, table_of_rows
from fwc_llm.errors import FwcError
from fwc_llm.models.base import Reply
from fwc_llm.models.bodies import read_batch_line
from fwc_llm.models.inspect import read_log, sample_reply
from fwc_llm.models.openai.retry import AttemptError
from fwc_llm.sanitize import Json
from fwc_llm.taskfile import DEFAULT_MARKERS


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


def _batch(path: Path, rows: list[Json]) -> list[Json]:
    """The lines of a Batch API's output file: reply, model and id."""
    replies = []
    for row in rows:
        try:
            replies.append(read_batch_line(row))
        except AttemptError as failure:
            replies.append(Reply(None, error=str(failure)))
    ids = [str(row.get("custom_id") or "") for row in rows]
    models = [reply.model or "" for reply in replies]
    names = dict.fromkeys(filter(None, models))
    if len(names) == 1 or len({*ids}) == len(ids):
        # One arm, also if its answers are of two versions; a failed request names no model.
        models = [", ".join(names) or "batch"] * len(rows)
    table = [
        _row(reply, {"arm": model, "row": row_id})
        for reply, model, row_id in zip(replies, models, ids, strict=True)
    ]
    if not any(result["output"] for result in table):
        raise FwcError(
            f"{path}: no row has a reply of chat completions or of the Responses API"
        )
    return table


def _inspect(path: Path) -> Iterator[Json]:
    """Yield the samples of any Inspect log: reply, target, metadata and scores."""
    log = read_log(path)
    for sample in log.samples or ():
        if isinstance(sample.target, str):
            target = sample.target
        else:
            target = ", ".join(sample.target)
        about = {
            "target": target,
            "arm": log.eval.model,
            "row": str(sample.id),
            "repeat": sample.epoch - 1,
        }
        scores = {
            f"score.{name}": score.value
            for name, score in (sample.scores or {}).items()
        }
        yield _row(sample_reply(sample), about, sample.metadata, scores)


def _row(reply: Reply, about: Json, *more: Any) -> Json:
    """A row: the reply, how it ended, the decision in it, and entries of `more` mappings."""
    answer = parse_answer(reply)
    row = (
        {"output": reply.text or ""}
        | about
        | {"decision": answer.value or "", "reason": answer.reason}
    )
    row |= {
        "finish_reason": reply.finish_reason or "",
        "refusal": "yes" if reply.refusal else "",
    }
    for values in more:
        for name, cell in values.items() if isinstance(values, Mapping) else ():
            if isinstance(cell, dict | list):
                text = json.dumps(cell, ensure_ascii=False)
            else:
                text = cell
            row.setdefault(str(name), text)
    return row
