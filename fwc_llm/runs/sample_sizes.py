"""Sample size: rows, repeats, requests and dollars needed to detect a difference."""

from collections.abc import Iterator, Sequence
from typing import Any

from fwc_llm.metrics.planning import QUESTIONS, Assumptions, steps_needed
from fwc_llm.metrics.variance import MIN_SETS, THESE_EXAMPLES, THIS_STRATEGY
from fwc_llm.models.base import Model
from fwc_llm.models.openai.prices import Price
from fwc_llm.runs.budget import Forecast, forecast
from fwc_llm.runs.plan import make_plan
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import design_of, whole_step
from fwc_llm.tasks import Task

REPEATS = (1, 5, 10, 20, 50)
_ROWS = 20  # least number of prompts per arm in a forecast


def needed(
    task: Task,
    difference: float,
    settings: Settings,
    arms: int,
    assumptions: Assumptions,
    cost: Forecast | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the sample sizes that detect `difference` with power 80 %.

    `n_test` is the least number of test rows per repeat, None if the table has too few; `requests`
    is the total over all arms. Dollars are scaled from `cost`, a forecast of a few requests.
    """
    base_parity = settings.base_parity
    if base_parity is None:
        step = 1
    else:
        step = whole_step(task.groups, base_parity)
    for question in QUESTIONS if arms > 1 else ("gap_of_one",):
        for count in sorted({*REPEATS, settings.repeats}):
            strategy = count >= MIN_SETS
            design = design_of(task, step, base_parity, count, settings.min_group)
            steps = steps_needed(difference, question, design, assumptions, strategy)
            n_test = requests = None
            dollars: dict[str, float | None] = {"dollars": None, "dollars_most": None}
            if steps is not None:
                n_test = steps * step
                requests = n_test * count * (1 if question == "gap_of_one" else arms)
                if (
                    cost is not None
                    and cost.dollars is not None
                    and cost.dollars_most is not None
                ):
                    share = requests / cost.calls
                    dollars = {
                        "dollars": share * cost.dollars,
                        "dollars_most": share * cost.dollars_most,
                    }
            of = THIS_STRATEGY if strategy else THESE_EXAMPLES
            line = {
                "question": question,
                "of": of,
                "repeats": count,
                "n_test": n_test,
                "requests": requests,
            }
            yield line | dollars


def sample_cost(
    task: Task,
    arms: Sequence[str],
    settings: Settings,
    model: Model,
    price: Price | None,
    batch: bool,
) -> Forecast:
    """Forecast the cost of a few requests per arm, without sending any."""
    if settings.base_parity is None:
        rows = 1
    else:
        rows = whole_step(task.groups, settings.base_parity)
    plan = make_plan(
        task, arms, settings.updated(n_test=rows * -(-_ROWS // rows), repeats=1)
    )
    return forecast(model, plan.calls(), price, batch)
