"""`evaluate`: plan, ask and score a run in one call."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Never, TypeVar, cast

from fwc_llm.errors import FwcError
from fwc_llm.evaluation.job import prepare
from fwc_llm.evaluation.result import Result
from fwc_llm.models import Client, Model
from fwc_llm.models.functions import BatchFunction, Function
from fwc_llm.progress import choose
from fwc_llm.runs.settings import Settings
from fwc_llm.shots.base import Shots

if TYPE_CHECKING:
    from fwc_llm.runs.execute import Progress
    from fwc_llm.tasks import Task

_V = TypeVar("_V", Settings, Client)
_T = TypeVar("_T")


class _Default:
    """Marks a default, to distinguish it from an equal value that the caller gives; prints as the value."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)


def _defaults(value: _V) -> _V:
    """The fields of a value as defaults of a signature: the type checker sees the value itself."""
    marked = {one.name: _Default(getattr(value, one.name)) for one in fields(value)}
    return cast("_V", SimpleNamespace(**marked))


_S, _C = _defaults(Settings()), _defaults(Client())


def evaluate(
    task: "str | Path | Task",
    model: str | Model | Function | BatchFunction,
    arms: Sequence[str | Shots] = ("zero", "balanced", "fwc"),
    n_test: int = _S.n_test,
    base_parity: float | None = _S.base_parity,
    repeats: int = _S.repeats,
    seed: int = _S.seed,
    out: str | Path | None = None,
    *,
    settings: Settings | None = None,
    m: int = _S.m,
    epsilon: float | None = _S.epsilon,
    template: str = _S.template,
    orders: Sequence[str] = _S.orders,
    weights: str = _S.weights,
    redraw: str = _S.redraw,
    counterfactual: bool = _S.counterfactual,
    threshold: float | str | None = _S.threshold,
    threshold_rows: int | None = _S.threshold_rows,
    api: str = _S.api,
    consistency: bool = _S.consistency,
    strategy_options: Mapping[str, Any] = _S.strategy_options,
    templates: Sequence[str] = _S.templates,
    samples: int = _S.samples,
    client: Client | None = None,
    base_url: str | None = _C.base_url,
    api_key_env: str | None = _C.api_key_env,
    params: Mapping[str, Any] = _C.params,
    max_tokens: int | None = _C.max_tokens,
    logprobs: bool = _C.logprobs,
    rpm: float | None = _C.rpm,
    tpm: float | None = _C.tpm,
    deadline: float = _C.deadline,
    concurrency: int = _C.concurrency,
    batch: bool = _C.batch,
    max_cost: float | None = _C.max_cost,
    prices: str | Path | None = _C.prices,
    data_dir: str | Path | None = None,
    allow_changed_data: bool = False,
    max_prompt_tokens: int | None = None,
    cancel_batch: bool = False,
    reference: bool = False,
    progress: bool | None = None,
    on_step: Callable[[str], None] | None = None,
    on_progress: "Callable[[Progress], None] | None" = None,
    **unknown: Never,
) -> Result:
    """Ask `model` about test rows of `task`, once per arm, and measure accuracy and demographic parity.

    `task` is a name, a task file or a `Task`; `model` a name, a `Model`, or a function of the messages that
    returns text, P(yes) or a `Reply` (see `FunctionModel`). `arms` are strategy names, files
    of saved shots (ending in .json) or `Shots`. Each of the `repeats` draws `n_test` rows with the given
    `base_parity`, and its examples, from `seed` + its number. The run's folder is `out`, by default
    ./runs/<time>-<task>-<model>; if `out` is the folder of an interrupted run, that run continues. Works
    inside a running event loop too (notebooks).

    `settings` is the experiment as one value: `n_test`, `base_parity`, `repeats`, `seed`, `m`, `epsilon`,
    `template`, `orders`, `weights`, `redraw`, `counterfactual`, `threshold`, `threshold_rows`, `api`,
    `consistency`, `strategy_options`, `templates`, `samples`. `client` is the service as one value:
    `base_url`, `api_key_env`, `params`, `max_tokens`, `logprobs`, `rpm`, `tpm`, `deadline`, `concurrency`,
    `batch`, `max_cost`, `prices`. `Settings` and `Client` explain them. An option given by name overrides
    the one in the value.

    `data_dir` is where the data lies, `allow_changed_data` accepts saved shots although the data has
    changed, and `max_prompt_tokens` chooses the largest m, up to `m`, whose prompts fit. `cancel_batch` ends
    batches that an earlier pass sent; by default their replies are collected first. `reference` adds what
    plain models answer to the same rows to the report and the statistics (extra `reference`).

    Progress is shown in a notebook and on a terminal; `progress` False hides it. `on_step(text)` and
    `on_progress(progress)` receive it instead.

    Errors: `FwcError` for bad input, before any request; `ProviderError` when the provider rejects the run
    and `InterruptedRunError` on Ctrl-C. Both keep the answers so far and score them (attribute `result`).
    """
    if unknown:
        raise FwcError(f"evaluate has no option {next(iter(unknown))!r}: see help(fwc_llm.evaluate)")
    settings = _with(
        settings or Settings(),
        n_test=n_test,
        base_parity=base_parity,
        repeats=repeats,
        seed=seed,
        m=m,
        epsilon=epsilon,
        template=template,
        orders=orders,
        weights=weights,
        redraw=redraw,
        counterfactual=counterfactual,
        threshold=threshold,
        threshold_rows=threshold_rows,
        api=api,
        consistency=consistency,
        strategy_options=strategy_options,
        templates=templates,
        samples=samples,
    )
    client = _with(
        client or Client(),
        base_url=base_url,
        api_key_env=api_key_env,
        params=params,
        max_tokens=max_tokens,
        logprobs=logprobs,
        rpm=rpm,
        tpm=tpm,
        deadline=deadline,
        concurrency=concurrency,
        batch=batch,
        max_cost=max_cost,
        prices=prices,
    )
    taken = on_step is not None or on_progress is not None
    shown = choose(False if progress is None and taken else progress)
    with shown.working("reading the table") as step:
        job = prepare(
            task, model, arms, settings, client, data_dir, allow_changed_data, max_prompt_tokens,
            on_step=_both(step, on_step), notice=shown.say, reference=reference,
        )  # fmt: skip
    for note in job.plan.notes:
        shown.say(note)
    with shown.asking(job.plan.n_calls) as state:
        return job.run(out, _both(state, on_progress), cancel_batch)


def _with(value: _V, **options: Any) -> _V:
    """The value with the options that were given."""
    return replace(value, **{k: given for k, given in options.items() if not isinstance(given, _Default)})


def _both(first: Callable[[_T], None], second: Callable[[_T], None] | None) -> Callable[[_T], None]:
    """A function that calls both with its argument."""

    def tell(news: _T) -> None:
        first(news)
        if second is not None:
            second(news)

    return tell
