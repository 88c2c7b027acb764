"""The candidates of `tune`: sets of examples by strategy, slots, seed, order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.runs.splits import Split
from fwc_llm.shots import is_per_row, select_shots, strategies
from fwc_llm.shots.base import Shots
from fwc_llm.shots.examples import counter_slots
from fwc_llm.shots.registry import ONLY_BY_NAME
from fwc_llm.shots.select import check_order
from fwc_llm.tasks import Task

# Arguments (share, more) of `counter_slots`.
COUNTER_TABLES = ((1.0, 0.0), (0.875, 0.0), (0.75, 0.0), (1.0, 0.25), (0.875, 0.25))
_FWC = (("fwc", 0.01), ("fwc ε=0.1", 0.1), ("fwc without a limit of parity", None))
_ORDERS = ("given", "random")
_LEFT_OUT = ONLY_BY_NAME | {"zero"}


@dataclass(frozen=True)
class Recipe:
    """The way to choose a candidate; `label` names this kind of candidates."""

    label: str
    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    epsilon: float | None = 0.01


@dataclass(frozen=True)
class Candidate:
    """One set of examples in one template set."""

    name: str
    recipe: Recipe
    seed: int
    order: str
    template: str
    shots: Shots = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        """The candidate as in tuning.json."""
        return {
            "candidate": self.name,
            "kind": self.recipe.label,
            "strategy": self.recipe.strategy,
            "options": dict(self.recipe.options),
            "epsilon": self.recipe.epsilon,
            "m": self.shots.m,
            "seed": self.seed,
            "order": self.order,
            "template": self.template,
        }


def recipes(task: Task, m: int, names: Sequence[str] | None = None) -> list[Recipe]:
    """The kinds of candidates with m examples: in turn a counter-stereotypical and another kind.

    Counter-stereotypical examples change the gap most: of groups with low base rates they are
    mostly yes, of groups with high base rates mostly no.
    """
    usable = [
        name for name in strategies() if name not in _LEFT_OUT and not is_per_row(name)
    ]
    if names is None:
        chosen = usable
    else:
        chosen = list(names)
    for name in chosen:
        if is_per_row(name):
            raise FwcError(
                f"{name} chooses anew for every row: there would be no shots.json to keep"
            )
        if name in _LEFT_OUT:
            raise FwcError(
                f"tune does not try {name}: it has no examples, or needs the ids of rows"
            )
    counter = list[Recipe]()
    others = list[Recipe]()
    for name in chosen:
        if name == "strata":
            for share, more in COUNTER_TABLES:
                slots = counter_slots(task, m, share, more)
                counter.append(Recipe(f"strata {slots}", name, {"slots": slots}))
        elif name == "fwc":
            others += [Recipe(label, "fwc", {}, epsilon) for label, epsilon in _FWC]
        else:
            others.append(Recipe(name, name))
    turns = range(max(len(counter), len(others)))  # the shorter list starts again
    return [
        kinds[turn % len(kinds)]
        for turn in turns
        for kinds in (counter, others)
        if kinds
    ]


def choose_candidates(
    task: Task,
    split: Split,
    count: int,
    sizes: Sequence[int],
    templates: Sequence[str],
    orders: Sequence[str] | None,
    seed: int,
    names: Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> tuple[list[Candidate], list[str]]:
    """Choose `count` candidates; also return the reasons for kinds that failed."""
    by_size = [recipes(task, m, names) for m in sizes]
    kinds = [
        pair
        for same in zip(*by_size, strict=True)
        for pair in zip(sizes, same, strict=True)
    ]
    if not kinds:
        raise FwcError(
            "no strategy is left to choose candidates: name some with --strategies"
        )
    variants = list(product(templates, orders or _ORDERS))
    chosen: list[Candidate] = []
    refused: dict[str, str] = {}
    for number in range(4 * count + 4 * len(kinds)):
        if len(chosen) == count:
            break
        turn, index = divmod(number, len(kinds))
        m, recipe = kinds[index]
        if f"{recipe.label}, m={m}" in refused:
            continue
        if progress:
            progress(f"choosing candidate {len(chosen) + 1} of {count}: {recipe.label}")
        # Over the turns, every kind meets every pair of template and order.
        pair = index // (2 * len(sizes))  # of two kinds in all sizes
        template, order = variants[(turn + pair) % len(variants)]
        own_seed = seed + 1 + number
        try:
            shots = select_shots(
                task,
                recipe.strategy,
                m,
                recipe.epsilon,
                own_seed,
                split.pool,
                split.candidates,
                order=check_order(order),
                progress=False,
                **recipe.options,
            )
        except FwcError as error:
            refused[f"{recipe.label}, m={m}"] = str(error)
            continue
        name = f"candidate-{len(chosen) + 1:03d}"
        chosen.append(Candidate(name, recipe, own_seed, order, template, shots))
    if not chosen:
        raise FwcError(f"no candidate can be chosen: {next(iter(refused.values()))}")
    return chosen, [f"{label}: {reason}" for label, reason in refused.items()]
