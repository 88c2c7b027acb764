"""How close the simulated census is to UCI Adult: evals/results/census.md and census.json.

    python evals/census_closeness.py --data-dir DATA

Margins are compared by total variation distance, half the sum of absolute differences of shares.
The distance of a second real sample (adult.test) shows the effect of sampling alone. Two logistic
regressions, trained on simulated rows and on adult.data, are tested on adult.test.
"""

import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evals.record import command_line, markdown, write
from fwc_llm.data.census import N_POOL, SEED, TABLES, simulate
from fwc_llm.runs.splits import row_values
from fwc_llm.tasks import Task, census_task, load_task

COMMAND = "python evals/fit_census.py && python evals/census_closeness.py"
_BINS = 10  # quantile bins of the real column, for comparing numeric columns


def distances(
    simulated: pd.DataFrame, real: pd.DataFrame, task: Task
) -> tuple[dict[str, float], dict[str, float]]:
    """Total variation distances of all one-way and all two-way margins."""
    coded = {
        column.name: _codes(simulated[column.name], real[column.name], column.kind)
        for column in task.columns
    }
    one = {name: _distance(first, second) for name, (first, second) in coded.items()}
    two = {}
    for left, right in combinations(coded, 2):
        width = 1 + max(part.max() for part in coded[right])
        pairs = [coded[left][part] * width + coded[right][part] for part in (0, 1)]
        two[f"{left} × {right}"] = _distance(pairs[0], pairs[1])
    return one, two


def _codes(
    simulated: pd.Series, real: pd.Series, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    if kind == "numeric":
        # Most capital gains are 0: the others get separate bins.
        others = real[real != real.mode().iloc[0]]
        inner = np.linspace(0, 1, _BINS + 1)[1:-1]
        edges = np.unique(
            np.concatenate([np.quantile(real, inner), np.quantile(others, inner)])
        )
        return np.searchsorted(edges, simulated, side="right"), np.searchsorted(
            edges, real, side="right"
        )
    values = pd.Index(pd.unique(pd.concat([simulated, real])))
    return values.get_indexer(pd.Index(simulated)), values.get_indexer(pd.Index(real))


def _distance(first: np.ndarray, second: np.ndarray) -> float:
    size = 1 + max(first.max(), second.max())
    shares = [
        np.bincount(codes, minlength=size) / codes.size for codes in (first, second)
    ]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def regression_accuracy(train: pd.DataFrame, test: pd.DataFrame, task: Task) -> float:
    """Accuracy on `test` of a logistic regression fitted to `train` (standardised numbers,
    one-hot words).
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    inputs = [column for column in task.shown if column.role == "feature"]
    numeric = [column.name for column in inputs if column.kind == "numeric"]
    words = [column.name for column in inputs if column.kind != "numeric"]
    encode = ColumnTransformer(
        [
            ("numbers", StandardScaler(), numeric),
            ("words", OneHotEncoder(handle_unknown="ignore"), words),
        ]
    )
    model = make_pipeline(encode, LogisticRegression(max_iter=2000))
    # Both tables have the words yes and no, and the rows of one are not known to the other.
    model.fit(train[numeric + words], train[task.outcome])
    return float(model.score(test[numeric + words], test[task.outcome]))


def measure(adult: Task, census: Task) -> dict[str, Any]:
    """All figures of the report."""
    pool, test, simulated = adult.pool(), adult.test(), census.pool()
    one, two = distances(simulated, pool, adult)
    one_real, two_real = distances(test, pool, adult)
    start = time.perf_counter()
    simulate(50_000, seed=SEED)
    seconds = time.perf_counter() - start
    originals = set(row_values(adult, pool))
    return {
        "simulated": True,
        "command": COMMAND,
        "rows": N_POOL,
        "seed": SEED,
        "table_bytes": TABLES.stat().st_size,
        "seconds_50000_rows": round(seconds, 3),
        "one_way": {name: round(value, 4) for name, value in one.items()},
        "one_way_mean": round(float(np.mean(list(one.values()))), 4),
        "one_way_mean_real_sample": round(float(np.mean(list(one_real.values()))), 4),
        "two_way_mean": round(float(np.mean(list(two.values()))), 4),
        "two_way_mean_real_sample": round(float(np.mean(list(two_real.values()))), 4),
        "two_way_largest": {
            name: round(two[name], 4)
            for name in sorted(two, key=two.__getitem__)[:-11:-1]
        },
        "accuracy_trained_on_real": round(regression_accuracy(pool, test, adult), 4),
        "accuracy_trained_on_simulated": round(
            regression_accuracy(simulated, test, adult), 4
        ),
        "accuracy_on_simulated": round(
            regression_accuracy(simulated, census.test(), adult), 4
        ),
        "share_equal_to_an_original": round(
            np.mean([row in originals for row in row_values(adult, simulated)]), 4
        ),
        "share_of_real_sample_equal": round(
            np.mean([row in originals for row in row_values(adult, test)]), 4
        ),
    }


def as_markdown(figures: dict[str, Any]) -> str:
    """The report as Markdown."""
    value = dict(figures)
    value["gap"] = 100 * (
        value["accuracy_trained_on_real"] - value["accuracy_trained_on_simulated"]
    )
    one = [(name, f"{distance:.3f}") for name, distance in figures["one_way"].items()]
    two = [
        (name, f"{distance:.3f}")
        for name, distance in figures["two_way_largest"].items()
    ]
    return (
        """# How close the simulated census is to UCI Adult

Made by `{command}`:
{rows:,} simulated rows (seed {seed}) against adult.data. Every figure is about simulated rows.

* A logistic regression trained on simulated rows answers {accuracy_trained_on_simulated:.1%} of adult.test
  correctly, one trained on adult.data {accuracy_trained_on_real:.1%}: a gap of {gap:.1f} points.
* One-way margins differ by {one_way_mean:.3f} on average (total variation distance), two-way margins by
  {two_way_mean:.3f}. A second real sample, adult.test, differs from adult.data by
  {one_way_mean_real_sample:.3f} and {two_way_mean_real_sample:.3f}.
* {share_equal_to_an_original:.1%} of the simulated rows equal a row of adult.data in all columns but the
  sampling weight, as {share_of_real_sample_equal:.1%} of adult.test's rows do: common rows repeat.
* The tables take {table_bytes:,} bytes; 50,000 rows take {seconds_50000_rows} s.
""".format_map(value)
        + f"""
{markdown(["one-way margin", "distance"], one)}
{markdown(["two-way margins that differ most", "distance"], two)}"""
    )


def main() -> None:
    """Measure and write both reports."""
    parser = command_line(__doc__)
    parser.add_argument("--data-dir", type=Path, default=None)
    figures = measure(load_task("adult", parser.parse_args().data_dir), census_task())
    write("census", figures, as_markdown(figures))
    print(as_markdown(figures))


if __name__ == "__main__":
    main()
