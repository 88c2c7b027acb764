"""How often the answers to a question contradict those to the same question in other words."""

import math
from collections.abc import Mapping
from typing import Any

Replies = Mapping[tuple[str, int, str, str], Mapping[str, Any]]  # by arm, repeat, row and variant


def wordings(arm: str, replies: Replies) -> dict[str, Any]:
    """The arm's contradictions by the name of the other question, as `wordings`; empty where none was asked.

    Only rows as they are count, not those told with another protected level.
    """
    asked = [
        (record.get("p_yes"), record["others"])
        for (name, _, _, variant), record in replies.items()
        if name == arm and not variant and record.get("others")
    ]
    if not asked:
        return {}
    from fwc_llm.metrics.decided import OPPOSITE, contradictions

    first = [_number(p) for p, _ in asked]
    names = dict.fromkeys(name for _, others in asked for name in others)
    return {
        "wordings": {
            name: contradictions(
                first, [_number(others.get(name)) for _, others in asked], name.startswith(OPPOSITE)
            )
            for name in names
        }
    }


def _number(p: float | None) -> float:
    return math.nan if p is None else p
