"""The numbers of a document as tidy CSV, one line per number."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fwc_llm.metrics.arm_comparison import COMPARED
from fwc_llm.metrics.counts import METRICS, REPLY_RATES, TABLE
from fwc_llm.sanitize import escape_formula, replace_invisible

COLUMNS = (
    *("run", "task", "model", "simulated", "arm", "group", "metric", "value", "low", "high", "n"),
    *("reference", "attribute", "against", "basis", "note", "verdict"),
)
_COUNTS = ("rows", "questions", "selected", "not_selected", "unparsed", "no_reply", "in_table")
_RATES = ("true_positive_rate", "false_positive_rate", "precision")
_CONFUSED = ("true_positives", "false_positives", "false_negatives", "true_negatives")


def tidy_csv(document: Mapping[str, Any]) -> str:
    """The document's numbers as CSV with `COLUMNS`; undefined values are empty."""
    return as_csv(
        (head(document, run) | line for run in document["runs"] for line in _of_run(run)), COLUMNS
    )


def as_csv(lines: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Lines as CSV with these columns; texts that look like formulas are escaped."""
    import pandas as pd

    texts = (
        {
            k: replace_invisible(escape_formula(v)) if isinstance(v, str) else v
            for k, v in line.items()
        }
        for line in lines
    )
    table = pd.DataFrame(list(texts), columns=list(columns), dtype=object)
    return str(table.to_csv(index=False, lineterminator="\n"))


def head(document: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, str]:
    """The cells that all lines of a run share."""
    return {
        "run": run["label"],
        "task": document["task"],
        "model": run["about"]["model"],
        "simulated": str(run["simulated"]).lower(),
        "reference": str(run["reference"]).lower(),
    }


def _of_run(run: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for entry in (run["rows"] or {"groups": ()})["groups"]:  # rows lost before the run, in all arms
        counts = {f"rows_{name}": entry[name] for name in ("read", "kept", "lost")}
        counts |= {f"rows_lost: {reason}": count for reason, count in entry["reasons"].items()}
        yield from _all(counts, group=entry["group"], n=entry["read"])
    for arm in run["statistics"]["arms"]:
        yield from ({"arm": arm["arm"]} | line for line in _of_arm(arm))
    yield from _comparisons(run["statistics"]["comparisons"], "first", "second")
    yield from _of_audit(run["audit"])
    n = run["statistics"]["arms"][0]["n"]
    references = run["statistics"].get("reference_lines")
    for entry in references["lines"] if references else ():
        for metric in METRICS:
            yield _line(metric, entry[metric], arm=entry["line"], n=n, reference="true")
    yield from _comparisons(references["comparisons"] if references else (), "line", "arm")


def _comparisons(
    tests: Iterable[Mapping[str, Any]], first: str, second: str
) -> Iterator[dict[str, Any]]:
    for test in tests:
        where = {"arm": test[second], "against": test[first], "n": test["n"]}
        where["note"] = test["reason"] or test["of"]
        for metric in COMPARED:
            yield where | _line(f"{metric}_difference", test[metric], "difference")
            yield where | {"metric": f"{metric}_p_adjusted", "value": test[metric]["p_adjusted"]}


def _all(counts: Mapping[str, Any], **more: Any) -> Iterator[dict[str, Any]]:
    return (more | {"metric": metric, "value": value} for metric, value in counts.items())


def _line(
    metric: str, of: Mapping[str, Any], key: str = "value", ends: str = "", **more: Any
) -> dict[str, Any]:
    """A line with the value of[key]; the keys of its interval begin with `ends`."""
    limits = {end: of[f"{ends}{end}"] for end in ("low", "high") if f"{ends}{end}" in of}
    return {
        "metric": metric,
        "value": of[key],
        **limits,
        "verdict": of.get("verdict") or "",
        **more,
    }


def _of_arm(arm: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    n = arm["n"]
    probabilities = arm["probabilities"] or {}
    for metric in (metric.key for metric in TABLE if metric.key in arm):
        yield _line(metric, arm[metric], n=n)
    for key, share in arm["replies"].items():
        yield _line(key, share, n=n)
    for name, group in arm["groups"].items():
        for rate in ("rate", "true_positive_rate", "false_positive_rate", *REPLY_RATES):
            ends = "" if rate == "rate" else f"{rate}_"
            yield _line(rate, group, rate, ends, group=name, n=group["n"])
    for name, shown in probabilities.get("calibration_by_group", {}).items():
        of = {"group": name, "n": shown["n"]}
        yield _line("calibration_difference", shown, "difference", **of)
        yield from _all(
            {"mean_probability": shown["mean"], "calibration_error": shown["error"]}, **of
        )


def _of_audit(audit: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a line for every number of `impact_tables`."""
    for view in audit["attributes"]:
        of = {"attribute": view["attribute"], "basis": audit["basis"]["kind"]}
        for group, lost in view["lost"].items():
            counts = {f"rows_{name}_by_attribute": lost[name] for name in ("read", "kept", "lost")}
            yield from _all(counts, group=group, **of)
        yield from _all({"rows_of_unknown_category": view["unknown"]}, **of)
        for arm in view["arms"]:
            for name, group in arm["groups"].items():
                where = of | {"arm": arm["arm"], "group": name, "n": group["rows"]}
                yield from (where | line for line in _of_group(group, arm["reference"]))
            for pair in arm["pairs"]:
                where = of | {"arm": arm["arm"], "group": pair["first"], "against": pair["second"]}
                if pair["ratio"] is None:
                    why = "0/0: no answer to any group is yes"
                else:
                    why = ""
                yield where | _line("selection_rate_difference", pair, "difference")
                yield where | _line("selection_rate_ratio", pair, "ratio", "ratio_", note=why)
                yield from _all({name: pair[name] for name in ("p_value", "p_adjusted")}, **where)


def _of_group(group: Mapping[str, Any], reference: str | None) -> Iterator[dict[str, Any]]:
    to = {"against": reference or ""}
    counts = {name: group[name] for name in (*_COUNTS, *_CONFUSED) if group[name] is not None}
    yield from _all(counts)
    for name in ("selection_rate", "impact_ratio", *_RATES):
        why = group["reasons"].get(name, "") or (group["reason"] if group[name] is None else "")
        line = _line(name, group, name, "" if name == "selection_rate" else f"{name}_", note=why)
        yield line | (to if name == "impact_ratio" else {})
    flag = group["four_fifths"]
    if flag is not None:
        note = "" if flag["settled"] else "the interval leaves it open"
        yield {"metric": "below_four_fifths", "value": int(flag["below"]), "note": note, **to}
        yield {"metric": "shortfall", "value": group["shortfall"], **to}
    if group["share"] is not None:
        yield {"metric": "share", "value": group["share"], "note": "under 2 %" * group["small"]}
    if "scoring_rate" in group:
        yield from (
            _line(name, group, name, f"{name}_")
            for name in ("scoring_rate", "scoring_impact_ratio")
        )
