"""The usage of a run, as counted by the provider, and its cost."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fwc_llm.models.base import Usage
from fwc_llm.models.openai.prices import Price, no_price, price_of


def cost(
    results: Mapping[str, Any],
    parameters: Mapping[str, Any],
    price: Price | None = None,
) -> dict[str, Any]:
    """Requests, tokens and dollars of a run; `results` is results.json, `parameters` those of
    requests.
    """
    live, batched = (
        Usage(**(results.get(name) or {})) for name in ("usage", "batch_usage")
    )
    costs: dict[str, Any] = {
        "requests": results.get("requests"),
        "unanswered": results.get("unanswered"),
        "usage": asdict(live + batched),
    }
    if results.get("truncated"):
        costs["truncated"] = results["truncated"]
    model = str(results["model"])
    api = str(results.get("api") or "chat")
    price = price or (
        no_price(model)
        if results.get("local")
        else price_of(model, None, api, parameters)
    )
    if price is not None and not results.get("simulated_answers", results["simulated"]):
        mean = (live + batched).prompt_tokens // max(costs["requests"] or 0, 1)
        costs["dollars"] = price.dollars(live, longest=mean)
        costs["dollars"] += price.dollars(batched, batch=True, longest=mean)
        if results.get("unknown_usage"):
            costs["dollars_unknown"] = price.dollars(
                Usage(**results["unknown_usage"]), longest=mean
            )
        costs |= {"price_date": price.date, "price_source": price.source}
    return costs


def cost_line(
    results: Mapping[str, Any],
    parameters: Mapping[str, Any],
    price: Price | None = None,
) -> str:
    """The usage and cost of a run in one line; arguments as in `cost`."""
    costs = cost(results, parameters, price)
    usage = costs["usage"]
    if "truncated" in costs:
        cut = f"the service truncated {costs['truncated']:,} inputs; "
    else:
        cut = ""
    replies = (costs["requests"] or 0) > (costs["unanswered"] or 0)
    if replies and not any(usage.values()) and not results.get("local"):
        return (
            f"{cut}the replies came without token counts: the tokens that the run used are not "
            f"known"
        )
    line = (
        f"{cut}used {usage['prompt_tokens']:,} prompt tokens "
        f"({usage['cached_tokens']:,} of them from the cache) "
        f"and {usage['completion_tokens']:,} completion tokens"
    )
    unknown = results.get("unknown_usage")
    if unknown:
        line += (
            f", and at most {unknown['prompt_tokens']:,} and {unknown['completion_tokens']:,} more "
            f"in "
        )
        line += "attempts whose usage is unknown"
    if "dollars" not in costs:
        return line
    if results.get("local"):
        return f"{line}: nothing to pay, no service was asked"
    if "third part" in costs["price_source"]:
        whose = " (a third party's)"
    else:
        whose = ""
    if "dollars_unknown" in costs:
        more = f", at most ${costs['dollars_unknown']:.2f} more"
    else:
        more = ""
    return f"{line}: ${costs['dollars']:.2f}{more} by prices of {costs['price_date']}{whose}"
