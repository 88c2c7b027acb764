"""`minority`: examples of the smallest group alone."""

from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.registry import strategy
from fwc_llm.shots.strategies.strata import draw_strata

LABELLED = {"balanced": 0.5, "unbalanced": 1.0}


@strategy(labels="balanced", group=None)
def minority(request: Request, labels: str, group: str | None) -> Shots:
    """m examples of one group alone, by default the smallest, drawn uniformly, labels alternating.

    Hu, Liu, Du (*Strategic Demonstration Selection for Improved Fairness in LLM In-Context Learning*, EMNLP
    2024): prioritised minority samples, with balanced labels or with the positive label alone. They draw
    each group's examples per test set; here the draw depends on the seed alone.

    Options: `labels="balanced"`, or `"unbalanced"` for examples that all answer yes; `group`, a protected
    level to take instead of the smallest.

    Errors: `FwcError` for an unknown value, and, by name, for a stratum that is too small.
    """
    if labels not in LABELLED:
        raise FwcError(f"labels is {labels!r}: choose {' or '.join(map(repr, LABELLED))}")
    return draw_strata(request, "minority", group, 1.0, LABELLED[labels], labels=labels)
