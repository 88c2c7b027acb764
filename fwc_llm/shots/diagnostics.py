"""Examples that are not true, which show what a model takes from them: every output marks them."""

from dataclasses import replace

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Example, Request, Shots
from fwc_llm.shots.baselines import draw_strata
from fwc_llm.shots.examples import make_shots, shuffle
from fwc_llm.shots.registry import strategy


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
    levels = request.pool[names].drop_duplicates().sort_values(names).to_dict("records")
    examples: list[Example] = []
    for place, example in enumerate(half.examples):
        own = {name: example.values[name] for name in names}
        others = [level for level in levels if level != own]
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


@strategy(flip=("parity", "all"))
def flipped(request: Request, flip: str) -> Shots:
    """m candidates drawn uniformly, with labels flipped until every group has the same share of yes.

    Liu, Gautam, Ma, Lakkaraju (*Confronting LLMs with Traditional ML: Rethinking the Fairness of Large
    Language Models in Tabular Classifications*, NAACL 2024) flip the labels of all examples, to see whether
    a model follows them; here that is `flip="all"`. By default as few labels are flipped as give every
    group the nearest whole number to the share of yes that the drawn rows have together.

    A diagnostic: **its labels are not true.** The strategy is taken only by name, each flipped example's
    `altered` says so, and every output marks it. Such a prompt must not decide about people.

    Option: `flip="parity"` or `"all"`.
    """
    rng = np.random.default_rng(request.seed)
    chosen = shuffle(request, rng, np.flatnonzero(request.candidates))[: request.m]
    shots = make_shots(request, "flipped", chosen, flip=flip)
    rows = request.pool.iloc[chosen]
    labels, sensitive = request.task.labels(rows), request.task.sensitive(rows)
    change = np.full(len(chosen), flip == "all")
    for level in np.unique(sensitive) if flip == "parity" else ():
        group = np.flatnonzero(sensitive == level)
        surplus = int(labels[group].sum()) - round(float(labels.mean()) * len(group))
        same = group[labels[group] == (surplus > 0)]
        change[rng.permutation(same)[: abs(surplus)]] = True
    examples = tuple(
        replace(example, label="no" if example.label == "yes" else "yes", altered="label flipped: not true")
        if changed
        else example
        for example, changed in zip(shots.examples, change, strict=True)
    )
    return replace(shots, examples=examples)
