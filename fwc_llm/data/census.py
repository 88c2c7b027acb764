"""The simulated census: rows with Adult's columns, drawn from count tables.

evals/fit_census.py made `census.json`, a small Bayesian network of counts, from the training rows
of UCI Adult. The file has no original row and no count below 5. Every output from these rows is
marked as simulated. evals/results/census.md compares them with Adult.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fwc_llm.apportion import largest_remainder
from fwc_llm.meaning import Meaning
from fwc_llm.sanitize import Fields, Json
from fwc_llm.taskfile import TaskFile

if TYPE_CHECKING:
    from fwc_llm.data.clean_table import CleanTables

TABLES = Path(__file__).with_name("census.json")
N_POOL, N_TEST = 30_162, 15_060  # numbers of Adult's rows without missing values
SEED = 1994  # the year of Adult's census; no other seed was tried
_TRIES = 60  # most draws of a value that an earlier table counts already


def census_tables(
    adult: TaskFile, n_pool: int = N_POOL, n_test: int = N_TEST, seed: int = SEED
) -> "CleanTables":
    """Simulate pool and test rows with the columns of `adult`, a task file."""
    from fwc_llm.data.clean_table import CleanTables

    frames = []
    for part, (n, name) in enumerate(((n_pool, "data"), (n_test, "test"))):
        frame = simulate(n, seed=(seed, part))[
            [column.name for column in adult.columns]
        ]
        outcome = adult.outcome.source
        frame[outcome] = np.where(frame[outcome] == ">50K", "yes", "no")
        frame.index = pd.Index(
            [f"census.{name}:{row}" for row in range(1, n + 1)], dtype="str"
        )
        frames.append(frame.astype({outcome: "str"}))
    note = f"simulated, seed {seed}: {n_pool:,} rows to choose examples from, {n_test:,} to test on"
    meaning = Meaning(adult.outcome.positive, adult.outcome.negative)
    return CleanTables(frames[0], frames[1], meaning, (note,))


def simulate(n: int, seed: int | tuple[int, ...] = SEED) -> pd.DataFrame:
    """Draw `n` simulated rows with Adult's columns and raw values, index 0..n−1."""
    network = json.loads(TABLES.read_text(encoding="utf-8"))
    rng = np.random.default_rng(seed)
    counts = np.array(network["joint"]["counts"], dtype=np.float64)
    sizes = largest_remainder(
        counts.ravel() / counts.sum() * n, n
    )  # exact joint shares of sex and income
    cells = rng.permutation(np.repeat(np.arange(sizes.size), sizes))
    codes = dict(
        zip(
            network["joint"]["values"],
            np.unravel_index(cells, counts.shape),
            strict=True,
        )
    )
    for node in network["nodes"]:
        codes[node["name"]] = _draw(node, codes, n, rng)
        band = node.get("band")
        if band:  # other columns are conditioned on a numeric column's band
            values = np.array(node["values"])
            codes[band["name"]] = np.searchsorted(band["from"], values, side="right")[
                codes[node["name"]]
            ]
    columns: Json = {}
    for name, values in network["joint"]["values"].items():
        columns[name] = np.array(values, dtype=object)[codes[name]]
    for node in network["nodes"]:
        values = np.array(
            node["values"],
            dtype=object if isinstance(node["values"][0], str) else np.int64,
        )
        column = values[codes[node["name"]]]
        if (
            "until" in node
        ):  # the values are intervals of integers: draw uniformly within each
            column = rng.integers(
                column, np.array(node["until"])[codes[node["name"]]], endpoint=True
            )
        columns[node["name"]] = column
    for name, twin in network[
        "twins"
    ].items():  # columns that another column determines
        columns[name] = (
            pd.Series(columns[twin["of"]]).map(twin["values"]).to_numpy(dtype=np.int64)
        )
    return pd.DataFrame(columns)


def _draw(
    node: Fields, codes: Mapping[str, np.ndarray], n: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw one node's codes (n,) given the codes of its parents.

    The first table conditions on all parents, each next table on one parent less. A row uses the
    next table if a table has no count for it, and then draws only values that no earlier table
    counts for it.
    """
    n_values = len(node["values"])
    drawn = np.full(n, -1, dtype=np.int64)
    pending = np.arange(n)
    before: list[
        tuple[_Tabulated, np.ndarray]
    ] = []  # the tables so far, and every row's context in them
    for depth in range(len(node["parents"]), -1, -1):
        table = _Tabulated(node["tables"][len(node["parents"]) - depth], n_values)
        context = np.zeros(n, dtype=np.int64)
        for parent, size in zip(
            node["parents"][:depth], node["sizes"][:depth], strict=True
        ):
            context = context * size + codes[parent]
        rows = pending
        for _ in range(_TRIES):
            drawn[rows] = table.draw(context[rows], rng)
            again = np.zeros(rows.size, dtype=bool)
            for longer, contexts in before:
                again |= longer.counts(contexts[rows], drawn[rows])
            rows = rows[again]
            if not rows.size:
                break
        if depth:
            drawn[rows] = -1
        before.append((table, context))
        pending = pending[drawn[pending] < 0]
    return drawn


class _Tabulated:
    """Draws values from entries [context, dropped count, value, count, …], sorted by context."""

    def __init__(self, entries: list[list[int]], n_values: int) -> None:
        values = []
        edges = []
        keys = []
        for number, entry in enumerate(entries):
            counts = np.array([entry[1], *entry[3::2]], dtype=np.float64)
            values += [-1, *entry[2::2]]
            edges.append(number + np.cumsum(counts) / counts.sum())
            keys += [entry[0] * n_values + value for value in entry[2::2]]
        self.n_values = n_values
        self.contexts = np.array([entry[0] for entry in entries], dtype=np.int64)
        self.values = np.array(values, dtype=np.int64)
        self.edges = np.concatenate(
            edges
        )  # increasing: entry number + cumulative share
        self.keys = np.array(keys, dtype=np.int64)

    def draw(self, context: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One value per row; −1 without an entry, or for a dropped share."""
        entry = np.minimum(
            np.searchsorted(self.contexts, context), self.contexts.size - 1
        )
        index = np.searchsorted(
            self.edges, entry + rng.random(context.size), side="right"
        )
        in_table = self.contexts[entry] == context
        return np.where(
            in_table, self.values[np.minimum(index, self.values.size - 1)], -1
        )

    def counts(self, context: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Whether the table has a count for each row's context and value."""
        key = context * self.n_values + value
        places = np.minimum(np.searchsorted(self.keys, key), self.keys.size - 1)
        counted: np.ndarray = (self.keys[places] == key) & (value >= 0)
        return counted
