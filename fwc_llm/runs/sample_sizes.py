"""Sample size: rows, repeats and requests needed to detect a difference."""

from collections.abc import Iterator

from fwc_llm.metrics.planning import QUESTIONS, Assumptions, steps_needed
from fwc_llm.metrics.variance import MIN_SETS, THESE_EXAMPLES, THIS_STRATEGY
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import design_of, whole_step
from fwc_llm.sanitize import Json
from fwc_llm.tasks import Task

REPEATS = (1, 5, 10, 20, 50)


def needed(
    task: Task,
    difference: float,
    settings: Settings,
    arms: int,
    assumptions: Assumptions,
) -> Iterator[Json]:
    """Yield the sample sizes that detect `difference` with power 80 %.

    `n_test` is the least number of test rows per repeat, None if the table has too few; `requests`
    is the total over all arms.
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
            if steps is not None:
                n_test = steps * step
                requests = n_test * count * (1 if question == "gap_of_one" else arms)
            of = THIS_STRATEGY if strategy else THESE_EXAMPLES
            line = {
                "question": question,
                "of": of,
                "repeats": count,
                "n_test": n_test,
                "requests": requests,
            }
            yield line
