"""How often the answers to a question contradict those to the same question in other words."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

Asked = Sequence[tuple[float | None, Mapping[str, float | None]]]  # P(yes) of a question and of the others


def wordings(asked: Asked) -> dict[str, Any]:
    """An arm's contradictions by the name of the other question, as `wordings`; empty where there is none."""
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
