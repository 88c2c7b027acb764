"""Compares strategies on one task: distance, parity, time and tokens."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fwc_llm.coreset.distance import wasserstein
from fwc_llm.coreset.problem.ground_cost import cost_matrix
from fwc_llm.coreset.transport.parity import violation
from fwc_llm.errors import FwcError
from fwc_llm.models.tokens import TokenCounter
from fwc_llm.prompts import Prompt
from fwc_llm.shots.base import DEFAULT_M, Shots
from fwc_llm.shots.examples import labelled_pool
from fwc_llm.shots.registry import (
    ONLY_BY_NAME,
    accepted_options,
    is_per_row,
    strategies,
)
from fwc_llm.shots.select import select_shots
from fwc_llm.tasks import Task, sampling_weights

if TYPE_CHECKING:
    from fwc_llm.coreset.rivals.base import LabelledTable

QUERIES = 20


@dataclass(frozen=True)
class StrategyComparison:
    """Measurements of one strategy's examples; None if it has no examples (`note`).

    The table's rows have their sampling weights, if the task has any; examples without weights
    count equally. `distance` is the exact Wasserstein distance to the table in the cost of FWC: L1
    over z-scored numbers, plus 1 for each category that differs, for a different level and outcome.
    """

    strategy: str
    m: int = 0
    distance: float | None = None
    clustering_cost: float | None = (
        None  # mean squared L2 distance of the rows to the nearest example
    )
    violation: float | None = (
        None  # largest |p(y|d) / p(y) − 1| over the levels d with weight
    )
    positives: Mapping[str, tuple[float, float]] | None = (
        None  # by level: (examples with yes, examples)
    )
    tokens: float | None = None  # of one prompt
    seconds: float | None = None  # to choose one set of examples
    note: str = ""
    spent: float = 0.0  # seconds for choosing and measuring


def compare(
    task: "Task",
    names: Sequence[str] | None = None,
    m: int = DEFAULT_M,
    epsilon: float | None = 0.01,
    seed: int = 0,
    template: str | Path = "default",
    model: str = "gpt-4",
    options: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[StrategyComparison]:
    """Choose examples from the task's pool by each strategy, and measure them."""
    pool = task.pool()
    test = task.test()
    drawn = test.iloc[np.random.default_rng(seed).permutation(len(test))[:QUERIES]]
    queries: Any = drawn.drop(columns=task.outcome).to_dict("records")
    rows = labelled_pool(task, pool, sampling_weights(task, pool))
    counter = TokenCounter(model, fetch=False)
    lines = []
    for name in names or [name for name in strategies() if name not in ONLY_BY_NAME]:
        if progress:
            progress(f"comparing: {name}")
        accepted = accepted_options(name)
        strategy_options = {
            key: value
            for key, value in (options or {}).items()
            if accepted is None or key in accepted
        }
        start = time.perf_counter()
        try:
            chosen = [
                select_shots(
                    task,
                    name,
                    m,
                    epsilon,
                    seed,
                    query=query,
                    progress=False,
                    **strategy_options,
                )
                for query in (queries if is_per_row(name) else [None])
            ]
        except FwcError as error:
            lines.append(StrategyComparison(name, note=str(error)))
            continue
        seconds = (time.perf_counter() - start) / len(chosen)
        line = _average([measure(shots, rows, pool) for shots in chosen])
        tokens = [
            counter.count(Prompt(task, shots, template).build(queries[0]))
            for shots in chosen
        ]
        line = replace(
            line, strategy=name, tokens=float(np.mean(tokens)), seconds=seconds
        )
        lines.append(replace(line, spent=time.perf_counter() - start))
    return lines


def measure(
    shots: Shots, rows: "LabelledTable", pool: "pd.DataFrame"
) -> StrategyComparison:
    """Measure `shots`; `rows` is the encoded pool."""
    note = str(shots.options.get("note", ""))
    if not shots.examples:
        return StrategyComparison(shots.strategy, note=note or "no examples")
    positions = pool.index.get_indexer(
        pd.Index([example.row for example in shots.examples], dtype=object)
    )
    weights = np.array(
        [
            1.0 if example.weight is None else example.weight
            for example in shots.examples
        ]
    )
    examples = rows.take(positions)
    codes = rows.codes[positions]
    target = np.bincount(rows.codes[:, -1], rows.mass)
    carried = np.zeros((len(rows.levels), len(rows.outcomes)))
    np.add.at(carried, (codes[:, -2], codes[:, -1]), weights)
    yes = rows.outcomes[codes[:, -1]] == 1
    by_level = {
        str(name): codes[:, -2] == level for level, name in enumerate(rows.levels)
    }
    return StrategyComparison(
        shots.strategy,
        shots.m,
        wasserstein(cost_matrix(rows, examples, "l1"), weights, rows.masses).objective,
        float(
            np.average(
                cost_matrix(rows, examples, "sqeuclidean").min(axis=1),
                weights=rows.mass,
            )
        ),
        violation(carried, target / target.sum()),
        {
            name: (float(np.sum(yes & in_level)), float(np.sum(in_level)))
            for name, in_level in by_level.items()
        },
        note=note,
    )


def _average(measured: Sequence[StrategyComparison]) -> StrategyComparison:
    """The mean over test rows for a strategy that chooses per row."""
    first = measured[0]
    levels = [line.positives for line in measured if line.positives]
    if len(measured) == 1 or not levels:
        return first
    names = ("distance", "clustering_cost", "violation")
    means: Any = {
        name: float(np.mean([getattr(line, name) for line in measured]))
        for name in names
    }
    means["positives"] = {
        name: tuple(np.mean([level[name] for level in levels], axis=0).tolist())
        for name in levels[0]
    }
    note = f"chosen for each row: values and seconds are means over {len(measured)} test rows"
    return replace(first, **means, note=note)
