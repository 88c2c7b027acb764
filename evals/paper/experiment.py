"""The parts of an experiment: independent cells, a function that measures one, and a report on
all.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError

if TYPE_CHECKING:
    import pandas as pd

Cell = dict[str, Any]  # the keys of one measurement: data set, method, size, run
Row = dict[str, Any]  # one line of the results

NAMES = ("closeness", "tradeoff", "augmentation", "fairwasp", "llm", "runtime", "moves")
DATASETS = {
    "adult": "Adult",
    "german": "Credit",
    "communities": "Crime",
    "drug": "Drug",
}


QUICK_SIZE = 0.2


def sizes(dataset: str, quick: bool) -> tuple[float, ...]:
    """The paper's coreset sizes, as shares of the train rows."""
    if quick:
        return (QUICK_SIZE,)
    if dataset == "adult":
        return (0.005, 0.01, 0.02)
    return (0.05, 0.1, 0.2)


def smaller_first(datasets: Iterable[str]) -> list[str]:
    """Adult, by far the largest table, last."""
    return sorted(datasets, key=lambda name: name == "adult")


def runs_on(dataset: str, options: "Options") -> range:
    """The runs on a data set: on Adult, whose cells take most of the time, half of them."""
    return range(
        (options.runs + 1) // 2
        if dataset == "adult" and not options.quick
        else options.runs
    )


@dataclass(frozen=True)
class Options:
    """Options of the command line. `quick`: two runs on small parts, to test that all of it
    works.
    """

    quick: bool = False
    runs: int = 10
    datasets: tuple[str, ...] = tuple(DATASETS)
    data_dir: str | None = None
    model: str = "surrogate"
    model_options: Mapping[str, Any] | None = None
    runs_dir: str | None = None  # where `llm` keeps its run folders; None: nowhere


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    `keys` are the columns that identify a cell, `values` the other columns of its rows. `measure`
    must depend only on its two arguments: cells run in any order, in several processes, and never
    twice. `report` turns all rows (a DataFrame) into Markdown, and draws its figures into the
    folder given. `threads` says that a cell uses every core itself, so that cells run one after
    another.
    """

    name: str
    title: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    plan: Callable[[Options], list[Cell]]
    measure: Callable[[Cell, Options], list[Row]]
    report: "Callable[[pd.DataFrame, Path], str]"
    threads: bool = False


def load_experiment(name: str) -> Experiment:
    """The experiment called `name`; `FwcError` when there is none."""
    if name not in NAMES:
        raise FwcError(
            f"unknown experiment {name!r}: choose one of {', '.join(NAMES)}, or all"
        )
    experiment: Experiment = import_module(f"evals.paper.{name}").EXPERIMENT
    return experiment
