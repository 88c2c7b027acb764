"""Answers drawn from known populations; `evals.coverage` has more of them, and says what is
true.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.counts import COUNTED
from fwc_llm.metrics.run_answers import ArmAnswers, one_name
from fwc_llm.metrics.sampling_design import SamplingDesign
from fwc_llm.metrics.variance import ArmArrays, arrays_of

ADULT = (
    9000,
    1100,
    7000,
    3200,
)  # rows of each group with label no and yes: about Adult's test file
DRAWN = (75, 25, 25, 75)  # of them in a repeat: a base-rate parity of 0.5


@dataclass(frozen=True)
class World:
    """Adult's table, `yes` (G, 2) each cell's share of yes, and what a repeat draws: all at
    random unless `fixed`.

    A row's answer is the same in every repeat; `shift` is the standard deviation of what another
    draw of examples adds to all answers; `lost` is the share that cannot be parsed.
    """

    yes: tuple[tuple[float, float], ...]
    repeats: int = 1
    fixed: bool = True
    shift: float = 0.0
    redrawn: bool = False
    lost: float = 0.0

    def arms(self, rng: np.random.Generator, *others: "World") -> list[ArmArrays]:
        """Answers of this world, and of others to the same questions."""
        cell = np.repeat(np.arange(4), ADULT)
        row = np.concatenate([self._rows(rng, cell) for _ in range(self.repeats)])
        repeat = np.repeat(np.arange(self.repeats), sum(DRAWN))
        place = np.unique(row, return_inverse=True)[1]
        group = cell[row] // 2
        label = cell[row] % 2
        samples = []
        for world in (self, *others):
            shift = rng.normal(0.0, world.shift, self.repeats)[repeat]
            chance = np.clip(np.array(world.yes)[group, label] + shift, 0.0, 1.0)
            answer = (rng.random(len(cell))[row] < chance).astype(float)
            answer[rng.random(len(row)) < world.lost] = np.nan
            examples = repeat if world.redrawn else None
            samples.append(
                ArmArrays(
                    answer,
                    label,
                    group,
                    repeat,
                    place,
                    2,
                    SamplingDesign(world.fixed),
                    examples,
                )
            )
        return samples

    def _rows(self, rng: np.random.Generator, cell: np.ndarray) -> np.ndarray:
        if not self.fixed:
            return rng.choice(len(cell), sum(DRAWN), replace=False)
        return np.concatenate(
            [
                rng.choice(np.flatnonzero(cell == k), n, replace=False)
                for k, n in enumerate(DRAWN)
            ]
        )


def answers_of(
    said: Any, p_yes: Any = np.nan, groups: str = "ab", label: int = 0, repeat: Any = 0
) -> ArmAnswers:
    """One arm's answers to as many rows, whose groups take turns."""
    n = len(said)
    none = one_name("", len(said))
    every = {"variant": none, "reason": none, "examples": none}
    return ArmAnswers(
        repeat=np.broadcast_to(np.array(repeat), n),
        row=np.array([f"row:{k}" for k in range(n)]),
        group=np.array([*groups] * n)[:n],
        label=np.full(n, label, np.int8),
        answer=np.array(said, float),
        p_yes=np.broadcast_to(np.array(p_yes, float), n),
        **every,
    )


def metrics_of(*answers: Any, weight: Any = None) -> SimpleNamespace:
    """The metrics of answers, labels and groups as one repeat has them, rates by group."""
    sample, names = arrays_of(*answers, weight)
    found = ArmEstimates(sample)

    def by_group(rate: str) -> dict[str, float]:
        return dict(zip(names, found.counted(rate).values.tolist(), strict=True))

    return SimpleNamespace(
        **{
            key: found.value(key)
            for key in ("coverage", *(metric.key for metric in COUNTED))
        },
        rates=by_group("selection_rate"),
        coverage_by_group=by_group("coverage"),
        reasons={
            metric.key: found.undefined(metric.key, names)
            for metric in COUNTED
            if np.isnan(found[metric.key].value)
        },
    )


@st.composite
def random_arms(draw: st.DrawFn) -> list[ArmArrays]:
    """Two arms' answers to the same questions: few or many, some unparsed, groups of one row,
    rows asked again, every design.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    groups = draw(st.integers(1, 4))
    repeats = draw(st.sampled_from([1, 2, 5, 8]))
    group = np.r_[np.arange(groups), rng.integers(0, groups, draw(st.integers(1, 60)))]
    label = rng.integers(0, 2, len(group))
    n = min(draw(st.integers(1, 30)), len(group))
    row = np.concatenate(
        [rng.choice(len(group), n, replace=False) for _ in range(repeats)]
    )
    repeat = np.repeat(np.arange(repeats), n)
    design = SamplingDesign(draw(st.booleans()))
    found = []
    for _ in range(2):
        rate = draw(st.sampled_from([0.0, 0.02, 0.1, 0.4, 1.0]))
        chance = np.where(group[row] == 0, rate, draw(st.sampled_from([rate, 0.5])))
        answer = (rng.random(len(row)) < chance) * 1.0
        answer[rng.random(len(row)) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = np.nan
        examples = draw(
            st.sampled_from([None, repeat, repeat // 2, np.arange(len(row))])
        )
        arrays = (answer, label[row], group[row], repeat, row)
        found.append(ArmArrays(*arrays, groups, design, examples))
    return found
