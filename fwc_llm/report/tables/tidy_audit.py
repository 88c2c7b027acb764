"""The tables of an audit as tidy lines: one line a number, what is undefined with its reason."""

from collections.abc import Iterator, Mapping
from typing import Any

COUNTS = ("rows", "questions", "selected", "not_selected", "unparsed", "no_reply", "in_table")
_RATES = {
    "selection_rate": ("low", "high"),
    "impact_ratio": ("impact_ratio_low", "impact_ratio_high"),
    **{
        rate: (f"{rate}_low", f"{rate}_high")
        for rate in ("true_positive_rate", "false_positive_rate", "precision")
    },
}
_CONFUSED = ("true_positives", "false_positives", "false_negatives", "true_negatives")
_TESTS = ("p_value", "p_adjusted")


def audit_lines(audit: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a line for every number of `impact_tables`; `against` is the other group of a ratio or test."""
    for view in audit["attributes"]:
        of = {"attribute": view["attribute"], "basis": audit["basis"]["kind"]}
        for group, lost in view["lost"].items():
            for name in ("read", "kept", "lost"):
                yield of | {"group": group, "metric": f"rows_{name}_by_attribute", "value": lost[name]}
        yield of | {"metric": "rows_of_unknown_category", "value": view["unknown"]}
        for arm in view["arms"]:
            for name, group in arm["groups"].items():
                where = of | {"arm": arm["arm"], "group": name}
                yield from (where | line for line in _group(group, arm["reference"]))
            for pair in arm["pairs"]:
                where = of | {"arm": arm["arm"], "group": pair["first"], "against": pair["second"]}
                yield from (where | line for line in _pair(pair))


def _group(group: Mapping[str, Any], reference: str | None) -> Iterator[dict[str, Any]]:
    n = {"n": group["rows"]}
    for name in (*COUNTS, *_CONFUSED):
        if group[name] is not None:
            yield n | {"metric": name, "value": group[name]}
    to = {"against": reference or ""}
    for name, ends in _RATES.items():
        why = group["reasons"].get(name, "") or (group["reason"] if group[name] is None else "")
        line = n | {"metric": name, "value": group[name], "note": why}
        yield (
            line
            | dict(zip(("low", "high"), (group[end] for end in ends), strict=True))
            | (to if name == "impact_ratio" else {})
        )
    flag = group["four_fifths"]
    if flag is not None:
        note = "" if flag["settled"] else "the interval leaves it open"
        yield n | to | {"metric": "below_four_fifths", "value": int(flag["below"]), "note": note}
        yield n | to | {"metric": "shortfall", "value": group["shortfall"]}
    if group["small"]:
        yield n | {"metric": "share", "value": group["share"], "note": "under 2 %"}
    elif group["share"] is not None:
        yield n | {"metric": "share", "value": group["share"]}


def _pair(pair: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    ends = {"low": pair["low"], "high": pair["high"]}
    yield {"metric": "selection_rate_difference", "value": pair["difference"]} | ends
    ratio = {"low": pair["ratio_low"], "high": pair["ratio_high"]}
    why = "0/0: no group was answered yes even once" if pair["ratio"] is None else ""
    yield {"metric": "selection_rate_ratio", "value": pair["ratio"], "note": why} | ratio
    for name in _TESTS:
        yield {"metric": name, "value": pair[name], "note": pair["test"]}
