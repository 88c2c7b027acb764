"""`fwc-llm eval`: query a model over the test rows and report accuracy and demographic parity."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fwc_llm.cli.defaults import (
    M_HELP,
    N_TEST_HELP,
    PARITY_HELP,
    TASK_HELP,
    given,
    open_task,
    parity,
    read_threshold,
)
from fwc_llm.cli.experiment import read_experiment
from fwc_llm.cli.gate import Gates, fail_if_option, junit_option, settle_folders, undecided_option
from fwc_llm.cli.pairs import read_pairs
from fwc_llm.cli.power import plan_lines
from fwc_llm.cli.service import (
    Api,
    ApiKeyEnv,
    BaseUrl,
    Batch,
    CancelBatch,
    Concurrency,
    Deadline,
    Logprobs,
    MaxCost,
    MaxTokens,
    Param,
    Prices,
    Rpm,
    Tpm,
    cost,
    service,
)
from fwc_llm.cli.several import ask_several, model_names
from fwc_llm.errors import FwcError, IncompleteRunError, InterruptedRunError, Scored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fwc_llm.evaluation.job import Job
    from fwc_llm.evaluation.result import Result

_ARMS = "zero,balanced,fwc"
_EXPLANATION = """
Each arm asked a simulated model about {n_test} rows of a simulated census. Half of them are women; \
the true rates of women and men differ by {base_parity:g}. `zero` shows no examples, `balanced` shows \
{m} drawn equally from all groups, and `fwc` shows {m} weighted ones chosen so that groups and \
outcomes are in parity. Accuracy is the share of right answers. The DP gap is the difference of the \
groups' rates of "yes": 0 is parity, and the true answers have {base_parity:g} here. None of this \
measures a real model. To measure one:

    OPENAI_API_KEY=... fwc-llm eval --model MODEL --shots zero,balanced,fwc"""


def _experiment(help_text: str, *names: str) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel="The experiment")


def _read(context: typer.Context, path: Path | None) -> Path | None:
    """Let the experiment file's options stand in for the defaults of the flags."""
    if path is not None:
        context.default_map = read_experiment(path, evaluate)
    return path


