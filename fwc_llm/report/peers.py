"""Results of other tools as a table of decisions: promptfoo, Inspect, OpenAI Evals, Langfuse and MLflow.

Every row has `output` (the reply), `decision` (yes, no, or empty where the reply is neither), where they are
known `row`, `repeat` and `arm`, and the variables and metadata that the tool kept, each a column.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.answers import parse_answer
from fwc_llm.errors import FwcError
from fwc_llm.models.base import Reply
from fwc_llm.models.inspect import read_log
from fwc_llm.untrusted import parse_json

if TYPE_CHECKING:
    import pandas as pd

_PROMPTFOO = 3  # the version of its results, written since 0.89
# Columns by which an exported table is known, those with an object in their cells, and the reply's.
_TABLES = {
    "Langfuse": (("input", "output", "metadata"), ("input", "metadata"), "output"),
    "MLflow's traces": (
        ("trace_id", "request", "response"), ("request", "tags", "trace_metadata"), "response",
    ),
    "MLflow's table": (("inputs", "outputs"), ("inputs", "expectations"), "outputs"),
}  # fmt: skip
_OF_LANGFUSE = {"traceId", "trace_id", "sessionId", "session_id", "projectId", "project_id"}


def peer_table(path: Path, content: bytes) -> "pd.DataFrame | None":
    """Return what another tool's results hold, a row a reply; None for a file that is a plain table.

    Raises `FwcError` for a version that is not known, and for a JSON object of no tool that is.
    """
    import pandas as pd

    rows = _rows(path, content)
    return None if rows is None else pd.DataFrame(rows, dtype=object)


def _rows(path: Path, content: bytes) -> list[dict[str, Any]] | None:
    if path.suffix == ".eval":
        return list(_inspect(path))
    try:
        whole = _values(path, content)
    except ValueError:  # the reader of tables says what is wrong
        return None
    if isinstance(whole, dict):
        data, columns = whole.get("data"), whole.get("columns")
        if "evalId" in whole and isinstance(whole.get("results"), dict):
            return list(_promptfoo(whole["results"], path))
        if {"eval", "plan"} <= set(whole):
            return list(_inspect(path))
        if isinstance(data, list) and whole.get("object") == "list":
            return list(_evals(data, path))
        if isinstance(data, list) and isinstance(columns, list):  # pandas' "split"
            lines = [dict(zip(map(str, columns), line, strict=False)) for line in data]
            return _exported(lines) or lines
        raise FwcError(
            f"{path} is a JSON object of no known kind: known are promptfoo's results, logs of Inspect, "
            "output items of OpenAI Evals, tables of MLflow; else give a list of objects, one for every row"
        )
    if not (whole and isinstance(whole, list) and all(isinstance(item, dict) for item in whole)):
        return None
    if str(whole[0].get("object", "")).startswith("eval.") or {"item", "sample"} <= set(whole[0]):
        return list(_evals(whole, path))
    return _exported(whole)


def _values(path: Path, content: bytes) -> Any:
    """Reads a file: a JSON value, those of its lines, or the rows of a tool's CSV; None for others."""
    if path.suffix == ".csv":
        import pandas as pd

        if _kind(set(pd.read_csv(BytesIO(content), nrows=0).columns)) is None:
            return None
        return pd.read_csv(BytesIO(content), dtype=str, keep_default_na=False).to_dict("records")
    if path.suffix not in (".json", ".jsonl"):
        return None
    text = content.decode("utf-8-sig")
    with suppress(ValueError):
        if path.suffix == ".json":
            return parse_json(text)
    return [parse_json(line) for line in text.splitlines() if line.strip()]


def _exported(lines: Sequence[Mapping[Any, Any]]) -> list[dict[str, Any]] | None:
    """Return the rows of a table of Langfuse or MLflow, their objects as columns; None for another table."""
    kind = _kind({str(title) for line in lines[:1] for title in line})
    if kind is None:
        return None
    spread, output = kind
    return [
        _row(
            {"output": _text(_opened(line.get(output))), "row": str(line.get("trace_id") or place)},
            *(_opened(line.get(name)) for name in spread),
            {name: cell for name, cell in line.items() if name not in (*spread, output)},
        )
        for place, line in enumerate(lines, 1)
    ]


