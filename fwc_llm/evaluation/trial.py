"""What a threshold needs of a model before the run is paid for: P(yes) (docs/protocol.md, "A threshold")."""

from collections.abc import Sequence
from itertools import islice

from fwc_llm.errors import ProviderError
from fwc_llm.models import Client, Model, traits
from fwc_llm.runs.journal import Call, Journal, call_id, parameters_json
from fwc_llm.runs.plan import Plan
from fwc_llm.runs.settings import Settings

_TRIED = 8  # questions after which a model that gives no P(yes) is known


def with_logprobs(model: object, settings: Settings, client: Client) -> tuple[Client, str]:
    """The client with log-probabilities where a threshold needs them, and what to say of that."""
    needed = settings.threshold is not None and settings.api == "chat" and isinstance(model, str)
    if not needed or client.logprobs:
        return client, ""
    said = f"--threshold {settings.threshold} needs P(yes): --logprobs is switched on"
    return client.updated(logprobs=True), said


def needs_trial(plan: Plan, model: Model, client: Client) -> bool:
    """Whether a few questions come first: not for decision models, and not in batches, which take hours."""
    return plan.settings.threshold is not None and traits(model).api == "chat" and not client.batch


def first_questions(plan: Plan) -> list[Call]:
    """The questions that are asked before all others."""
    return list(islice(plan.calls(), _TRIED))


def check_probability(model: Model, calls: Sequence[Call], journal: Journal) -> None:
    """Refuse with `ProviderError` a model whose replies to these calls are there and have no P(yes)."""
    parameters = parameters_json(model)
    tried = {call_id(parameters, call) for call in calls}
    said = [
        record.get("p_yes")
        for record in journal.records()
        if record["request"] in tried and record["text"] is not None
    ]
    if said and all(p is None for p in said):
        raise ProviderError(
            f"{model.name} gives no P(yes), which --threshold needs (the first {len(said)} replies have "
            "none): leave --threshold out, or ask a model that gives log-probabilities (--logprobs)"
        )
