"""`flipped`: examples with labels that are not true, a diagnostic."""

from dataclasses import replace

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import make_shots, shuffle
from fwc_llm.shots.registry import strategy

FLIPS = ("parity", "all")


@strategy(flip="parity")
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
    if flip not in FLIPS:
        raise FwcError(f"flip is {flip!r}: choose 'parity' or 'all'")
    rng = np.random.default_rng(request.seed)
    chosen = shuffle(request, rng, np.flatnonzero(request.candidates))[: request.m]
    shots = make_shots(request, "flipped", chosen, flip=flip)
    rows = request.pool.iloc[chosen]
    labels, sensitive = request.task.labels(rows), request.task.sensitive(rows)
    change = np.ones(len(chosen), dtype=bool)
    if flip == "parity":
        change[:] = False
        for level in np.unique(sensitive):
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
