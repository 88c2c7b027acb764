"""How often answers contradict each other when the question is put in other words, in sentences."""

from collections.abc import Iterator, Mapping
from typing import Any

from fwc_llm.metrics.decided import OPPOSITE
from fwc_llm.report.numbers import number, percent


def wording_lines(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for every arm and other wording; `results` is the content of results.json."""
    for arm in results["arms"]:
        for name, found in (arm.get("wordings") or {}).items():
            n, wrong = found["n"], found["contradictions"]
            if not n:
                yield f"{arm['arm']}: no row has an answer to both the question and its {name}."
                continue
            ways = (
                f"{found['yes_to_both']:,} yes to both, {found['no_to_both']:,} no to both"
                if name.startswith(OPPOSITE)
                else f"{found['yes_to_both']:,} yes to both and {found['no_to_both']:,} no to both agree"
            )
            distance = number(found.get("mean_distance"), 3)
            yield (
                f"{arm['arm']}: {wrong:,} of {n:,} answers ({percent(wrong / n)}) contradict those to the "
                f"question's {name} ({ways}); P(yes) is off by {distance} on average."
            )
