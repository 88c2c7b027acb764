"""The usage of a run, as counted by the provider, and its cost."""

from dataclasses import asdict

from fwc_llm.models.base import Usage
from fwc_llm.models.openai.prices import Price, no_price, price_of
from fwc_llm.sanitize import Fields, Json


def cost(results: Fields, parameters: Fields, price: Price | None = None) -> Json:
    """Requests, tokens and dollars of a run, and `words` on them.

    `results` is results.json, `parameters` those of requests.
    """
    live, batched = (
        Usage(**(results.get(name) or {})) for name in ("usage", "batch_usage")
    )
    costs: Json = {
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
    return costs | {"words": _words(costs, results)}


def _words(costs: Fields, results: Fields) -> str:
    """The usage and its price in words."""
    usage = costs["usage"]
    asked = (costs["requests"] or 0) > (costs["unanswered"] or 0)
    line = ""
    if "truncated" in costs:
        line = f"the service truncated {costs['truncated']:,} inputs; "
    if asked and not any(usage.values()) and not results.get("local"):
        return f"{line}the replies came without token counts: the tokens used are not known"
    line += (
        f"used {usage['prompt_tokens']:,} prompt tokens ({usage['cached_tokens']:,} of them from "
        f"the cache) and {usage['completion_tokens']:,} completion tokens"
    )
    unknown = results.get("unknown_usage")
    if unknown:
        line += (
            f", and at most {unknown['prompt_tokens']:,} and {unknown['completion_tokens']:,} more "
            "in attempts whose usage is unknown"
        )
    is_simulated = results.get("simulated_answers", results["simulated"])
    if is_simulated or results.get("local"):
        return f"{line}: nothing to pay"
    if "dollars" not in costs:
        return f"{line}: at no known price"
    line += f": ${costs['dollars']:.2f}"
    if "dollars_unknown" in costs:
        line += f", at most ${costs['dollars_unknown']:.2f} more"
    whose = " (a third party's)" * ("third part" in costs["price_source"])
    return f"{line} by prices of {costs['price_date']}{whose}"
