"""The candidates of `tune`: sets of examples by strategy, slots, seed, order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from fwc_llm.errors import FwcError
from fwc_llm.notices import Say
from fwc_llm.runs.splits import Split
from fwc_llm.sanitize import Fields, Json
from fwc_llm.shots import is_per_row, select_shots, strategies
from fwc_llm.shots.base import Shots
from fwc_llm.shots.examples import counter_slots
from fwc_llm.shots.registry import ONLY_BY_NAME
from fwc_llm.shots.select import check_order
from fwc_llm.tasks import Task

# Arguments (share, more) of `counter_slots`.
COUNTER_TABLES = ((1.0, 0.0), (0.875, 0.0), (0.75, 0.0), (1.0, 0.25), (0.875, 0.25))
_FWC = {"fwc": 0.01, "fwc ε=0.1": 0.1, "fwc without a limit of parity": None}
_ORDERS = ("given", "random")
_LEFT_OUT = ONLY_BY_NAME | {"zero"}


@dataclass(frozen=True)
class Recipe:
    """The way to choose a candidate; `kind` names candidates that differ in chance alone."""

    kind: str
    strategy: str
    m: int
    options: Fields = field(default_factory=dict)
    epsilon: float | None = 0.01

    def choose(
        self, task: Task, split: Split, name: str, seed: int, order: str, template: str
    ) -> "Candidate":
        """Choose a candidate; `FwcError` if the table does not give it."""
        shots = select_shots(
            task,
            self.strategy,
            self.m,
            self.epsilon,
            seed,
            split.pool,
            split.candidates,
            order=check_order(order),
            progress=False,
            **self.options,
        )
        return Candidate(self, name, seed, order, template, shots)


@dataclass(frozen=True)
class Candidate:
    """One set of examples in one template set."""

    recipe: Recipe
    name: str
    seed: int
    order: str
    template: str
    shots: Shots = field(repr=False)

    def as_json(self) -> Json:
        """The candidate as in tuning.json."""
        return {
            "candidate": self.name,
            **vars(self.recipe),
            "m": self.shots.m,
            "seed": self.seed,
            "order": self.order,
            "template": self.template,
        }


def recipes(
    task: Task, sizes: Sequence[int], names: Sequence[str] | None = None
) -> list[Recipe]:
    """The recipes of all sizes: in turn a counter-stereotypical kind and another one.

    Counter-stereotypical examples change the gap most: of groups with low base rates they are
    mostly yes, of groups with high base rates mostly no.
    """
    counter = list[list[Recipe]]()
    others = list[list[Recipe]]()
    for name in _usable() if names is None else names:
        if is_per_row(name):
            raise FwcError(
                f"{name} chooses anew for every row: there would be no shots.json to keep"
            )
        if name in _LEFT_OUT:
            raise FwcError(
                f"tune does not try {name}: it has no examples, or needs the ids of rows"
            )
        if name == "strata":
            for table in COUNTER_TABLES:
                slots = {m: counter_slots(task, m, *table) for m in sizes}
                counter.append(
                    [
                        Recipe(f"strata {of}", name, m, {"slots": of})
                        for m, of in slots.items()
                    ]
                )
        elif name == "fwc":
            for kind, epsilon in _FWC.items():
                others.append([Recipe(kind, name, m, epsilon=epsilon) for m in sizes])
        else:
            others.append([Recipe(name, name, m) for m in sizes])
    found = list[Recipe]()
    for turn in range(max(len(counter), len(others))):  # the shorter list starts again
        for kinds in filter(None, (counter, others)):
            found += kinds[turn % len(kinds)]
    return found


def _usable() -> Iterator[str]:
    for name in strategies():
        if name not in _LEFT_OUT and not is_per_row(name):
            yield name


def choose_candidates(
    task: Task,
    split: Split,
    count: int,
    sizes: Sequence[int],
    templates: Sequence[str],
    orders: Sequence[str] | None,
    seed: int,
    names: Sequence[str] | None = None,
    progress: Say = lambda words: None,
) -> tuple[list[Candidate], list[str]]:
    """Choose `count` candidates; also return the reasons for kinds that failed."""
    kinds = recipes(task, sizes, names)
    if not kinds:
        raise FwcError(
            "no strategy is left to choose candidates: name some with --strategies"
        )
    variants = list(product(templates, orders or _ORDERS))
    chosen: list[Candidate] = []
    refused: dict[str, str] = {}
    for number in range(4 * count + 4 * len(kinds)):
        turn, index = divmod(number, len(kinds))
        recipe = kinds[index]
        label = f"{recipe.kind}, m={recipe.m}"
        if len(chosen) == count or label in refused:
            continue
        progress(f"choosing candidate {len(chosen) + 1} of {count}: {recipe.kind}")
        # Over the turns, every kind meets every pair of template and order.
        pair = index // (2 * len(sizes))  # of two kinds in all sizes
        template, order = variants[(turn + pair) % len(variants)]
        name = f"candidate-{len(chosen) + 1:03d}"
        try:
            chosen.append(
                recipe.choose(task, split, name, seed + 1 + number, order, template)
            )
        except FwcError as error:
            refused[label] = str(error)
    if not chosen:
        raise FwcError(f"no candidate can be chosen: {next(iter(refused.values()))}")
    return chosen, [f"{label}: {reason}" for label, reason in refused.items()]
