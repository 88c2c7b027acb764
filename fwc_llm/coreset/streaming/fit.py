"""A fit of a table in blocks: survey it, solve a sample in memory, go on with the whole table."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from fwc_llm.coreset.checks import check_jobs, generator
from fwc_llm.coreset.descent.loop import Descent
from fwc_llm.coreset.search.schedule import Solver
from fwc_llm.coreset.streaming.blocks import Source
from fwc_llm.coreset.streaming.checkpoint import Checkpoint
from fwc_llm.coreset.streaming.loop import Course, Passes
from fwc_llm.coreset.streaming.memory import Size, check_memory
from fwc_llm.coreset.streaming.passes.readings import Readings, check_stamp, ticker
from fwc_llm.coreset.streaming.sampled import is_whole, rows_of, whole_table
from fwc_llm.coreset.streaming.survey import survey

_ROWS_FOR_ONE = 4  # rows of the sample for a representative, at least


class BlockFit:
    """The fit of one table by an estimator's parameters; the table is surveyed here.

    `survey` is what the first reading found, `rows` its sample as a table in memory, and `whole` says whether
    that is all of the table that counts.

    Raises:
        InputError: a table that cannot be fitted, a checkpoint of another fit, or too little memory.
    """

    def __init__(
        self, source: Source, parameters: Mapping[str, Any], say: Callable[[str], None] | None
    ) -> None:
        self._source = source
        self._given = parameters
        self._say = say
        path = parameters["checkpoint"]
        self._kept = None if path is None else Checkpoint(path, parameters)
        seed = self._kept.seed if self._kept else None
        self._seed = seed or int(generator(deepcopy(parameters["random_state"])).integers(1, 2**53))
        self._stamp = source.stamp
        sample = max(int(parameters["sample"]), _ROWS_FOR_ONE * int(parameters["m"]))
        self.survey = survey(
            source,
            sample=sample,
            least=int(parameters["m"]),
            cost=parameters["cost"],
            scale=parameters["scale"],
            epsilon=parameters["epsilon"],
            seed=self._seed,
            tick=ticker(say, "columns and cells"),
        )
        check_stamp(source, self._stamp)
        check_memory(Size.of(self.survey, parameters["m"], check_jobs(parameters["n_jobs"])))
        self.rows = rows_of(self.survey)
        self.whole = is_whole(self.survey)
        self.fits = self.survey.n <= sample

    def table(self) -> tuple[Any, Any, Any, Any]:
        """X, y, sensitive and sample_weight of a table that `fits` into the sample, in memory."""
        return whole_table(self._source)

    def run(self, solver: Solver, start: Callable[[], Course]) -> Course:
        """Reads the table from where the checkpoint stands, or from `start`; `solver` has the sample."""
        most, kept = int(self._given["max_passes"]), self._kept
        course = kept.load(self._stamp, self.survey, most) if kept else None
        if course is None:
            if self._say is not None:
                self._say(f"a sample of {self.rows.n:,} rows")
            course = start()
        readings = Readings(self._source, self._stamp, self.survey, solver.problem, most, self._say)

        def keep(course: Course) -> None:
            if kept:
                kept.save(course, self._seed, self._stamp, self.survey)

        return Passes(readings, solver.steps).run(course, int(self._given["max_iter"]), keep)


def started(best: Descent, starts: int, agreeing: int) -> Course:
    """Where passes over a table start: where the descent on its sample ended."""
    return Course(best.points, best.rows, starts, agreeing)
