"""The descent over a table in blocks: read, solve, move, until it no longer gains."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fwc_llm.coreset.descent.loop import Descent, Steps
from fwc_llm.coreset.problem.entry import outside
from fwc_llm.coreset.search.samples import missed
from fwc_llm.coreset.streaming.collecting.collect import Collector
from fwc_llm.coreset.streaming.nearest.kept import KEPT
from fwc_llm.coreset.streaming.passes.inner import Solved, solve_inner
from fwc_llm.coreset.streaming.passes.medoids import Medoids
from fwc_llm.coreset.streaming.passes.moves import Means, Medians, Mover, Sampled
from fwc_llm.coreset.streaming.passes.readings import NoReadingLeftError, Readings
from fwc_llm.coreset.streaming.sampled import as_published, widths_of
from fwc_llm.coreset.transport.column_generation import two_cheapest
from fwc_llm.coreset.transport.cost_table import CostTable
from fwc_llm.errors import SampleWarning

GAIN = 2e-5  # of the objective, below which a move is the last


@dataclass
class Course:
    """Where a descent stands: all that is needed to go on, and all that is published in the end."""

    points: np.ndarray  # (m, p) to be read next
    rows: np.ndarray | None  # (m,) of these points, in the sample
    starts: int = 1
    agreeing: int = 1
    prices: np.ndarray | None = None  # (G,) of the last inner problem
    sample_prices: np.ndarray | None = None  # (G,) what the sample said of them
    best: np.ndarray | None = None  # (m, p) where the objective is lowest
    best_rows: np.ndarray | None = None
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (m,) mass that these carry
    lower_bound: float = -np.inf
    history: list[float] = field(default_factory=list)
    readings: int = 0
    rough: bool = False  # whether the move to these points was not the best one, for want of a reading
    finished: bool = False
    starved: bool = False  # whether it ended because all readings were made
    short: bool = False  # whether a step came to nothing then: made again, it takes the readings it needs
    converged: bool = False

    def descent(self) -> Descent:
        """The way to the best points."""
        assert self.best is not None
        return Descent(self.best, self.best_rows, tuple(self.history), self.converged)


def _lacking(times: float) -> str:
    return (
        f"the objective of the whole table is {times:.3g} times the sample's: some rows lie far from all "
        "others, and the sample lacks them; the certificate holds, but other representatives can be much "
        "nearer: raise sample, or scale or clip the columns in which these rows lie far out"
    )


class Passes:
    """Moves representatives over the whole table; `steps` are those of the sample."""

    def __init__(self, readings: Readings, steps: Steps) -> None:
        self._readings = readings
        self._steps = steps
        mover: Callable[..., Mover] = Medians if steps.problem.cost == "l1" else Means
        self._mover = mover(steps.problem.m, widths_of(readings.survey))

    def run(self, course: Course, max_moves: int, keep: Callable[[Course], None]) -> Course:
        """Goes on until nothing is gained, after `max_moves` moves, or when no readings are left.

        `keep` is called after every step with where it stands.
        """
        self._readings.count = course.readings
        self._readings.needed = course.best is None or course.short
        if course.rows is None:
            course.points = as_published(course.points, self._readings.survey)
        keep(course)
        try:
            while not course.finished:
                try:
                    self._step(course, max_moves)
                except NoReadingLeftError:
                    course.finished = course.starved = course.short = True
                course.readings = self._readings.count
                keep(course)
        finally:
            KEPT.forget(self._readings.terms.fit)
        return course

    def _step(self, course: Course, max_moves: int) -> None:
        """Reads the table at the points, and moves them."""
        readings, problem = self._readings, self._steps.problem
        cost, label = self._steps.nearest(course.points)
        masses = problem.masses
        table = CostTable(cost, mass=None if masses is None else masses.values)
        sampled = problem.transport(cost, course.sample_prices)
        prices = expected = sampled.prices
        if course.prices is not None and course.sample_prices is not None:
            prices = course.prices + (expected - course.sample_prices)
        cell = two_cheapest(cost.T, prices)[0]
        carries = label[cell, np.arange(len(cell))]
        medoids = None if course.rows is None else Medoids.expected(problem, course.rows, carries)
        collectors: tuple[Collector, ...]
        if medoids:
            collectors = (medoids.collector(),)
        else:
            collectors = self._mover.collectors(Sampled(problem.table, carries))
        solved = solve_inner(readings, course.points, collectors, table, prices)
        if not course.history and missed(solved.objective, sampled.objective, problem.table.n / problem.m):
            warnings.warn(_lacking(solved.objective / sampled.objective), SampleWarning, outside())
        if self._judge(course, solved, expected):
            return
        if len(course.history) > max_moves:
            course.finished = True
            return
        if medoids:
            rows = medoids.move(solved)
            moved = problem.table.values[rows].astype(np.float64)
        else:
            rows = None
            course.rough = readings.left < 2 and isinstance(self._mover, Medians)
            moved = as_published(self._mover.move(readings, solved, course.points), readings.survey)
        course.finished = course.converged = bool((moved == course.points).all())
        course.points, course.rows = moved, rows
        readings.needed = course.short = False
        if readings.left < 1 and not course.finished:  # they are read if the fit goes on
            course.finished = course.starved = True

    def _judge(self, course: Course, solved: Solved, expected: np.ndarray) -> bool:
        """Keeps what was read if it is better than all before; says whether the descent is at its end."""
        course.prices, course.sample_prices = solved.prices, expected
        self._readings.needed = course.short
        if course.best is not None and (course.points == course.best).all():
            return False  # read again, to go on from there
        gain = course.history[-1] - solved.objective if course.history else np.inf
        if gain > 0:
            course.history.append(solved.objective)
            course.best, course.best_rows = course.points, course.rows
            course.weights, course.lower_bound = solved.weights, solved.lower_bound
        if gain > GAIN * abs(solved.objective):
            return False
        course.finished, course.starved, course.converged = True, course.rough, not course.rough
        course.short = course.rough
        if course.rough and course.best is not None:  # with more readings it goes on from the best
            course.points, course.rows = course.best, course.best_rows
        return True
