"""`fwc-llm eval`: query a model over the test rows and report accuracy and demographic parity."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fwc_llm.cli.defaults import M_HELP, N_TEST_HELP, PARITY_HELP, TASK_HELP, given, open_task, parity
from fwc_llm.cli.experiment import read_experiment
from fwc_llm.cli.pairs import read_pairs
from fwc_llm.cli.power import plan_lines
from fwc_llm.cli.several import ask_several, model_names
from fwc_llm.errors import FwcError, IncompleteRunError, InterruptedRunError, Scored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fwc_llm.evaluation.job import Job
    from fwc_llm.evaluation.result import Result

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


def _service(help_text: str, *names: str) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel="The model and its service")


def _cost(help_text: str, *names: str) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel="Cost")


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
        _service(
            "The model's name as its provider spells it, `azure:DEPLOYMENT`, or `inspect:PROVIDER/MODEL` "
            "(what Inspect reaches); without key or network `gguf:FILE` and `smollm2`, language models in "
            "this process, `baseline`, a logistic regression on the table, and `surrogate`, a simulation for "
            "the tasks adult and census. Several, comma-separated, are asked the same questions. [default: "
            "surrogate]"
        ),
    ] = None,
    shots: Annotated[
        str,
        _experiment(
            "The arms, comma-separated: strategies or files of saved shots (.json). +removal takes the "
            "protected attribute out of the prompt, +instruction asks for fairness (fwc+instruction)."
        ),
    ] = "zero,balanced,fwc",
    m: Annotated[int | None, _experiment(f"Examples per prompt. {M_HELP}", "--m")] = None,
    epsilon: Annotated[float, _experiment("Largest relative parity violation of the coreset.")] = 0.01,
    n_test: Annotated[int | None, _experiment(f"Test rows per repeat. {N_TEST_HELP}")] = None,
    base_parity: Annotated[
        str | None, _experiment(f"Gap of the groups' base rates in the test rows, {PARITY_HELP}")
    ] = None,
    repeats: Annotated[int, _experiment("Repeat r draws rows and examples from seed + r.")] = 1,
    seed: Annotated[int, _experiment("Seed of the first repeat.")] = 0,
    template: Annotated[
        str, _experiment("Template set: default, paper, decodingtrust, or a folder of your own.")
    ] = "default",
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
    option: Annotated[
        list[str] | None, _experiment("KEY=VALUE for the strategies that take it (slots=equal); repeatable.")
    ] = None,
    out: Annotated[
        Path | None,
        _experiment(
            "The run's folder; an interrupted run continues there. [default: ./runs/<time>-<task>-<model>]",
            "--out",
            "-o",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        _experiment("Where the data lies. [default: $FWC_LLM_DATA, the cache, then the UCI repository]"),
    ] = None,
    allow_changed_data: Annotated[
        bool, _experiment("Accept saved shots although the data has changed.", "--allow-changed-data")
    ] = False,
    base_url: Annotated[
        str | None, _service("Any OpenAI-compatible server; the OpenAI key is not sent there.")
    ] = None,
    api_key_env: Annotated[
        str | None,
        _service("The variable that holds the key. [default: OPENAI_API_KEY; none with --base-url]"),
    ] = None,
    concurrency: Annotated[int, _service("Requests under way at once.")] = 8,
    rpm: Annotated[float | None, _service("Limit of requests per minute.")] = None,
    tpm: Annotated[float | None, _service("Limit of tokens per minute.")] = None,
    deadline: Annotated[float, _service("Seconds for one row, retries included.")] = 300.0,
    max_tokens: Annotated[
        int | None, _service("Largest number of tokens in a reply. [default: a few]")
    ] = None,
    logprobs: Annotated[bool, _service("Ask for token probabilities: gives P(yes).", "--logprobs")] = False,
    param: Annotated[
        list[str] | None, _service("KEY=VALUE, passed to the service as it is; repeatable.")
    ] = None,
    batch: Annotated[
        bool, _service("Use the provider's Batch API: cheaper, may take hours, survives restarts.", "--batch")
    ] = False,
    cancel_batch: Annotated[
        bool,
        _service(
            "Cancel the folder's batches that are under way and ask their open questions live. [default: "
            "wait for them]",
            "--cancel-batch",
        ),
    ] = False,
    dry_run: Annotated[
        bool, _cost("Print the number of requests and their cost; send none.", "--dry-run")
    ] = False,
    max_cost: Annotated[float | None, _cost("Stop before the run costs more dollars than this.")] = None,
    prices: Annotated[Path | None, _cost("A price file of your own (TOML).")] = None,
    max_prompt_tokens: Annotated[
        int | None, _cost("Choose the largest m, up to --m, whose prompts fit.")
    ] = None,
) -> None:
    """Query a model over test rows and report accuracy and demographic parity.

    Without options it is a demonstration: a simulated census and a simulated model.
    With a real model: fwc-llm eval --model gpt-6-luna --shots fwc
    """
    from fwc_llm.cli import console
    from fwc_llm.evaluation.job import prepare
    from fwc_llm.models import Client
    from fwc_llm.runs.settings import Settings

    # Saved examples belong to a task: with them it is no demonstration, but a run with defaults.
    models = model_names(model)
    demonstration = task is None and model is None and ".json" not in shots
    settings = Settings(
        **given(m=m, n_test=n_test),
        **parity(base_parity),
        epsilon=epsilon,
        repeats=repeats,
        seed=seed,
        template=template,
        orders=_words(order),
        weights=weights,
        redraw=redraw,
        counterfactual=counterfactual,
        strategy_options=read_pairs(option, "--option"),
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
            )

        job = plan(models[0], settings)
        for other in models[1:] if max_prompt_tokens is not None else ():
            job = plan(other, job.plan.settings)  # prompts that fit all of them
    job = job if task is None else job.named(task)
    for note in job.plan.notes:
        console.err.print(note, soft_wrap=True)
    if max_prompt_tokens is not None:
        chosen = f"{job.plan.settings.m} of {settings.m} examples"
        console.err.print(f"{chosen}: the most that fit into {max_prompt_tokens:,} prompt tokens")
    jobs = [job.beside(name, console.err.print) for name in models] if len(models) > 1 else [job]
    if dry_run:
        _forecast(jobs)
        return
    if len(jobs) > 1:
        ask_several(jobs, out, lambda one, folder, elsewhere: _ask(one, folder, cancel_batch, elsewhere))
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
    if job.plan.settings.counterfactual:
        out.print("this includes the counterfactual probe, which asks every row again for each other level")
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
    if is_local(url):
        return f"at {url}, on this machine"
    return "a service that may charge for them"


def _report(job: "Job", result: Scored) -> None:
    """Print what a run found, in whole or in part."""
    from fwc_llm.cli import console
    from fwc_llm.report.cost import cost_line
    from fwc_llm.report.terminal import results_table, statistics_lines

    for note in job.plan.task.notes:
        console.err.print(note, soft_wrap=True)
    console.out.print(results_table(result.data))
    console.out.print(statistics_lines(result.folder))
    if not (result.data["simulated_answers"] or result.data["reference"]):
        console.err.print(cost_line(result.data, job.price), soft_wrap=True)
    where = f"everything is in {result.folder}; see it with: fwc-llm report {result.folder}"
    console.err.print(where, soft_wrap=True)
