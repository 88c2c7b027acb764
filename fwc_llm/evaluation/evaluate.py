"""`evaluate`: plan, ask and score a run in one call."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fwc_llm.evaluation.job import prepare
from fwc_llm.evaluation.result import Result
from fwc_llm.models import Client, Model
from fwc_llm.models.functions import BatchFunction, Function
from fwc_llm.options import split_options, takes
from fwc_llm.progress import Progress, choose
from fwc_llm.runs.settings import Settings
from fwc_llm.shots.base import Shots
from fwc_llm.tasks import Task


@takes(Settings, Client)
def evaluate(
    task: str | Path | Task,
    model: str | Model | Function | BatchFunction,
    arms: Sequence[str | Shots] = ("zero", "balanced", "fwc"),
    *,
    out: str | Path | None = None,
    settings: Settings | None = None,
    client: Client | None = None,
    data_dir: str | Path | None = None,
    allow_changed_data: bool = False,
    max_prompt_tokens: int | None = None,
    cancel_batch: bool = False,
    reference: bool = False,
    progress: bool | None = None,
    on_step: Callable[[str], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Result:
    """Ask `model` about test rows of `task`, once per arm, and measure accuracy and demographic parity.

    `task` is a name, a task file or a `Task`; `model` a name, a `Model`, or a function of the messages that
    returns text, P(yes) or a `Reply` (see `FunctionModel`). `arms` are strategy names, files
    of saved shots (ending in .json) or `Shots`. Each of the `repeats` draws `n_test` rows with the given
    `base_parity`, and its examples, from `seed` + its number. The run's folder is `out`, by default
    ./runs/<time>-<task>-<model>; if `out` is the folder of an interrupted run, that run continues. Works
    inside a running event loop too (notebooks).

    `settings` is the experiment as one value, `client` the service. Every option of `Settings` and `Client`
    may also be given by its name, and overrides the one in the value.

    `data_dir` is where the data lies, `allow_changed_data` accepts saved shots although the data has
    changed, and `max_prompt_tokens` chooses the largest m, up to `m`, whose prompts fit. `cancel_batch` ends
    batches that an earlier pass sent; by default their replies are collected first. `reference` adds what
    plain models answer to the same rows to the report and the statistics.

    Progress is shown in a notebook and on a terminal; `progress` False hides it. `on_step(text)` and
    `on_progress(progress)` receive it instead.

    Errors: `FwcError` for bad input, before any request; `ProviderError` when the provider rejects the run
    and `InterruptedRunError` on Ctrl-C. Both keep the answers so far and score them (attribute `result`).
    """
    settings, client = split_options(options, settings or Settings(), client or Client())
    taken = on_step is not None or on_progress is not None
    shown = choose(False if progress is None and taken else progress)
    with shown.working("reading the table") as step:
        job = prepare(
            task, model, arms, settings, client, data_dir, allow_changed_data, max_prompt_tokens,
            on_step=on_step or step, notice=shown.say, reference=reference,
        )  # fmt: skip
    for note in job.plan.notes:
        shown.say(note)
    with shown.asking(job.plan.n_calls) as state:
        return job.run(out, on_progress or state, cancel_batch)
