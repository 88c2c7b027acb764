"""The experiments' figures, as small SVG files."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.paper.experiment import DATASETS
from evals.paper.methods import FWC, TITLES
from evals.paper.pareto import on_front

if TYPE_CHECKING:
    import pandas as pd

_RIVAL_COLOURS = (
    "#1b9e77",
    "#66a61e",
    "#7570b3",
    "#386cb0",
    "#666666",
    "#a6761d",
    "#e7298a",
)
_FWC_COLOURS = ("#b2182b", "#d6604d", "#f4a582", "#888888")
_OTHERS = {"full-data": "black", "none": "black"}
_NAMES = {**TITLES, "full-data": "All train rows", "none": "No augmentation"}


def colour(method: str) -> str:
    """FWC in reds, rivals in other colours, the reference in black."""
    if method in _OTHERS:
        return _OTHERS[method]
    if method in FWC:
        return _FWC_COLOURS[list(FWC).index(method)]
    return _RIVAL_COLOURS[[name for name in TITLES if name not in FWC].index(method)]


def _plots(
    rows: int, columns: int, width: float = 3.0, height: float = 2.6
) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {"svg.fonttype": "none", "svg.hashsalt": "fwc-llm", "font.size": 8}
    )
    figure, axes = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), squeeze=False
    )
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    """Write a figure whose bytes depend only on its content."""
    import matplotlib.pyplot as plt

    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def _legend(figure: Any, axes: Any) -> None:
    found: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.tight_layout()
    figure.legend(
        found.values(),
        found.keys(),
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncol=4,
        frameon=False,
    )


def closeness_figure(table: "pd.DataFrame", path: Path) -> None:
    """W1 over size: a column per data set, train and held-out rows, standardised units."""
    table = table[table["units"] == "standardised"]
    datasets = [name for name in DATASETS if name in set(table["dataset"])]
    if not datasets:
        return
    figure, axes = _plots(2, len(datasets))
    for column, dataset in enumerate(datasets):
        for row, (measure, said) in enumerate(
            (("w1_train", "train rows"), ("w1_test", "held-out rows"))
        ):
            axis = axes[row, column]
            for method in TITLES:
                line = table[
                    (table["dataset"] == dataset) & (table["method"] == method)
                ].sort_values("size")
                if line.empty:
                    continue
                axis.errorbar(
                    100 * line["size"],
                    line[measure],
                    yerr=line[f"{measure}_sd"],
                    color=colour(method),
                    label=_NAMES[method],
                    marker="o" if method in FWC else ".",
                    linewidth=1.6 if method in FWC else 0.9,
                    markersize=3,
                )
            axis.set_title(f"{DATASETS[dataset]}, {said}")
            axis.set_xlabel("size, % of the train rows")
            if not column:
                axis.set_ylabel("Wasserstein distance")
    _legend(figure, axes)
    _save(figure, path)


def tradeoff_figure(arms: Mapping[str, "pd.DataFrame"], path: Path) -> None:
    """AUC against disparity: a column per data set, a row per arm; the front of all is dashed."""
    datasets = [
        name
        for name in DATASETS
        if any(name in set(table["dataset"]) for table in arms.values())
    ]
    if not datasets:
        return
    figure, axes = _plots(len(arms), len(datasets))
    for row, (arm, table) in enumerate(arms.items()):
        for column, dataset in enumerate(datasets):
            here = table[table["dataset"] == dataset]
            axis = axes[row, column]
            scatter_front(axis, here)
            axis.set_title(
                f"{DATASETS[dataset]}, {arm}" if len(arms) > 1 else DATASETS[dataset]
            )
            if row == len(arms) - 1:
                axis.set_xlabel("demographic disparity")
            if not column:
                axis.set_ylabel("AUC")
    _legend(figure, axes)
    _save(figure, path)


def scatter_front(axis: Any, here: "pd.DataFrame") -> None:
    """Points by method, larger for larger coresets, and the front of all but the whole data."""
    for method in _NAMES:
        points = here[here["method"] == method]
        if len(points):
            rank = points["size"].rank().to_numpy()
            axis.scatter(
                points["dd"],
                points["auc"],
                s=8 + 8 * rank,
                color=colour(method),
                label=_NAMES[method],
                alpha=0.8,
            )
    here = here[here["method"] != "full-data"]
    if len(here):
        front = here[
            on_front(here["dd"].to_numpy(), here["auc"].to_numpy())
        ].sort_values("dd")
        axis.plot(front["dd"], front["auc"], "--", color="#b2182b", linewidth=0.8)


def growth_figure(
    series: Mapping[str, "tuple[pd.DataFrame, str, pd.DataFrame | None]"], path: Path
) -> None:
    """Seconds over n, m and p with logarithmic axes; over n also the paper's times."""
    figure, axes = _plots(1, len(series))
    for axis, (name, (table, key, paper)) in zip(axes[0], series.items(), strict=True):
        table = table.sort_values(key)
        axis.errorbar(
            table[key],
            table["seconds"],
            yerr=np.nan_to_num(table["seconds_sd"]),
            color="#b2182b",
            marker="o",
            markersize=3,
            label="ours",
        )
        if paper is not None:
            axis.plot(
                paper[key], paper["seconds"], ".-", color="#666666", label="paper"
            )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel(name)
        axis.set_ylabel("seconds")
    _legend(figure, axes)
    _save(figure, path)