def _kind(titles: set[str]) -> tuple[tuple[str, ...], str] | None:
    """An exported table's columns of objects, and that of the reply; None for a table of no tool."""
    for tool, (needed, spread, output) in _TABLES.items():
        if titles.issuperset(needed) and (tool != "Langfuse" or titles & _OF_LANGFUSE):
            return spread, output
    return None


def _row(own: dict[str, Any], *beside: Any) -> dict[str, Any]:
    """A row: its own columns, what stands beside the reply, and the decision that the reply is."""
    row = own | {"decision": parse_answer(Reply(own["output"])).value or ""}
    for values in beside:
        for name, cell in values.items() if isinstance(values, Mapping) else ():
            row.setdefault(str(name), _text(cell) if isinstance(cell, dict | list) else cell)
    return row


def _opened(cell: Any) -> Any:
    """The JSON that a cell holds as text; any other cell as it is."""
    try:
        return parse_json(cell) if isinstance(cell, str) and cell[:1] in ("{", "[", '"') else cell
    except ValueError:
        return cell


def _text(value: Any) -> str:
    """A reply as text: that of a message, or of a list of them, else its JSON."""
    if isinstance(value, list) and value and isinstance(value[-1], dict):
        value = value[-1]
    for name in ("content", "text", "answer"):
        if isinstance(value, dict) and isinstance(value.get(name), str | list):
            return _text(value[name])
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _promptfoo(results: Mapping[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """https://www.promptfoo.dev/docs/configuration/outputs: every result has its variables and metadata."""
    if results.get("version") != _PROMPTFOO:
        raise FwcError(
            f"{path} has promptfoo's results in version {results.get('version')!r:.20}; version {_PROMPTFOO} "
            "is read: write it again with `promptfoo export eval`, or save a table"
        )
    seen: dict[tuple[str, str], int] = {}
    entries = [entry for entry in results.get("results") or () if isinstance(entry, dict)]
    several = len({str(entry.get("promptIdx")) for entry in entries}) > 1
    for entry in entries:
        provider, test = entry.get("provider") or {}, entry.get("testCase") or {}
        arm = str(provider.get("label") or provider.get("id") or "")
        arm += f" prompt {entry.get('promptIdx')}" if several else ""
        row = str(entry.get("testIdx"))
        repeat = seen[arm, row] = seen.get((arm, row), -1) + 1
        reply = _text((entry.get("response") or {}).get("output"))
        own = {"output": reply, "arm": arm, "row": row, "repeat": repeat, "pass": entry.get("success")}
        yield _row(own, entry.get("vars"), test.get("metadata"))


def _inspect(path: Path) -> Iterator[dict[str, Any]]:
    """A log of any task: the samples' metadata, target and scores beside what the model wrote."""
    log = read_log(path)
    for sample in log.samples or ():
        target = sample.target if isinstance(sample.target, str) else ", ".join(sample.target)
        output = "" if sample.error or sample.invalidation else sample.output.completion
        own = {"output": output, "target": target, "arm": log.eval.model, "row": str(sample.id)}
        scores = {f"score.{name}": score.value for name, score in (sample.scores or {}).items()}
        yield _row(own | {"repeat": sample.epoch - 1}, sample.metadata, scores)


def _evals(items: Iterable[Any], path: Path) -> Iterator[dict[str, Any]]:
    """Output items (`evals.runs.output_items.list`), or the lines of `item` and `sample` of stored data."""
    for place, item in enumerate(items, 1):
        kind = item.get("object", "eval.run.output_item") if isinstance(item, dict) else "no object"
        if kind != "eval.run.output_item":
            raise FwcError(
                f"{path}: item {place} is {kind!r:.60}; output items (eval.run.output_item) are read"
            )
        sample = item.get("sample") or {}
        reply = sample.get("output_text") or sample.get("output") or sample.get("outputs")
        row = str(item.get("datasource_item_id", place))
        own = {"output": _text(reply), "arm": str(sample.get("model") or ""), "row": row}
        grades = {f"score.{grade.get('name')}": grade.get("score") for grade in item.get("results") or ()}
        yield _row(own, item.get("datasource_item") or item.get("item"), grades)
