"""Answers drawn from known populations, so that what is true is known."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.variance import Sample

# Rows of each group with label no and yes: about Adult's test file, and a table as small as German credit.
ADULT = ((9000, 1100), (7000, 3200))
SMALL = ((109, 201), (191, 499))
PARITY = ((75, 25), (25, 75))  # 200 rows a repeat with a base-rate parity of 0.5


@dataclass(frozen=True)
class World:
    """A table of rows, how many of each cell a repeat draws (all at random unless `fixed`), and the answers.

    `yes` (G, 2) is each cell's share of yes; a row's answer is the same in every repeat with probability
    √`alike`; `shift` is the standard deviation of what another draw of examples adds to all answers; `lost`
    (G, 2) is the share that cannot be parsed.
    """

    yes: tuple[tuple[float, float], ...]
    table: tuple[tuple[int, int], ...] = ADULT
    drawn: tuple[tuple[int, int], ...] = PARITY
    repeats: int = 1
    fixed: bool = True
    alike: float = 1.0
    shift: float = 0.0
    redrawn: bool = False
    lost: tuple[tuple[float, float], ...] | None = None

    def arms(self, rng: np.random.Generator, *others: "World") -> list[Sample]:
        """Answers of this world, and of others to the same questions."""
        size, groups = np.ravel(self.table), len(self.table)
        ends = np.concatenate([[0], np.cumsum(size)])
        cell = np.repeat(np.arange(2 * groups), size)
        picked = [self._draw(rng, ends) for _ in range(self.repeats)]
        row = np.concatenate(picked)
        repeat = np.repeat(np.arange(self.repeats), len(picked[0]))
        place = np.unique(row, return_inverse=True)[1]
        asked = cell[row] // 2, cell[row] % 2
        return [world.answer(rng, row, repeat, asked, place) for world in (self, *others)]

    def _draw(self, rng: np.random.Generator, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        counts = np.ravel(self.drawn)
        if not self.fixed:
            return rng.choice(ends[-1], counts.sum(), replace=False)
        cells = zip(ends[:-1], ends[1:], counts, strict=True)
        return np.concatenate([a + rng.choice(b - a, n, replace=False) for a, b, n in cells])

    def answer(
        self,
        rng: np.random.Generator,
        row: npt.NDArray[np.int64],
        repeat: npt.NDArray[np.int64],
        asked: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
        place: npt.NDArray[np.int64],
    ) -> Sample:
        """One arm's answers to the questions `row` of the repeats."""
        group, label = asked
        always = rng.random(int(np.sum(self.table)))[row]
        draw = np.where(rng.random(len(row)) < np.sqrt(self.alike), always, rng.random(len(row)))
        shift = rng.normal(0.0, self.shift, self.repeats)[repeat]
        answer = (draw < np.clip(np.array(self.yes)[group, label] + shift, 0.0, 1.0)).astype(float)
        if self.lost is not None:
            answer[rng.random(len(row)) < np.array(self.lost)[group, label]] = np.nan
        examples = repeat if self.redrawn else None
        return Sample(answer, label, group, repeat, place, len(self.table), self.fixed, examples)

    def truth(self) -> dict[str, float]:
        """The metrics' true values."""
        p = np.array(self.yes)
        weight = np.array(self.drawn if self.fixed else self.table, dtype=float)
        if self.lost is not None:
            weight = weight * (1 - np.array(self.lost))
        rates = (weight * p).sum(1) / weight.sum(1)
        right = np.stack([1 - p[:, 0], p[:, 1]], axis=1)
        return {
            "accuracy": float((weight * right).sum() / weight.sum()),
            "demographic_parity_difference": float(np.ptp(rates)),
            "demographic_parity_ratio": float(rates.min() / rates.max()),
            "equalized_odds_difference": float(np.ptp(p, axis=0).max()),
        }
