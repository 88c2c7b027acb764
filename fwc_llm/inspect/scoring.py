"""How Inspect asks and scores: our parameters, our parsing, our metrics."""

from collections.abc import Mapping
from typing import Any

from inspect_ai.model import get_model
from inspect_ai.model._generate_config import active_generate_config
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from fwc_llm.answers import p_yes, parse_answer
from fwc_llm.models.inspect import generate_options, to_reply

_REASONS = {"refused": "refusal", "filtered": "refusal", "empty": "no_response"}


@solver
def ask(logprobs: bool = False) -> Solver:
    """Ask with the parameters of our harness: temperature 0 and a short reply, where the user sets neither.

    A reasoning model gets the room that it needs, and no temperature.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        model = get_model()
        chosen = model.config.merge(active_generate_config())
        options = default_options(model.name, chosen, logprobs)
        return await generate(state, **options)

    return solve


def default_options(model: str, config: Any, logprobs: bool) -> dict[str, Any]:
    """What is sent where the user's `config` leaves it open."""
    options = generate_options(model.rpartition("/")[2], {}, logprobs=logprobs)
    return {name: value for name, value in options.items() if getattr(config, name) is None}


@metric(scores="unreduced")
def decisions() -> Metric:
    """Coverage, accuracy and parity of each arm: the mean over repeats (and epochs) of each one's value.

    What is not defined is left out. With several arms a name begins with the arm's.
    """

    def compute(scores: list[SampleScore]) -> Mapping[str, float]:
        from fwc_llm.metrics.counts import METRICS
        from fwc_llm.runs.results import arm_metrics

        rows = _rows(scores)
        arms = list(dict.fromkeys(row["arm"] for row in rows))
        found = {}
        for arm in arms:
            measured = arm_metrics(arm, [row for row in rows if row["arm"] == arm])
            for name in ("coverage", *METRICS):
                if measured[name] is not None:
                    found[f"{arm}/{name}" if len(arms) > 1 else name] = float(measured[name])
        return found

    return compute


def _rows(scores: list[SampleScore]) -> list[dict[str, Any]]:
    """The questions with their answers. A question that comes again is one of the next epoch."""
    asked: dict[Any, int] = {}
    rows = []
    for one in scores:
        row = dict(one.sample_metadata or {})
        if row.get("variant"):
            continue
        epoch = asked[one.sample_id] = asked.get(one.sample_id, -1) + 1
        # Any numbers do that tell repeats and epochs apart.
        row["repeat"] = row["repeat"] * 1_000_000 + epoch
        rows.append(
            row | {"answer": one.score.answer or "", "reason": (one.score.metadata or {}).get("reason", "")}
        )
    return rows


@scorer(metrics=[decisions()])
def decision() -> Scorer:
    """Parse the reply as our harness does: "C" and "I" for right and wrong, "N" for what is neither."""

    async def score(state: TaskState, target: Target) -> Score:
        reply = to_reply(state.output)
        answer = parse_answer(reply)
        right = "N" if answer.value is None else "C" if answer.value == target.text else "I"
        return Score(
            value=right,
            answer=answer.value,
            explanation=reply.text if reply.text is not None else reply.error,
            reason=_REASONS.get(answer.reason, "invalid_response_format") if answer.reason else None,
            metadata={"reason": answer.reason, "p_yes": p_yes(reply.logprobs)},
        )

    return score
