"""What it takes to find a given difference: rows, repeats, requests and dollars."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fwc_llm.metrics.planning import QUESTIONS, Assumptions, steps_needed
from fwc_llm.metrics.variance import LEAST_SETS, THESE_EXAMPLES, THIS_STRATEGY
from fwc_llm.models.base import Model
from fwc_llm.models.openai.prices import Price
from fwc_llm.runs.budget import Forecast, forecast
from fwc_llm.runs.plan import make_plan
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import design_of, whole_step
from fwc_llm.tasks import Task

REPEATS = (1, 5, 10, 20, 50)
_ROWS = 20  # prompts counted per arm, at least


@dataclass(frozen=True)
class Needed:
    """The least rows that find a difference with so many repeats; None where the table has too few.

    `question` is one of `metrics.planning.QUESTIONS`, `of` what an answer to it speaks of. `requests` are
    those of all arms. Dollars are None without a known price: `dollars` with the provider's cache,
    `dollars_most` without.
    """

    question: str
    of: str
    repeats: int
    n_test: int | None
    requests: int | None
    dollars: float | None
    dollars_most: float | None


def needed(
    task: Task,
    difference: float,
    settings: Settings,
    arms: int,
    assumptions: Assumptions,
    cost: Forecast | None = None,
) -> Iterator[Needed]:
    """Yield what finds `difference` four times in five, by question, for 1 to 50 repeats and those set.

    A single arm is asked for its own gap alone. `cost` is a forecast of some requests like those that would
    be made; every request costs its share.
    """
    base_parity = settings.base_parity
    step = 1 if base_parity is None else whole_step(task.groups, base_parity)
    for question in QUESTIONS if arms > 1 else ("gap_of_one",):
        for count in sorted({*REPEATS, settings.repeats}):
            strategy = count >= LEAST_SETS
            design = design_of(task, step, base_parity, count, settings.min_group)
            steps = steps_needed(difference, question, design, assumptions, strategy)
            of = THIS_STRATEGY if strategy else THESE_EXAMPLES
            if steps is None:
                yield Needed(question, of, count, None, None, None, None)
                continue
            requests = steps * step * count * (1 if question == "gap_of_one" else arms)
            both = (cost.dollars, cost.dollars_most) if cost else (None, None)
            shares = (x if cost is None or x is None else x * requests / cost.calls for x in both)
            yield Needed(question, of, count, steps * step, requests, *shares)


def sample_cost(
    task: Task, arms: Sequence[str], settings: Settings, model: Model, price: Price | None, batch: bool
) -> Forecast:
    """Forecast a few requests of every arm, enough to know what one costs. Nothing is asked."""
    rows = 1 if settings.base_parity is None else whole_step(task.groups, settings.base_parity)
    plan = make_plan(task, arms, settings.updated(n_test=rows * -(-_ROWS // rows), repeats=1))
    return forecast(model, plan.calls(), price, batch)