def evaluate(
    experiment: Annotated[
        Path | None,
        typer.Argument(
            help="An experiment file (.toml): these options by their names, as every run's folder has one. "
            "Flags override it.",
            callback=_read,
            is_eager=True,
        ),
    ] = None,
    task: Annotated[
        str | None,
        _experiment(f"{TASK_HELP} The demonstration uses the census."),
    ] = None,
    model: Annotated[
        str | None,
        service(
            "The model's name as its provider spells it, `azure:DEPLOYMENT`, or `inspect:PROVIDER/MODEL` "
            "(what Inspect reaches), `python:MODULE:FUNCTION`, or a name that an installed package provides; "
            "without key or network `gguf:FILE` and `smollm2`, language models in this process, `baseline`, "
            "a logistic regression on the table, and `surrogate`, a simulation for the tasks adult and "
            "census. Several, comma-separated, are asked the same questions. [default: surrogate]"
        ),
    ] = None,
    shots: Annotated[
        str,
        _experiment(
            "The arms, comma-separated: strategies or files of saved shots (.json). +removal takes the "
            "protected attribute out of the prompt, +instruction asks for fairness (fwc+instruction)."
        ),
    ] = _ARMS,
    m: Annotated[int | None, _experiment(f"Examples per prompt. {M_HELP}", "--m")] = None,
    epsilon: Annotated[float, _experiment("Largest relative parity violation of the coreset.")] = 0.01,
    n_test: Annotated[int | None, _experiment(f"Test rows per repeat. {N_TEST_HELP}")] = None,
    base_parity: Annotated[
        str | None, _experiment(f"Gap of the groups' base rates in the test rows, {PARITY_HELP}")
    ] = None,
    repeats: Annotated[int, _experiment("Repeat r draws rows and examples from seed + r.")] = 1,
    seed: Annotated[int, _experiment("Seed of the first repeat.")] = 0,
    template: Annotated[
        str | None,
        _experiment(
            "Template set: default, decision, paper, decodingtrust, or a folder of your own; several, "
            "comma-separated, make an arm each. [default: default; decision with --api decisions or "
            "systemone]"
        ),
    ] = None,
    samples: Annotated[
        int, _experiment("Ask every prompt so often, to see how often the model agrees with itself.")
    ] = 1,
    order: Annotated[
        str | None,
        _experiment(
            "Order of the examples: alternate, random, by-weight, given; several, comma-separated, make an "
            "arm each. [default: the strategy's own]"
        ),
    ] = None,
    weights: Annotated[str, _experiment("show or hide the weights of the examples.")] = "show",
    redraw: Annotated[
        str, _experiment("Balanced examples drawn `once` a repeat, or anew `per-row`.")
    ] = "once",
    counterfactual: Annotated[
        bool,
        _experiment("Ask again with the protected level changed (doubles the calls).", "--counterfactual"),
    ] = False,
    threshold: Annotated[
        str | None,
        _experiment(
            "Answer yes from this P(yes) up, beside the answers as given: a number, `fit` (most accurate) or "
            "`base-rate` (as many yes as there are), both chosen on rows of the pool that are asked first."
        ),
    ] = None,
    threshold_rows: Annotated[
        int | None, _experiment("Rows of the pool that this asks about. [default: as --n-test, at most 200]")
    ] = None,
    consistency: Annotated[
        bool,
        _experiment(
            "Ask for the negation and a paraphrase in the same request, and count contradictions (not with "
            "--api chat).",
            "--consistency",
        ),
    ] = False,
    reference: Annotated[
        bool,
        _experiment(
            "Also say what plain models of the table answer to the same rows. Extra: reference.",
            "--reference",
        ),
    ] = False,
    option: Annotated[
        list[str] | None, _experiment("KEY=VALUE for the strategies that take it (slots=equal); repeatable.")
    ] = None,
    ablate: Annotated[
        bool,
        _experiment(
            "Set apart what FWC's slots, geometry, weights and order do: arms that differ in one part each, "
            "20 repeats.",
            "--ablate",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        _experiment(
            "The run's folder; an interrupted run continues there. [default: ./runs/<time>-<task>-<model>]",
            "--out",
            "-o",
        ),
    ] = None,
    no_rows: Annotated[
        bool,
        _experiment("Reports of this run hold no rows, prompts or replies: people's records.", "--no-rows"),
    ] = False,
    data_dir: Annotated[
        Path | None,
        _experiment("Where the data lies. [default: $FWC_LLM_DATA, the cache, then the UCI repository]"),
    ] = None,
    allow_changed_data: Annotated[
        bool, _experiment("Accept saved shots although the data has changed.", "--allow-changed-data")
    ] = False,
    api: Api = "chat",
    base_url: BaseUrl = None,
    api_key_env: ApiKeyEnv = None,
    concurrency: Concurrency = 8,
    rpm: Rpm = None,
    tpm: Tpm = None,
    deadline: Deadline = 300.0,
    max_tokens: MaxTokens = None,
    logprobs: Logprobs = False,
    param: Param = None,
    batch: Batch = False,
    cancel_batch: CancelBatch = False,
    dry_run: Annotated[
        bool, cost("Print the number of requests and their cost; send none.", "--dry-run")
    ] = False,
    max_cost: MaxCost = None,
    prices: Prices = None,
    max_prompt_tokens: Annotated[
        int | None, cost("Choose the largest m, up to --m, whose prompts fit.")
    ] = None,
    fail_if: Annotated[list[str] | None, fail_if_option()] = None,
    undecided: Annotated[str | None, undecided_option()] = None,
    junit: Annotated[Path | None, junit_option()] = None,
) -> None:
    """Query a model over test rows and report accuracy and demographic parity.

    Without options it is a demonstration: a simulated census and a simulated model.
    With a real model: fwc-llm eval --model gpt-6-luna --shots fwc
    """
    from fwc_llm.cli import console
    from fwc_llm.evaluation.job import prepare
    from fwc_llm.models import Client
    from fwc_llm.runs.settings import Settings

    gates = Gates.read(fail_if, undecided, junit, dry_run)
    # Saved examples belong to a task: with them it is no demonstration, but a run with defaults.
    models = model_names(model)
    options = read_pairs(option, "--option")
    if ablate:
        shots, repeats, options = _ablation(shots, order, repeats, options)
    demonstration = task is None and model is None and ".json" not in shots
    settings = Settings(
        **given(m=m, n_test=n_test),
        **parity(base_parity),
        epsilon=epsilon,
        repeats=repeats,
        seed=seed,
        **_wordings(template),
        samples=samples,
        orders=_words(order),
        weights=weights,
        redraw=redraw,
        counterfactual=counterfactual,
        threshold=read_threshold(threshold),
        threshold_rows=threshold_rows,
        api=api,
        consistency=consistency,
        strategy_options=options,
    )
    client = Client(
        base_url=base_url,
        api_key_env=api_key_env,
        params=read_pairs(param, "--param"),
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
    with console.working("reading the table") as step:
        table = open_task("census" if demonstration else task, data_dir)

        def plan(name: str, settings: Settings) -> "Job":
            return prepare(
                table,
                name,
                _words(shots),
                settings,
                client,
                data_dir,
                allow_changed_data,
                max_prompt_tokens,
                step,
                console.err.print,
                reference,
            )

        job = plan(models[0], settings)
        for other in models[1:] if max_prompt_tokens is not None else ():
            job = plan(other, job.plan.settings)  # prompts that fit all of them
    job = job if task is None else job.named(task)
    job = job.without_rows() if no_rows else job
    for note in job.plan.notes:
        console.err.print(note, soft_wrap=True)
    if max_prompt_tokens is not None:
        chosen = f"{job.plan.settings.m} of {settings.m} examples"
        console.err.print(f"{chosen}: the most that fit into {max_prompt_tokens:,} prompt tokens")
    jobs = [job.beside(name, console.err.print) for name in models] if len(models) > 1 else [job]
    gates.begin([arm.name for arm in job.plan.arms])
    if dry_run:
        _forecast(jobs)
        return
    if len(jobs) > 1:
        folders = ask_several(
            jobs, out, lambda one, folder, elsewhere: _ask(one, folder, cancel_batch, elsewhere)
        )
        settle_folders(gates, folders)
        return
    try:
        result = _ask(job, out, cancel_batch)
    except InterruptedRunError as error:
        _say_interrupted(error.result)
        raise
    except FwcError as error:
        partial = error.result
        if partial is not None and partial.data["unanswered"] < partial.data["requests"]:
            _report(job, partial)
        raise
    if result.unanswered < result.data["requests"]:
        _report(job, result)
    if demonstration:
        console.out.print(_EXPLANATION.format(**job.plan.settings.as_json()), highlight=False)
    if result.unanswered:
        raise IncompleteRunError(
            result.data["stopped"]
            or f"{result.unanswered} of {result.data['requests']} requests have no reply "
            f"({_missing(result)}{_why(result)}); the same command with --out {result.folder} asks them again"
        )
    if missing := _pool_missing(result):
        raise IncompleteRunError(missing)
    settle_folders(gates, {job.model.name: result.folder})


def _pool_missing(result: Scored) -> str:
    """That rows of the pool have no reply, if some have none."""
    missing, of = result.data.get("pool_unanswered") or 0, result.data.get("pool_requests") or 0
    if not missing:
        return ""
    return (
        f"{missing:,} of {of:,} requests about rows of the pool have no reply, so that the threshold rests "
        f"on fewer; the same command with --out {result.folder} asks them again"
    )


def _ablation(
    shots: str, order: str | None, repeats: int, options: dict[str, Any]
) -> tuple[str, int, dict[str, Any]]:
    """The arms, repeats and options of an ablation."""
    from fwc_llm.runs.ablation import ARMS, OPTIONS, REPEATS

    if shots not in (_ARMS, ",".join(ARMS)) or order:
        raise FwcError("--ablate names its arms and their orders: leave --shots and --order out")
    return ",".join(ARMS), REPEATS if repeats == 1 else repeats, OPTIONS | options


def _why(result: Scored) -> str:
    """The most frequent reason why rows have no reply."""
    reasons = result.data["no_reply"]
    return f"; {reasons[0]['requests']} of them: {reasons[0]['reason']}" if reasons else ""


def _missing(result: "Result") -> str:
    """The first rows without a reply, by name."""
    answers = result.answers()
    missing = answers[answers["reason"] == "error"]
    names = [f"{arm} {row}" for arm, row in zip(missing["arm"], missing["row"], strict=True)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more, see answers.csv" if len(names) > 5 else "")


def _wordings(text: str | None) -> dict[str, Any]:
    """The template set, or several; a folder may have a comma in its name. None: the default set."""
    if text is None:
        return {}
    sets = (text,) if Path(text).is_dir() else _words(text)
    if not sets:
        raise FwcError("--template names no template set: give default, paper, or a folder of your own")
    return {"template": sets[0], "templates": sets if len(sets) > 1 else ()}


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def _forecast(jobs: "Sequence[Job]") -> None:
    """Say what the run would ask and cost."""
    from fwc_llm.cli.console import out

    dollars = [_forecast_of(job) for job in jobs]
    if len(jobs) > 1 and all(dollars):
        out.print(f"all {len(jobs)} models: at most ${sum(dollars):.2f}")
    for line in plan_lines(jobs[0].plan):
        out.print(line, soft_wrap=True, highlight=False)


def _forecast_of(job: "Job") -> float:
    """Say what one model would be asked and cost; return the dollars at most, 0 where they are not known."""
    from fwc_llm.cli.console import out, working
    from fwc_llm.models import traits

    said = traits(job.model)
    if said.reference or said.local:
        out.print(f"{job.plan.n_calls:,} requests to {job.model.name} ({_where(job)}): they cost nothing")
        return 0.0
    with working("counting tokens"):
        numbers = job.forecast()
    exact = "" if numbers.exact else " (an estimate: the tokens of this model cannot be counted here)"
    out.print(f"{numbers.calls:,} requests to {job.model.name}")
    if held := job.plan.n_threshold_calls:
        cost = f", about ${numbers.dollars * held / numbers.calls:.2f}" if numbers.dollars is not None else ""
        out.print(f"{held:,} of them are about rows of the pool, to choose the threshold{cost}")
    if job.plan.settings.counterfactual:
        out.print("this includes the counterfactual probe, which asks every row again for each other level")
    if (samples := job.plan.settings.samples) > 1:
        out.print(f"this includes that every prompt is asked {samples} times")
    out.print(
        f"{numbers.prompt_tokens:,} prompt tokens{exact}, the longest prompt {numbers.longest_prompt:,}"
    )
    out.print(f"{numbers.cached_share:.0%} of them can come from the provider's prompt cache")
    out.print(f"at most {numbers.completion_tokens:,} completion tokens")
    if numbers.dollars is None or numbers.dollars_most is None or numbers.price is None:
        out.print(f"cost unknown: no price of {job.model.name} is known; give a price file with --prices")
    else:
        least, most = f"${numbers.dollars:.2f}", f"${numbers.dollars_most:.2f}"
        out.print(
            f"{most if least == most else f'{least} with the cache, {most} without'}"
            f"{', as batches' if job.client.batch else ''}, "
            f"by prices of {numbers.price.date} ({numbers.price.source})"
        )
    return numbers.dollars_most or 0.0


def _ask(job: "Job", out: Path | None, cancel_batch: bool, elsewhere: float = 0.0) -> "Result":
    """Run the plan under a progress bar."""
    from fwc_llm.cli import console
    from fwc_llm.runs.batch import batches_under_way

    arms = ", ".join(arm.name for arm in job.plan.arms)
    line = f"{job.plan.n_calls:,} requests to {job.model.name} ({_where(job)}); arms: {arms}"
    console.err.print(line, soft_wrap=True)
    if out is not None and not cancel_batch and batches_under_way(out):
        console.err.print("a batch is under way: its replies come first (--cancel-batch ends it)")

    def resume(answered: int) -> None:
        left = job.plan.n_calls - answered
        rest = f"{left:,} to ask" if left else "nothing to ask"
        console.err.print(f"{answered:,} of {job.plan.n_calls:,} answered, {rest}")

    with console.asking(job.plan.n_calls) as progress:
        return job.run(out, progress, cancel_batch, resume, elsewhere)


def _say_interrupted(result: Scored | None) -> None:
    """Say what is there; nothing of a part of the answers is shown as a result."""
    from fwc_llm.cli import console

    if result is None:
        return
    requests = int(result.data["requests"])
    console.err.print(f"{requests - result.unanswered:,} of {requests:,} requests are answered")
    console.err.print(f"what was answered is in {result.folder}", soft_wrap=True)


def _where(job: "Job") -> str:
    """Who will answer: whether over a network, and whether it may cost something."""
    from fwc_llm.models import is_local, traits

    url, said = job.client.base_url, traits(job.model)
    if said.reference:
        return "a reference, no language model, no network"
    if said.local:
        return "in this process: no network, no cost"
    if said.simulated:
        return f"a simulation, asked over the network at {url}" if url else "a simulation, no network"
    if job.model.name.startswith("python:"):
        return "a function of yours, in this process"
    if is_local(url):
        return f"at {url}, on this machine"
    return "a service that may charge for them"


def _report(job: "Job", result: Scored) -> None:
    """Print what a run found, in whole or in part."""
    from fwc_llm.cli import console
    from fwc_llm.report.ablation import ablation_table
    from fwc_llm.report.cost import cost_line
    from fwc_llm.report.terminal import results_table, statistics_lines
    from fwc_llm.report.thresholds import threshold_table
    from fwc_llm.runs.ablation import ARMS

    for note in job.plan.task.notes:
        console.err.print(note, soft_wrap=True)
    console.out.print(results_table(result.data))
    console.out.print(statistics_lines(result.folder))
    if (table := threshold_table(result.folder)) is not None:
        console.out.print(table)
    if tuple(arm.name for arm in job.plan.arms) == ARMS:
        console.out.print(ablation_table(result.folder))
    if not (result.data["simulated_answers"] or result.data["reference"]):
        console.err.print(cost_line(result.data, job.price), soft_wrap=True)
    where = f"everything is in {result.folder}; see it with: fwc-llm report {result.folder}"
    console.err.print(where, soft_wrap=True)
