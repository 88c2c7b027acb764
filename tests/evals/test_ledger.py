"""Results that grow in a file, and the runs that go on from it."""

from pathlib import Path

import pytest
from rich.console import Console

from evals.paper.again import measure_again
from evals.paper.experiment import Cell, Experiment, Options, Row, load_experiment
from evals.paper.ledger import Ledger
from evals.paper.runner import run_cells
from fwc_llm.errors import FwcError


class Counting:
    """An experiment whose cells are numbers; it counts how often each is measured."""

    def __init__(self, cells: int = 5) -> None:
        self.measured: list[int] = []
        self.cells = cells

    def plan(self, options: Options) -> list[Cell]:
        return [{"cell": number, "run": run} for number in range(self.cells) for run in range(options.runs)]

    def measure(self, cell: Cell, options: Options) -> list[Row]:
        self.measured.append(cell["cell"])
        return [{"value": cell["cell"] / 3, "note": 'a, "b"'}, {"value": float("nan"), "note": ""}]

    def experiment(self) -> Experiment:
        return Experiment(
            "counting",
            "Counting",
            ("cell", "run"),
            ("value", "note"),
            self.plan,
            self.measure,
            lambda f, p: "",
        )


def run(counting: Counting, path: Path, seconds: float | None = None) -> tuple[int, int]:
    experiment = counting.experiment()
    return run_cells(experiment, Options(runs=1), Ledger(path, experiment), 1, seconds, Console(quiet=True))


def test_a_second_run_measures_nothing(tmp_path: Path) -> None:
    counting, path = Counting(), tmp_path / "counting.csv"
    assert run(counting, path) == (5, 5)
    assert run(counting, path) == (5, 5)
    assert counting.measured == [0, 1, 2, 3, 4]
    frame = Ledger(path, counting.experiment()).frame()
    assert frame["value"].dropna().tolist() == [0, 0.333333, 0.666667, 1, 1.33333]
    assert frame["note"].iloc[0] == 'a, "b"'


def test_a_torn_cell_is_measured_again(tmp_path: Path) -> None:
    counting, path = Counting(), tmp_path / "counting.csv"
    run(counting, path)
    whole = path.read_text()
    for cut in range(1, 12):
        path.write_text(whole[:-cut])
        counting.measured.clear()
        run(counting, path)
        assert counting.measured == [4]
        assert path.read_text() == whole


def test_no_cell_begins_after_the_time_is_up(tmp_path: Path) -> None:
    counting, path = Counting(), tmp_path / "counting.csv"
    assert run(counting, path, seconds=0) == (0, 5)
    assert counting.measured == []


def test_other_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "counting.csv"
    path.write_text("cell,run,other\n1,2,3\n")
    with pytest.raises(FwcError, match="other columns"):
        Ledger(path, Counting().experiment())


def test_an_unknown_experiment_is_named() -> None:
    with pytest.raises(FwcError, match="unknown experiment 'closness': choose one of closeness"):
        load_experiment("closness")


@pytest.mark.slow
def test_several_processes_measure_what_one_does(tmp_path: Path) -> None:
    """Seconds aside, the results of two workers are those of one."""
    experiment = load_experiment("runtime")
    options = Options(quick=True, runs=1)
    frames = []
    for jobs in (1, 2):
        ledger = Ledger(tmp_path / f"{jobs}.csv", experiment)
        parallel = Experiment(**{**experiment.__dict__, "threads": False})
        run_cells(parallel, options, ledger, jobs, None, Console(quiet=True))
        frames.append(ledger.frame().sort_values(list(experiment.keys)).drop(columns=["seconds"]))
    assert frames[0].reset_index(drop=True).equals(frames[1].reset_index(drop=True))


def test_recorded_cells_measured_again_must_say_the_same(tmp_path: Path) -> None:
    counting, path = Counting(), tmp_path / "counting.csv"
    run(counting, path)
    experiment, quiet = counting.experiment(), Console(quiet=True)

    def found(count: int) -> list[str]:
        return measure_again(experiment, Options(runs=1), Ledger(path, experiment), count, quiet)

    assert found(9) == []
    assert sorted(counting.measured) == sorted(2 * [0, 1, 2, 3, 4])
    path.write_text(path.read_text().replace("0.333333", "0.333433").replace("2,0,,", "2,0,7,"))
    assert sorted(found(5)) == ["1, 0: value 0.333433 recorded, 0.333333 now", "2, 0: value 7 recorded,  now"]


def test_without_a_record_there_is_nothing_to_measure_again(tmp_path: Path) -> None:
    experiment = Counting().experiment()
    with pytest.raises(FwcError, match="run the experiment first"):
        measure_again(experiment, Options(), Ledger(tmp_path / "c.csv", experiment), 3, Console(quiet=True))
