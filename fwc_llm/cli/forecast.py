"""What a run would ask and cost, before it is asked: `fwc-llm eval --dry-run`, and who answers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fwc_llm.cli.power import plan_lines

if TYPE_CHECKING:
    from fwc_llm.evaluation.job import Job


def print_forecast(jobs: "Sequence[Job]") -> None:
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
        out.print(f"{job.plan.n_calls:,} requests to {job.model.name} ({where(job)}): they cost nothing")
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


def where(job: "Job") -> str:
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
