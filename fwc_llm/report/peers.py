"""Results of other tools as a table of decisions: promptfoo, Inspect, OpenAI Evals, Langfuse and MLflow.

Every row has `output` (the reply), `decision` (yes, no, or empty where the reply is neither), where they are
known `row`, `repeat` and `arm`, and the variables and metadata that the tool kept, each a column.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    if path.suffix == ".csv":
        import pandas as pd

        titles = content[:10_000].split(b"\n")[0].decode("utf-8-sig", "replace").replace('"', "").strip()
        if _kind(set(titles.split(","))) is None:
            return None
        return exported(pd.read_csv(BytesIO(content), dtype=str, keep_default_na=False).to_dict("records"))
    if path.suffix not in (".json", ".jsonl"):
        return None
    try:
        text = content.decode("utf-8-sig")
        whole = parse_json(text) if path.suffix == ".json" else None
    except ValueError:  # lines, or nothing that is JSON: the reader of tables says what is wrong
        whole = None
    if not isinstance(whole, dict):
        return _listed(whole, text, path)
    if "evalId" in whole and isinstance(whole.get("results"), dict):
        return list(_promptfoo(whole["results"], path))
    if {"eval", "plan"} <= set(whole):
        return list(_inspect(path))
    if isinstance(whole.get("data"), list) and whole.get("object") == "list":
        return list(_evals(whole["data"], path))
    if isinstance(whole.get("data"), list) and isinstance(whole.get("columns"), list):  # pandas' "split"
        lines = [dict(zip(map(str, whole["columns"]), line, strict=False)) for line in whole["data"]]
        return exported(lines) or lines
    raise FwcError(
        f"{path} is a JSON object of no known kind: known are promptfoo's results, logs of Inspect, output "
        "items of OpenAI Evals, and tables of MLflow; else give a list of objects, one for every row"
    )


def exported(lines: Sequence[Mapping[Any, Any]]) -> list[dict[str, Any]] | None:
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
    """Which columns of an exported table hold objects, and which the reply; None for a table of no tool."""
    for tool, (needed, spread, output) in _TABLES.items():
        if titles.issuperset(needed) and (tool != "Langfuse" or titles & _OF_LANGFUSE):
            return spread, output
    return None


def _row(own: dict[str, Any], *kept: Any) -> dict[str, Any]:
    """A row: its own columns, what was kept beside the reply, and the decision that the reply is."""
    row = own | {"decision": parse_answer(Reply(own["output"])).value or ""}
    for values in kept:
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
    results_of = [one for one in results.get("results") or () if isinstance(one, dict)]
    several = len({str(one.get("promptIdx")) for one in results_of}) > 1
    for one in results_of:
        provider, test = one.get("provider") or {}, one.get("testCase") or {}
        arm = str(provider.get("label") or provider.get("id") or "")
        arm += f" prompt {one.get('promptIdx')}" if several else ""
        row = str(one.get("testIdx"))
        repeat = seen[arm, row] = seen.get((arm, row), -1) + 1
        reply = (one.get("response") or {}).get("output")
        own = {"output": _text(reply), "arm": arm, "row": row, "repeat": repeat, "pass": one.get("success")}
        yield _row(own, one.get("vars"), test.get("metadata"))


def _inspect(path: Path) -> Iterator[dict[str, Any]]:
    """A log of any task: the samples' metadata, target and scores beside what the model wrote."""
    log = read_log(path)
    for sample in log.samples or ():
        target = sample.target if isinstance(sample.target, str) else ", ".join(sample.target)
        output = "" if sample.error or sample.invalidation else sample.output.completion
        own = {"output": output, "target": target, "arm": log.eval.model, "row": str(sample.id)}
        scores = {f"score.{name}": score.value for name, score in (sample.scores or {}).items()}
        yield _row(own | {"repeat": sample.epoch - 1}, sample.metadata, scores)


def _listed(whole: Any, text: str, path: Path) -> list[dict[str, Any]] | None:
    """The rows of a list or of lines: items of OpenAI Evals, or an exported table; None for others."""
    try:
        items = (
            whole if whole is not None else [parse_json(line) for line in text.splitlines() if line.strip()]
        )
    except ValueError:
        return None
    if not (items and isinstance(items, list) and all(isinstance(one, dict) for one in items)):
        return None
    if str(items[0].get("object", "")).startswith("eval.") or {"item", "sample"} <= set(items[0]):
        return list(_evals(items, path))
    return exported(items)


def _evals(items: Iterable[Any], path: Path) -> Iterator[dict[str, Any]]:
    """Output items (`evals.runs.output_items.list`), or the lines of `item` and `sample` of stored data."""
    for place, one in enumerate(items, 1):
        if not isinstance(one, dict):
            raise FwcError(f"{path}: item {place} is no object")
        kind, sample = one.get("object", "eval.run.output_item"), one.get("sample") or {}
        if kind != "eval.run.output_item":
            raise FwcError(
                f"{path}: item {place} is {kind!r:.60}; output items (eval.run.output_item) are read"
            )
        reply = sample.get("output_text") or sample.get("output") or sample.get("outputs")
        row = str(one.get("datasource_item_id", place))
        own = {"output": _text(reply), "arm": str(sample.get("model") or ""), "row": row}
        grades = {f"score.{grade.get('name')}": grade.get("score") for grade in one.get("results") or ()}
        yield _row(own, one.get("datasource_item") or one.get("item"), grades)
