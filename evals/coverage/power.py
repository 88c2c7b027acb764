"""Power: what `fwc_llm.metrics.planning` predicts, what the tests reach, and what permuting rows would."""

from dataclasses import asdict, dataclass
from typing import Any
from zlib import crc32

import numpy as np

from evals.coverage.audits import array_audit
from evals.coverage.populations import ADULT_200, GERMAN_100, PAIR
from evals.coverage.readings import LEVEL, Verdict, read
from evals.coverage.worlds import STRATEGY, Floats, Sample, World
from fwc_llm.metrics.planning import Design, accuracy_variance, gap_variance, power

_PERMUTATIONS = 999


def _pair(first: tuple[float, float], second: tuple[float, float]) -> PAIR:
    """Two arms by their groups' rates of yes, whatever the label."""
    return tuple(tuple((rate, rate) for rate in rates) for rates in (first, second))  # type: ignore[return-value]


_TENTH, _FIFTH = _pair((0.3, 0.5), (0.3, 0.6)), _pair((0.35, 0.45), (0.3, 0.6))
_OPPOSITE = _pair((0.55, 0.45), (0.45, 0.55))
_BETTER: PAIR = (((0.3, 0.7), (0.3, 0.7)), ((0.25, 0.75), (0.25, 0.75)))
POWER_WORLDS: tuple[World, ...] = (
    ADULT_200.world("gap 0.2 against 0.3", _TENTH, 1, agreement=0.8),
    ADULT_200.world("gap 0.2 against 0.3", _TENTH, 1, agreement=0.5),
    ADULT_200.world("gap 0.1 against 0.3", _FIFTH, 1, agreement=0.8),
    ADULT_200.world("gap 0.1 against 0.3", _FIFTH, 1, agreement=0.5),
    ADULT_200.world("gap 0.1 the other way", _OPPOSITE, 1, agreement=0.8),
    ADULT_200.world("gap 0.1 the other way", _OPPOSITE, 1, agreement=0.95),
    ADULT_200.world("gap 0.2 against 0.3", _TENTH, 5, examples=("once", "once"), correlation=1.0),
    ADULT_200.world("gap 0.2 against 0.3", _TENTH, 5, group_shift=0.02, correlation=1.0),
    ADULT_200.world("gap 0.2 against 0.3", _TENTH, 20, group_shift=0.02, correlation=1.0),
    GERMAN_100.world("gap 0.2 against 0.3", _TENTH, 20, examples=("once", "once"), correlation=1.0),
    GERMAN_100.world("gap 0.2 against 0.3", _TENTH, 20, group_shift=0.02, correlation=1.0),
    ADULT_200.world("accuracy 0.70 against 0.75", _BETTER, 1, agreement=0.8),
    ADULT_200.world("accuracy 0.70 against 0.75", _BETTER, 5, examples=("once", "once"), correlation=1.0),
    ADULT_200.world("accuracy 0.70 against 0.75", _BETTER, 20, correlation=1.0),
)  # fmt: skip


@dataclass(frozen=True)
class PowerTally:
    """Of one world's paired test: the true difference, and how often it is found.

    `permutation` is the power of permuting the answers within rows, for the gap at one repeat; else None.
    """

    name: str
    quantity: str
    of: str
    difference: float
    discordant: float
    runs: int
    predicted: float
    simulated: float
    permutation: float | None

    def as_json(self) -> dict[str, Any]:
        """The tally as a plain object."""
        return asdict(self)


def measure_power(world: World, runs: int, seed: int = 0) -> PowerTally:
    """Draw `runs` runs and test each."""
    metric = "accuracy" if ", accuracy " in world.name else "demographic_parity_difference"
    rng = np.random.default_rng([seed, crc32(world.name.encode())])
    found = permuted = 0
    of = ""
    for _ in range(runs):
        sample = world.draw(rng)
        document = array_audit(sample)
        (test,) = (
            one
            for one in read(document, sample)
            if isinstance(one, Verdict) and one.quantity == f"{metric}, two arms"
        )
        of = test.of
        found += test.rejects
        if world.repeats == 1 and metric != "accuracy":
            permuted += permutation_p(sample, rng) < LEVEL
    return PowerTally(
        name=world.name,
        quantity=metric,
        of=of,
        difference=_difference(world, metric),
        discordant=float((world.weights * discordant(world)).sum()),
        runs=runs,
        predicted=predicted(world, metric, of),
        simulated=found / runs,
        permutation=permuted / runs if world.repeats == 1 and metric != "accuracy" else None,
    )


def discordant(world: World) -> Floats:
    """Share of rows per cell (G, 2) that the arms answer differently."""
    first, second = (np.asarray(one) for one in world.yes)
    apart = first * (1 - second) + second * (1 - first)
    return np.asarray(world.agreement * np.abs(first - second) + (1 - world.agreement) * apart)


def predicted(world: World, metric: str, of: str) -> float:
    """The power that the formulas give, from the world's own share of discordant rows."""
    design = Design(
        world.groups, np.asarray(world.rows, float), np.asarray(world.table, float), world.repeats
    )
    share = float((world.weights * discordant(world)).sum())
    if abs(_difference(world, metric)) < 1e-9:
        return LEVEL
    variance = accuracy_variance if metric == "accuracy" else gap_variance
    known = variance(design, share, world.correlation)
    if of != STRATEGY:
        return power(_difference(world, metric), known)
    sets = 0.0 if metric == "accuracy" else 4 * world.group_shift**2 / world.repeats  # two arms, two groups
    return power(_difference(world, metric), known + sets, world.repeats - 1)


def permutation_p(sample: Sample, rng: np.random.Generator) -> float:
    """The p-value of the difference in |gap| when the two answers to a row are exchanged at random, R = 1."""
    group = sample.cell[0] // 2
    signs = np.where(group == 1, 1 / (group == 1).sum(), -1 / (group == 0).sum())
    first, second = sample.answers[:, 0] * signs
    swaps = rng.random((_PERMUTATIONS, len(signs))) < 0.5
    moved = swaps @ (second - first)
    apart = np.abs(np.abs(first.sum() + moved) - np.abs(second.sum() - moved))
    observed = abs(abs(first.sum()) - abs(second.sum()))
    return float((1 + (apart >= observed - 1e-12).sum()) / (1 + _PERMUTATIONS))


def _difference(world: World, metric: str) -> float:
    return world.of_strategies[1][metric] - world.of_strategies[0][metric]
