"""`counterfactual`: examples of the smallest group, and copies of them with another protected level."""

from dataclasses import replace

from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Example, Request, Shots
from fwc_llm.shots.registry import strategy
from fwc_llm.shots.strategies.strata import draw_strata


@strategy(group=None)
def counterfactual(request: Request, group: str | None) -> Shots:
    """Rows of one group, by default the smallest, each followed by a copy with another protected level.

    The counterfactual baseline of Bhaila, Van, Edemacu, Zhao, Chen, Wu (*Fair In-Context Learning via Latent
    Concept Variables*, 2024): minority examples with copies whose protected attribute is changed, same
    answer. They change one binary attribute; here, where there are more levels, each copy takes the next one
    in turn. If m is odd, the last row has no copy. The rows are drawn uniformly, labels alternating.

    A copy is no real row. Its `altered` says so, and every output marks it.

    Option: `group`, a protected level to take instead of the smallest.

    Errors: `FwcError` for an unknown group, one that is alone in the table, and a stratum that is too small.
    """
    task = request.task
    half = draw_strata(replace(request, m=(request.m + 1) // 2), "counterfactual", group, 1.0, 0.5)
    names = list(task.protected)
    known = request.pool[names].drop_duplicates().sort_values(names).to_dict("records")
    examples: list[Example] = []
    for place, example in enumerate(half.examples):
        own = {name: example.values[name] for name in names}
        others = [level for level in known if level != own]
        if not others:
            raise FwcError("the table has one protected level only: there is nothing to change it to")
        other = others[place % len(others)]
        shown = " & ".join(str(other[name]) for name in names)
        examples += [
            example,
            replace(
                example,
                row=f"{example.row} as {shown}",
                values={**example.values, **{str(name): value for name, value in other.items()}},
                altered=f"{' & '.join(names)} changed to {shown}",
            ),
        ]
    taken = tuple(examples[: request.m])
    return replace(half, examples=taken, options={**half.options, "m": request.m})
