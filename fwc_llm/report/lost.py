"""The rows that a run's table lost before anything was asked, in words and as a table."""

from collections.abc import Mapping
from typing import Any

HEADINGS = ("Group", "Rows read", "Kept", "Lost", "Lost %")


def lost_lines(rows: Mapping[str, Any] | None) -> list[str]:
    """Return how many rows of each group were lost and why, and the warning; nothing where none was.

    `rows` is that of results.json.
    """
    if not rows or not rows["lost"]:
        return []
    groups = ", ".join(
        f"{one['group']} {one['lost']:,} of {one['read']:,} ({one['lost'] / one['read']:.1%})"
        for one in rows["groups"]
        if one["read"]
    )
    why = ", ".join(f"{reason} {count:,}" for reason, count in rows["reasons"].items())
    line = f"{rows['lost']:,} of {rows['read']:,} rows were lost before the run: {groups}; {why}."
    return [line, *([f"Warning: {rows['warning']}."] if rows["warning"] else [])]


def lost_table(rows: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return headings and a row for every group; a row that lacks several values counts for each."""
    reasons = list(rows["reasons"])
    body = [
        [
            one["group"],
            *(f"{one[name]:,}" for name in ("read", "kept", "lost")),
            f"{100 * one['lost'] / one['read']:.1f}" if one["read"] else "",
            *(f"{one['reasons'].get(reason, 0):,}" for reason in reasons),
        ]
        for one in rows["groups"]
    ]
    return [*HEADINGS, *reasons], body
