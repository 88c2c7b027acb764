"""Count UCI Adult's training rows into the tables of the simulated census:
fwc_llm/data/census.json.

    python evals/fit_census.py --data-dir DATA

A small Bayesian network. Sex and income are joint. Every other column is counted given its parents,
in tables that drop the last parent one by one. Counts below 5 are removed from every table. The sum
of a context's removed counts is kept: the next table decides that share of the draws. A sum below 5
is rounded at random to 0 or 5 without bias: rare values lose no mass, and no number below 5 is
written.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evals.record import command_line
from fwc_llm.data.census import TABLES
from fwc_llm.tasks import load_task

SMALLEST = 5
JOINT = ("sex", "income")
AGE_BANDS = [
    20,
    23,
    26,
    29,
    33,
    38,
    43,
    48,
    53,
    58,
    63,
    68,
]  # the first age of each band but the first
# Each column's parents, the most informative first: the last is dropped first.
PARENTS: dict[str, tuple[str, ...]] = {
    "age": ("income", "sex"),
    "education": ("income", "age band", "sex"),
    "marital-status": ("income", "age band", "sex", "education"),
    "relationship": ("marital-status", "sex", "income", "age band"),
    "occupation": ("education", "income", "sex", "age band"),
    "workclass": ("occupation", "income", "age band", "education"),
    "hours-per-week": ("income", "sex", "age band", "workclass", "occupation"),
    "race": ("relationship", "sex", "income"),
    "native-country": ("race", "education", "income", "occupation"),
    "capital-gain": ("income", "age band", "marital-status"),
    "capital-loss": ("capital gain band", "income", "marital-status"),
    "fnlwgt": ("race", "sex"),
}
BANDS = {"age": ("age band", AGE_BANDS), "capital-gain": ("capital gain band", [1])}
INTERVALS = {
    "fnlwgt": 60
}  # columns drawn uniformly within this number of quantile intervals
TWINS = {"education-num": "education"}  # columns that another determines


def fit(frame: pd.DataFrame) -> dict[str, Any]:
    """The network's tables from Adult's rows (raw values)."""
    codes: dict[str, np.ndarray] = {}
    values: dict[str, list[Any]] = {}
    for name in JOINT:
        values[name] = sorted(frame[name].unique())
        codes[name] = encode(frame[name], values[name])
    counts = pd.crosstab(frame[JOINT[0]], frame[JOINT[1]]).to_numpy()
    nodes = []
    for name, parents in PARENTS.items():
        node: dict[str, Any] = {"name": name, "parents": list(parents)}
        if name in INTERVALS:
            node["values"], node["until"], codes[name] = intervals(
                frame[name], INTERVALS[name]
            )
        else:
            seen = Counter(frame[name].tolist())
            node["values"] = sorted(
                value for value, count in seen.items() if count >= SMALLEST
            )
            codes[name] = encode(frame[name], node["values"])
        values[name] = node["values"]
        node["sizes"] = [len(values[parent]) for parent in parents]
        node["tables"] = [
            count_table(
                [codes[parent] for parent in parents[:depth]],
                node["sizes"][:depth],
                codes[name],
            )
            for depth in range(len(parents), -1, -1)
        ]
        if name in BANDS:
            band, starts = BANDS[name]
            node["band"] = {"name": band, "from": starts}
            values[band] = list(range(len(starts) + 1))
            codes[band] = np.searchsorted(starts, frame[name].to_numpy(), side="right")
        nodes.append(node)
    twins = {
        name: {
            "of": of,
            "values": {
                value: int(part[name].iloc[0]) for value, part in frame.groupby(of)
            },
        }
        for name, of in TWINS.items()
    }
    return {
        "about": "Counts over UCI Adult (adult.data without missing values, CC BY 4.0), none below "
        "5; "
        "made by evals/fit_census.py",
        "joint": {
            "values": {name: values[name] for name in JOINT},
            "counts": counts.tolist(),
        },
        "nodes": nodes,
        "twins": twins,
    }


def encode(column: pd.Series, values: Sequence[Any]) -> np.ndarray:
    """Codes into `values`; −1 for a value too rare to be in it."""
    codes: np.ndarray = pd.Index(values).get_indexer(pd.Index(column)).astype(np.int64)
    return codes


def intervals(column: pd.Series, count: int) -> tuple[list[int], list[int], np.ndarray]:
    """Quantile intervals [first, last] of whole numbers, and each row's interval."""
    edges = np.unique(
        np.quantile(column, np.linspace(0, 1, count + 1)).round(-2).astype(np.int64)
    )
    firsts = edges[:-1]
    lasts = edges[1:] - 1
    rows = np.clip(
        np.searchsorted(firsts, column.to_numpy(), side="right") - 1, 0, len(firsts) - 1
    )
    return firsts.tolist(), lasts.tolist(), rows


def count_table(
    parents: list[np.ndarray], sizes: list[int], child: np.ndarray
) -> list[list[int]]:
    """[context, dropped, value, count, …] for every context that has a count of at least 5."""
    context = np.zeros(child.size, dtype=np.int64)
    usable = np.ones(child.size, dtype=bool)
    for codes, size in zip(parents, sizes, strict=True):
        context = context * size + codes
        usable &= codes >= 0
    counts: dict[int, Counter[int]] = {}
    for key, value in zip(
        context[usable].tolist(), child[usable].tolist(), strict=True
    ):
        counts.setdefault(key, Counter())[value] += 1
    table = []
    rounding = np.random.default_rng(len(parents))
    for key in sorted(counts):
        kept = {
            value: n for value, n in counts[key].items() if n >= SMALLEST and value >= 0
        }
        dropped = sum(counts[key].values()) - sum(kept.values())
        if kept:
            if dropped < SMALLEST:
                if rounding.random() < dropped / SMALLEST:
                    dropped = SMALLEST
                else:
                    dropped = 0
            pairs = [
                number for value in sorted(kept) for number in (value, kept[value])
            ]
            table.append([key, dropped if parents else 0, *pairs])
    return table


def main() -> None:
    """Read adult.data, write the tables."""
    parser = command_line(__doc__)
    parser.add_argument("--data-dir", type=Path, default=None)
    arguments = parser.parse_args()
    frame = load_task("adult", arguments.data_dir).pool()
    frame = frame.assign(income=frame["income"].map({"yes": ">50K", "no": "<=50K"}))
    TABLES.write_text(
        json.dumps(fit(frame), separators=(",", ":")) + "\n", encoding="utf-8"
    )
    print(f"{TABLES}: {TABLES.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
