"""Reference lines as text: the same cells for the terminal, the page and Markdown."""

from collections.abc import Iterator, Mapping
from typing import Any

from fwc_llm.report.numbers import DASH, interval, number, signed
from fwc_llm.report.tables.rows import comparison_rows

TITLE = "Reference lines"
CAPTION = "What plain models of the table answer to the same rows; no language model."
HEADINGS = ("Line", "Accuracy %", "DP gap", "EO gap")
_MARKS = {True: "≠", False: "≈", None: "?"}


def line_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """One row per reference line: its values with 95 % intervals."""
    return [
        [
            one["line"],
            _value(one["accuracy"], 1, 100),
            _value(one["demographic_parity_difference"], 3),
            _value(one["equalized_odds_difference"], 3),
        ]
        for one in (found.get("reference_lines") or {"lines": ()})["lines"]
    ]


def line_comparisons(found: Mapping[str, Any]) -> list[list[str]]:
    """Every arm less every line, as the comparisons of arms are shown."""
    tests = (found.get("reference_lines") or {"comparisons": ()})["comparisons"]
    return comparison_rows(
        {"comparisons": [{**test, "first": test["line"], "second": test["arm"]} for test in tests]}
    )


def difference_columns(found: Mapping[str, Any]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The lines that arms are compared with, and a column for each arm."""
    tests = {(test["line"], test["arm"]): test for test in found["reference_lines"]["comparisons"]}
    lines = list(dict.fromkeys(line for line, _ in tests))
    arms = [arm["arm"] for arm in found["arms"]]
    return lines, [(f"{arm} less it", [_short(tests.get((line, arm))) for line in lines]) for arm in arms]


def line_notes(found: Mapping[str, Any]) -> Iterator[str]:
    """What a reader must know of the lines: training rows, features, what decides, what is missing."""
    references = found.get("reference_lines")
    if references is None:
        return
    named = ", ".join(references["protected"])
    least, most = references["trained_on"]
    rows = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    how = "once, without the test rows of any repeat" if references["one_fit"] else "in each repeat"
    yield (
        f"Trained {how}, on {rows} rows of the pool; {references['left_out']:,} that are test rows, or equal "
        "one, are left out. Numbers are standardised, categories have a column each."
    )
    yield (
        f"Without {named}: that column is left out; others may still tell it. Yes is a probability of a half "
        "or more."
    )
    yield (
        "Differences (arm less line, accuracy in points and DP gap) are taken row by row, with Holm's "
        "correction over these alone: ≠ significant, ≈ not, ? cannot be told."
    )
    if references["thresholds_on"]:
        yield (
            f"Thresholds per group ({references['thresholds_on']}) use {named} to decide, which is often "
            "unlawful: a line to hold answers against, no recommendation. They are chosen on pool rows that "
            "are weighted as the test rows are; the gap on test rows may be larger."
        )
    if references["missing"]:
        yield f"Not here: {references['missing']}."


def line_finding(found: Mapping[str, Any]) -> str:
    """How far every arm is from the last line without the protected attribute; empty without lines."""
    references = found.get("reference_lines")
    if references is None:
        return ""
    plain = [one["line"] for one in references["lines"] if not one["uses_protected"]]
    tests = [test for test in references["comparisons"] if plain and test["line"] == plain[-1]]
    said = [_said(test) for test in tests if test["accuracy"]["difference"] is not None]
    return f"On the same rows, against {plain[-1]}: {'; '.join(said)}." if said else ""


def _said(test: Mapping[str, Any]) -> str:
    accuracy, gap = test["accuracy"], test["demographic_parity_difference"]
    points = signed(accuracy["difference"], 1, 100)
    noise = {True: "", False: " (not significant)", None: " (cannot be told)"}
    return (
        f"{test['arm']} {points} points of accuracy{noise[accuracy['distinguishable']]}, "
        f"DP gap {signed(gap['difference'], 3)}{noise[gap['distinguishable']]}"
    )


def _value(value: Mapping[str, Any], digits: int, scale: float = 1.0) -> str:
    ends = interval((value["low"], value["high"]), digits, scale)
    shown = number(value["value"], digits, scale)
    return shown if ends == DASH else f"{shown} ({ends})"


def _short(test: Mapping[str, Any] | None) -> str:
    """Both differences in one cell, in points and as a share."""
    if test is None or test["accuracy"]["difference"] is None:
        return DASH
    accuracy, gap = test["accuracy"], test["demographic_parity_difference"]
    return (
        f"{_MARKS[accuracy['distinguishable']]} {signed(accuracy['difference'], 1, 100)}, "
        f"{_MARKS[gap['distinguishable']]} {signed(gap['difference'], 3)}"
    )
