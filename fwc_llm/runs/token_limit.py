"""The largest number of examples whose prompts stay within a number of tokens."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from fwc_llm.errors import FwcError
from fwc_llm.models.tokens import TokenCounter, largest_m
from fwc_llm.runs.defaults import fit_defaults
from fwc_llm.runs.plan import make_plan
from fwc_llm.runs.settings import Settings
from fwc_llm.shots.base import Shots

if TYPE_CHECKING:
    from fwc_llm.tasks import Task


def fit_prompts(
    task: "Task",
    sources: Sequence[str | Shots],
    settings: Settings,
    model: str,
    limit: int,
    allow_changed_data: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Settings:
    """`settings` with the largest m, up to theirs, for which every prompt has at most `limit` tokens.

    Every candidate m is tried with the examples that the prompts would show. Errors: `FwcError` when even the
    smallest m that all arms accept does not fit.
    """
    counter = TokenCounter(model)
    most = fit_defaults(task, settings)[0].m

    @cache
    def longest(m: int) -> int:
        if progress:
            progress(f"trying {m} examples within {limit:,} tokens")
        plan = make_plan(task, sources, settings.updated(m=m), allow_changed_data)
        return max(counter.count(call.messages) for call in plan.calls())

    if longest(most) <= limit:
        return settings
    smallest = _smallest(longest, most)
    if longest(smallest) > limit:
        raise FwcError(
            f"{smallest} examples, the fewest that every arm accepts, make prompts of {longest(smallest):,} "
            f"tokens, more than the {limit:,} of --max-prompt-tokens: raise it, or use a shorter template"
        )
    span = largest_m(lambda step: longest(smallest + step - 1), limit, most - smallest)
    return settings.updated(m=smallest + span - 1)


def _smallest(longest: Callable[[int], int], most: int) -> int:
    """The smallest m that every strategy accepts (FWC needs one example per cell)."""
    for m in range(1, most):
        try:
            longest(m)
        except FwcError:
            continue
        return m
    return most
