"""Reads results of promptfoo, Inspect, OpenAI, Langfuse and MLflow as tables.

Every row has `output` (the reply) and `decision` (yes, no, or "" for an unread reply). It has `row`, `repeat`
and `arm` if they are known. Variables and metadata of the tool are further columns.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from fwc_llm.answers import parse_answer
from fwc_llm.cell_rules import at, opened
from fwc_llm.data import raw_table
from fwc_llm.data.raw_table import RawTable, table_of_rows
from fwc_llm.errors import FwcError
from fwc_llm.models.base import Reply
from fwc_llm.models.inspect import read_log
from fwc_llm.taskfile import DEFAULT_MARKERS
from fwc_llm.validation import first_error

_OBJECT = dict[str, Any] | None


@dataclass(frozen=True)
class Kind:
    """The file format of one tool's results, as paths in the file and in its rows."""

    keys: Sequence[str]  # that identify the format ("|": or): of the file if it has `rows`, else of a row
    output: Sequence[str]  # the first path with a value is used
    row: str
    rows: str = ""
    arm: Sequence[str] = ()  # the first path with a value is used
    spread: Sequence[str] = ()  # objects whose entries become columns
    scores: str = ""  # a list whose entries become columns by name
    columns: Mapping[str, str] = field(default_factory=dict)  # paths by name
    others: bool = False  # whether all other keys of a row become columns
    prompt: str = ""  # of several values, each is an arm; rows of an arm with the same id are repeats
    of_file: Mapping[str, Any] = field(default_factory=dict)  # types by path
    of_row: Mapping[str, Any] = field(default_factory=dict)  # types by path


_EVALS = Kind(
    keys=("item|datasource_item", "sample"),
    output=("sample.output_text", "sample.output", "sample.outputs"),
    row="datasource_item_id",
    arm=("sample.model",),
    spread=("datasource_item", "item"),
    scores="results",
    of_row={"object": Literal["eval.run.output_item"] | None, "results": list[dict[str, Any]] | None},
)
KINDS = {
    # https://www.promptfoo.dev/docs/configuration/outputs; the version is written since 0.89
    "promptfoo": Kind(
        keys=("evalId", "results"),
        rows="results.results",
        output=("response.output",),
        row="testIdx",
        arm=("provider.label", "provider.id"),
        spread=("vars", "testCase.metadata"),
        columns={"pass": "success"},
        prompt="promptIdx",
        of_file={"results.version": Literal[3]},
        of_row={"vars": _OBJECT, "testCase.metadata": _OBJECT},
    ),
    "OpenAI Evals": replace(_EVALS, keys=("object", "data"), rows="data"),
    "stored OpenAI Evals": _EVALS,
    "OpenAI Batch": Kind(
        keys=("custom_id", "response"),
        output=("response.body.choices[0].message.content", "response.body.output"),
        row="custom_id",
        arm=("response.body.model",),
    ),
    "Langfuse": Kind(
        keys=("input", "output", "metadata", "traceId|trace_id|sessionId|session_id|projectId|project_id"),
        output=("output",),
        row="trace_id",
        spread=("input", "metadata"),
        others=True,
    ),
    "MLflow's traces": Kind(
        keys=("trace_id", "request", "response"),
        output=("response",),
        row="trace_id",
        spread=("request", "tags", "trace_metadata"),
        others=True,
    ),
    "MLflow's table": Kind(
        keys=("inputs", "outputs"),
        output=("outputs",),
        row="trace_id",
        spread=("inputs", "expectations"),
        others=True,
    ),
}


def open_results(path: Path, content: bytes, **layout: Any) -> RawTable:
    """Read results of another tool, one row per reply, or a plain table."""
    if path.suffix == ".eval":
        return table_of_rows(path, list(_inspect(path)), DEFAULT_MARKERS)
    source = raw_table.sniff_source(path, content, **layout)
    if source.format != "jsonl":
        table = raw_table.open_table(path, content, source)
        kind = _kind(table.titles, False)
        if kind is None:
            return table
        frame = table.frame(table.titles, path.name).fillna("")
        return _table(path, kind, frame.to_dict("records"))
    whole = raw_table.json_value(path, raw_table.unpacked(path, content)[1])
    if isinstance(whole, dict):
        if kind := _kind(whole, True):
            return _table(path, kind, whole)
        if {"eval", "plan"} <= whole.keys():
            return table_of_rows(path, list(_inspect(path)), DEFAULT_MARKERS)
        if {"columns", "data"} <= whole.keys():  # pandas' "split"
            _check(path, whole, {"columns": list[str | int], "data": list[list[Any]]})
            whole = [dict(zip(map(str, whole["columns"]), line, strict=False)) for line in whole["data"]]
    rows = raw_table.json_rows(path, [whole] if isinstance(whole, dict) and _kind(whole, False) else whole)
    kind = _kind(rows[0], False) if rows else None
    return _table(path, kind, rows) if kind else table_of_rows(path, rows, source.markers)


def _kind(keys: Iterable[str], of_file: bool) -> Kind | None:
    """The format with these keys in the file's object or first row, or None."""
    found = set(keys)
    fitting = (
        kind
        for kind in KINDS.values()
        if bool(kind.rows) == of_file and all(found.intersection(key.split("|")) for key in kind.keys)
    )
    return next(fitting, None)


def _table(path: Path, kind: Kind, whole: Any) -> RawTable:
    """Convert a file's JSON value, or its rows, in one format to a table."""
    _check(path, whole, {kind.rows: list[dict[str, Any]], **kind.of_file})
    rows, table, seen = at(whole, kind.rows), list[dict[str, Any]](), Counter[tuple[str, str]]()
    several = bool(kind.prompt) and len({str(at(row, kind.prompt)) for row in rows}) > 1
    for number, row in enumerate(rows, 1):
        names = dict.fromkeys((kind.row, *kind.arm), str | int | None)
        _check(f"{path}: row {number}", row, {**names, **kind.of_row})
        result: dict[str, Any] = {"output": _text(opened(_first(row, kind.output)))}
        name = _first(row, [kind.row])
        if kind.arm:
            result["arm"] = f"{_first(row, kind.arm)}{f' prompt {at(row, kind.prompt)}' * several}"
        result["row"] = str(number if name == "" else name)
        if kind.prompt:
            key = result["arm"], result["row"]
            result["repeat"], seen[key] = seen[key], seen[key] + 1
        result |= {column: at(row, place) for column, place in kind.columns.items()}
        scores = at(row, kind.scores) if kind.scores else None
        by_name = {f"score.{score.get('name')}": score.get("score") for score in scores or ()}
        others = (
            {key: row[key] for key in row if key not in (*kind.output, *kind.spread)} if kind.others else {}
        )
        table.append(_row(result, *(opened(at(row, place)) for place in kind.spread), by_name, others))
    if table and not any(result["output"] for result in table):
        raise FwcError(f"{path}: no row has a reply at {' or '.join(kind.output)}")
    return table_of_rows(path, table, DEFAULT_MARKERS)


def _first(row: dict[str, Any], places: Iterable[str]) -> Any:
    """The first value at these paths that is neither missing nor ""; else ""."""
    return next((value for place in places if (value := at(row, place)) not in (None, "")), "")


_adapter = cache(TypeAdapter[Any])


def _check(where: Path | str, value: Any, types: Mapping[str, Any]) -> None:
    """Raise `FwcError` if the value at a path does not have its type."""
    for place, expected in types.items():
        found = at(value, place)
        try:
            _adapter(expected).validate_python(found)
        except ValidationError as error:
            raise FwcError(f"{where}: {place or 'rows'}: {first_error(error, found)}") from None


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
