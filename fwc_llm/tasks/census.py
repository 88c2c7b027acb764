"""The simulated census: a task without data."""

from typing import TYPE_CHECKING

from fwc_llm.errors import FwcError
from fwc_llm.resources import resource_dir
from fwc_llm.taskfile import read_taskfile
from fwc_llm.tasks.task import Task

if TYPE_CHECKING:
    from fwc_llm.data.table import Tables

_LARGEST = 10_000_000


def census_task(n_pool: int | None = None, n_test: int | None = None, seed: int | None = None) -> Task:
    """The task "census": `n_pool` simulated rows to choose examples from, `n_test` to draw test rows from.

    By default both sizes equal Adult's. Columns, words, protected attribute, outcome and question are those
    of the task "adult". `FwcError` for sizes below 2 or above ten million.
    """
    given = {
        name: value
        for name, value in {"n_pool": n_pool, "n_test": n_test, "seed": seed}.items()
        if value is not None
    }
    for name in ("n_pool", "n_test"):
        if not 2 <= given.get(name, 2) <= _LARGEST:
            raise FwcError(f"the census can be simulated with 2 to {_LARGEST:,} rows, not {given[name]:,}")
    adult = read_taskfile(resource_dir("evals/tasks") / "adult.toml")

    def load() -> "Tables":
        from fwc_llm.data.census import census_tables

        return census_tables(adult, **given)

    return Task(
        name="census",
        title="Simulated census: income above $50k",
        question=adult.question,
        columns=adult.columns,
        protected=tuple(attribute.name for attribute in adult.protected),
        outcome=adult.outcome.source,
        offered=tuple(attribute.name for attribute in adult.protected),
        usual=tuple(attribute.name for attribute in adult.protected),
        load=load,
        simulated=True,
        licence=adult.licence,
        citation=f"Simulated from counts over: {adult.citation}",
        note="Simulated rows: no real person, and no measurement.",
        about={
            "intended_use": "To show and test the tool without data. Nothing made with it is a finding.",
            "population": "Nobody: no row is a person.",
            "source": f"Simulated from counts over: {adult.citation}",
            "limits": "The rows have the columns of the task adult, and only some of its dependencies.",
        },
    )
