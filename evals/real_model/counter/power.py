"""Power of the plan's primary contrasts, simulated from the answers of the first experiment
(answers.csv).

    python -m evals.real_model.counter.power

An arm's set is one of the ten recorded sets of balanced and FWC examples (experiment A, 200 rows
each). Each simulated set has its own rows, drawn as the plan draws them, and its threshold from
other rows of the cells.
"""

import numpy as np
import pandas as pd
from scipy.special import logit
from scipy.stats import t

from evals.real_model.ask import ANSWERS
from evals.real_model.counter.draw import EACH, ROUNDS, SETS
from evals.real_model.scores import holm

DROPS = (0.0, 0.10, 0.15, 0.20)
CONTRASTS = 4
_SIMULATED = 1000
_SEED = 73


def main() -> None:
    """Print the power by the number of sets and rounds: of one contrast, Holm over four."""
    recorded = pd.read_csv(ANSWERS).query("experiment == 'A' and arm != 'zero'")
    table = recorded.pivot(index="row", columns="arm", values="p_yes")
    log_odds = logit(table.to_numpy().T.clip(1e-9, 1 - 1e-9))
    facts = recorded.drop_duplicates("row").set_index("row").loc[table.index]
    cell = 2 * (facts["group"] == "Male") + (facts["label"] == "yes")
    cells = [np.flatnonzero(cell == number) for number in range(4)]
    rng = np.random.default_rng(_SEED)
    for rounds, sets in ((1, 6), (1, SETS), (2, SETS), (ROUNDS, SETS)):
        p_values = np.array(
            [_p_values(log_odds, cells, rounds, sets, rng) for _ in range(_SIMULATED)]
        )
        unadjusted = [
            (p_values[..., place] < 0.05).mean() for place in range(len(DROPS))
        ]
        adjusted = [_adjusted(p_values, place) for place in range(len(DROPS))]
        parts = zip(DROPS, unadjusted, adjusted, strict=True)
        words = "; ".join(
            f"drop {drop:.2f}: {plain:.2f}, Holm {held:.2f}"
            for drop, plain, held in parts
        )
        print(f"{sets} sets, {rounds} rounds: {words}")


def _p_values(
    log_odds: np.ndarray,
    cells: list[np.ndarray],
    rounds: int,
    sets: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Two-sided p-values (contrasts, drops) of one simulated experiment, t over its sets."""
    differences = np.array(
        [
            [_difference(log_odds, cells, rounds, rng) for _ in range(sets)]
            for _ in range(CONTRASTS)
        ]
    )
    error = differences.std(1, ddof=1) / np.sqrt(sets)
    ratios = (differences.mean(1)[:, None] - np.array(DROPS)) / error[:, None]
    return np.asarray(2 * t.sf(np.abs(ratios), sets - 1))


def _difference(
    log_odds: np.ndarray, cells: list[np.ndarray], rounds: int, rng: np.random.Generator
) -> float:
    """The difference of two sets' gaps at equal labels, on the same rows."""
    first, second = rng.choice(len(log_odds), 2, replace=False)
    drawn = [rng.permutation(rows) for rows in cells]
    threshold_rows = np.concatenate([rows[:EACH] for rows in drawn])
    scored = [rng.choice(rows[EACH:], rounds * EACH) for rows in drawn]
    gaps = []
    for values in (log_odds[first], log_odds[second]):
        yes = values > np.median(values[threshold_rows])
        rates = [yes[rows].mean() for rows in scored]
        gaps.append((rates[2] - rates[0] + rates[3] - rates[1]) / 2)
    return float(gaps[0] - gaps[1])


def _adjusted(p_values: np.ndarray, place: int) -> float:
    """Share of experiments that find the first contrast's drop, with no effect in the other
    three.
    """
    family = np.concatenate([p_values[:, :1, place], p_values[:, 1:, 0]], 1)
    return float(np.mean([holm(list(values))[0] < 0.05 for values in family]))


if __name__ == "__main__":
    main()
