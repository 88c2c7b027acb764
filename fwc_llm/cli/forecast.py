"""What a run would ask and cost, before it is asked: `fwc-llm eval --dry-run`, and who answers."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fwc_llm.cli.power import plan_lines, smallest_json

if TYPE_CHECKING:
    from fwc_llm.evaluation.job import Job
    from fwc_llm.runs.budget import Forecast


@dataclass(frozen=True)
class _Told:
    """What is known of one model's run. Without `numbers` it costs nothing."""

    job: "Job"
    numbers: "Forecast | None"

    @property
    def writes(self) -> bool:
        """Whether the replies are text that somebody counts: not of a decision model, nor of a function."""
        from fwc_llm.models import traits

        return traits(self.job.model).api == "chat" and not is_function(self.job)

    @property
    def dollars(self) -> float | None:
        """The most that it can cost, None where that is not known."""
        return 0.0 if self.numbers is None else self.numbers.dollars_most

    def lines(self) -> Iterator[str]:
        """The forecast in sentences."""
        plan, name, numbers = self.job.plan, self.job.model.name, self.numbers
        if numbers is None:
            yield f"{plan.n_calls:,} requests to {name} ({where(self.job)}): they cost nothing"
            return
        exact = "" if numbers.exact else " (an estimate: the tokens of this model cannot be counted here)"
        yield f"{numbers.calls:,} requests to {name} ({where(self.job)})"
        if held := plan.n_threshold_calls:
            share = None if numbers.dollars is None else numbers.dollars * held / numbers.calls
            cost = "" if share is None else f", about ${share:.2f}"
            yield f"{held:,} of them are about rows of the pool, to choose the threshold{cost}"
        if plan.settings.counterfactual:
            yield "this includes the counterfactual probe, which asks every row again for each other level"
        if (samples := plan.settings.samples) > 1:
            yield f"this includes that every prompt is asked {samples} times"
        yield f"{numbers.prompt_tokens:,} prompt tokens{exact}, the longest prompt {numbers.longest_prompt:,}"
        if not is_function(self.job):
            yield f"{numbers.cached_share:.0%} of them can come from the provider's prompt cache"
        if self.writes:
            yield f"at most {numbers.completion_tokens:,} completion tokens"
        yield self._cost(numbers)

    def _cost(self, numbers: "Forecast") -> str:
        name = self.job.model.name
        if numbers.dollars is None or numbers.dollars_most is None or numbers.price is None:
            if is_function(self.job):
                return f"cost unknown: {name} is a function of yours, which alone knows what it asks"
            return f"cost unknown: no price of {name} is known; give a price file with --prices"
        least, most = f"${numbers.dollars:.2f}", f"${numbers.dollars_most:.2f}"
        return (
            f"{most if least == most else f'{least} with the cache, {most} without'}"
            f"{', as batches' if self.job.client.batch else ''}, "
            f"by prices of {numbers.price.date} ({numbers.price.source})"
        )

    def as_json(self) -> dict[str, Any]:
        """The forecast as plain values; tokens are None for a model that is not asked over a network."""
        plan, numbers = self.job.plan, self.numbers
        return {
            "model": self.job.model.name,
            "where": where(self.job),
            "requests": plan.n_calls,
            "threshold_requests": plan.n_threshold_calls,
            "prompt_tokens": numbers and numbers.prompt_tokens,
            "longest_prompt": numbers and numbers.longest_prompt,
            "cached_tokens": numbers and numbers.cached_tokens,
            "completion_tokens": numbers.completion_tokens if numbers and self.writes else None,
            "exact": numbers and numbers.exact,
            "dollars": 0.0 if numbers is None else numbers.dollars,
            "dollars_most": self.dollars,
            "price": asdict(numbers.price) if numbers and numbers.price else None,
        }


def print_forecast(jobs: "Sequence[Job]", as_json: bool) -> None:
    """Say what the run would ask and cost."""
    from fwc_llm.cli.as_json import print_json
    from fwc_llm.cli.console import out

    told = [_tell(job) for job in jobs]
    dollars = [one.dollars for one in told]
    total = sum(known) if len(known := [one for one in dollars if one is not None]) == len(told) else None
    if as_json:
        print_json(
            {
                "format": "fwc-llm-forecast/1",
                "models": [one.as_json() for one in told],
                "dollars_most": total,
                "smallest": smallest_json(jobs[0].plan),
            }
        )
        return
    for one in told:
        for line in one.lines():
            out.print(line, soft_wrap=True, highlight=False)
    if len(told) > 1 and all(dollars):
        out.print(f"all {len(told)} models: at most ${total:.2f}")
    for line in plan_lines(jobs[0].plan):
        out.print(line, soft_wrap=True, highlight=False)


def _tell(job: "Job") -> _Told:
    from fwc_llm.cli.console import working
    from fwc_llm.models import traits

    said = traits(job.model)
    if said.reference or said.local or (said.simulated and job.client.base_url is None):
        return _Told(job, None)
    with working("counting tokens"):
        return _Told(job, job.forecast())


def is_function(job: "Job") -> bool:
    """Whether a function of the user answers."""
    return job.model.name.startswith("python:")


def where(job: "Job") -> str:
    """Who will answer: whether over a network, and whether it may cost something."""
    from fwc_llm.models import is_local, traits

    said = traits(job.model)
    url = said.address or job.client.base_url
    if said.reference:
        return "a reference, no language model, no network"
    if said.local:
        return "in this process: no network, no cost"
    if said.simulated:
        return f"a simulation, asked over the network at {url}" if url else "a simulation, no network"
    if is_function(job):
        return "a function of yours, in this process"
    if is_local(url):
        return f"at {url}, on this machine"
    return f"at {url}, a service that may charge for them" if url else "a service that may charge for them"
