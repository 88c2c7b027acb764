"""Report on the closeness experiment: tables, orderings beside the paper's, a figure."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.paper.data import UNITS
from evals.paper.experiment import DATASETS
from evals.paper.figures import closeness_figure
from evals.paper.methods import FWC, METHODS, PAPER_FWC, TITLES
from evals.paper.published import published
from evals.paper.tables import by_key, mean_sd, significant
from evals.record import markdown

if TYPE_CHECKING:
    import pandas as pd

_KEYS = ["dataset", "units", "size", "method"]
_MEASURES = [
    "w1_train",
    "w1_test",
    "cost_train",
    "cost_test",
    "violation_train",
    "violation_test",
]
_LIMIT = 0.1 + 1e-6  # the widest parity limit of the paper's three


def report(frame: "pd.DataFrame", folder: Path) -> str:
    """Markdown, and `closeness.svg` beside it."""
    frame = frame[frame["w1_test"].notna() | frame["w1_train"].notna()]
    table = mean_sd(frame, _KEYS, _MEASURES)
    closeness_figure(table, folder / "closeness.svg")
    return "\n".join([*_orderings(table), *_certificate(frame), *_tables(table)])


def _orderings(table: "pd.DataFrame") -> Iterator[str]:
    """Count where each method is closest."""
    yield "## Who is closest\n"
    yield (
        "Combinations of data set and size in which an FWC variant of the paper (ε 0.01, 0.05, "
        "0.1) has "
        "the smallest mean. *Within the limit*: among the methods whose coreset has a mean parity "
        "violation "
        "of at most 0.1. The paper's tables are counted in the same way.\n"
    )
    head = ["units", "measure", "of all methods", "within the limit"]
    head += ["FWC without limit, of all", "closer than FWC"]
    lines = []
    for units in UNITS:
        for measure in _MEASURES[:4]:
            here = table[table["units"] == units]
            if here.empty:
                continue
            all_, fair, free, lost = _wins(here, measure)
            total = here.groupby(["dataset", "size"]).ngroups
            lines.append(
                [
                    units,
                    measure,
                    f"{all_}/{total}",
                    f"{fair}/{total}",
                    f"{free}/{total}",
                    lost,
                ]
            )
    paper = published("closeness").assign(units="paper", violation_train=float("nan"))
    for measure in ("wasserstein", "clustering_sum"):
        all_, _, _, lost = _wins(paper, measure)
        lines.append(["paper", measure, f"{all_}/12", "–", "–", lost])
    yield markdown(head, lines)
    rivals = table[~table["method"].isin(FWC)]
    within = rivals[rivals["violation_train"] <= _LIMIT]
    yield (
        f"\nRivals that meet the limit: {len(within)} of {len(rivals)} combinations of rival, data "
        f"set, size "
        f"and units; their smallest mean violation is "
        f"{significant(rivals['violation_train'].min(), 2)}.\n"
    )


def _wins(table: "pd.DataFrame", measure: str) -> tuple[int, int, int, str]:
    """How often an FWC variant is smallest of all or of the fair, or FWC without limit of all;
    where not.
    """
    everyone = fair = free = 0
    lost = []
    for (dataset, size), group in table.groupby(["dataset", "size"], sort=False):
        values = group.set_index("method")[measure].dropna()
        named = values[[method for method in values.index if method in METHODS]]
        if named.empty:
            continue
        if named.idxmin() in PAPER_FWC:
            everyone += 1
        else:
            lost.append(
                f"{DATASETS[str(dataset)]} {float(str(size)):.1%}: {TITLES[str(named.idxmin())]}"
            )
        within = group.set_index("method")["violation_train"]
        allowed = named[[method for method in named.index if within[method] <= _LIMIT]]
        fair += bool(len(allowed)) and allowed.idxmin() in PAPER_FWC
        rivals = values[[method for method in values.index if method not in PAPER_FWC]]
        free += len(rivals) > 0 and rivals.idxmin() in FWC
    return everyone, fair, free, "; ".join(lost) or "–"


def _certificate(frame: "pd.DataFrame") -> Iterator[str]:
    ours = frame[frame["method"].isin(FWC)]
    if ours.empty:
        return
    limits = ours["method"].map(FWC)
    excess = (ours["violation_train"] - limits).max()
    error = ours["objective_error"].max()
    yield (
        f"\nFWC's objective is the exact distance: over {ours['objective_error'].count():,} "
        f"coresets it "
        f"differs from the network simplex's value by at most {significant(error)}; largest "
        f"relative gap to "
        f"its lower bound {significant(ours['gap'].max())}; largest excess over the parity limit "
        f"{significant(excess)}.\n"
    )


def _cells(row: dict[str, Any]) -> list[str]:
    """Distance and cost on train / held-out rows, and the violation."""
    return [
        f"{significant(row['w1_train'])} ± {significant(row['w1_train_sd'], 2)} / "
        f"{significant(row['w1_test'])}",
        f"{significant(row['cost_train'])} / {significant(row['cost_test'])}",
        significant(row["violation_train"], 2),
    ]


def _tables(table: "pd.DataFrame") -> Iterator[str]:
    paper = by_key(published("closeness"), ["dataset", "size", "method"])
    for units in UNITS:
        for dataset, title in DATASETS.items():
            here = table[(table["units"] == units) & (table["dataset"] == dataset)]
            if here.empty:
                continue
            sizes = sorted(here["size"].unique())
            found = by_key(here, ["method", "size"])
            runs = int(here["runs"].min())
            yield f"\n## {title}, {units} columns ({runs} run{'s' * (runs > 1)})\n"
            yield "W1 ± sd and cost: train rows / held-out rows.\n"
            head = ["method"]
            for size in sizes:
                head += [f"{size:.1%}: W1", "cost", "violation", "paper's W1"]
            lines = []
            for method in TITLES:
                line = [TITLES[method]]
                for size in sizes:
                    row = found.get((method, size))
                    line += ["–"] * 3 if row is None else _cells(row)
                    theirs = paper.get((dataset, size, method))
                    line.append(significant(theirs["wasserstein"]) if theirs else "–")
                lines.append(line)
            yield markdown(head, lines)
