"""Token prices and parameters of model families."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path

from pydantic import BaseModel, Field, NonNegativeFloat, ValidationError

from fwc_llm.errors import FwcError
from fwc_llm.files import read_text
from fwc_llm.models.base import Usage
from fwc_llm.sanitize import Fields, Json, parse_toml
from fwc_llm.validation import first_error

_PRICES = Path(__file__).with_name("prices.toml")
_FAMILIES = Path(__file__).with_name("families.toml")
_VERSION = re.compile(r"-(\d{4}(-\d{2}-\d{2})?|preview|latest)")
_BEFORE = re.compile(r"(?:ft:)?(?:[\w.-]+/)*")
LONG = (
    2.0,
    1.5,
)  # price factors of input and output in a long request (prices.toml: `long`)


# Request parameters that leave the price of a token as it is, whatever their value. Others change
# it (service_tier, tools with a fee, routes to other models), or nobody knows: the price file says
# by how much.
_FREE = {
    "api",
    "chat_template_kwargs",
    "frequency_penalty",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "metadata",
    "min_p",
    "presence_penalty",
    "reasoning",
    "reasoning_effort",
    "repetition_penalty",
    "response_format",
    "response_schema",
    "safety_identifier",
    "seed",
    "stop",
    "stop_seqs",
    "store",
    "temperature",
    "thinking",
    "tool_choice",
    "top_k",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
}


class Price(BaseModel, frozen=True):
    """One model's prices in US dollars per million tokens, with their date and source."""

    model: str
    input: NonNegativeFloat
    cached: NonNegativeFloat = Field(default_factory=lambda entry: entry["input"])
    write: NonNegativeFloat = Field(default_factory=lambda entry: entry["input"])
    output: NonNegativeFloat
    long: int | None = (
        None  # in a request with more prompt tokens, prices are multiplied by `LONG`
    )
    batch: float = 1.0  # the Batch API's share of these prices
    context: int | None = None  # the context window in tokens
    parameters: dict[
        str, dict[str, float]
    ] = {}  # factors of all prices by a parameter's value
    date: str
    source: str = "a file of your own"

    def dollars(self, usage: Usage, batch: bool = False, longest: int = 0) -> float:
        """The cost of `usage` in dollars; `longest`: prompt tokens of the longest request."""
        cached = usage.cached_tokens
        written = usage.cache_write_tokens
        fresh = max(usage.prompt_tokens - cached - written, 0)
        prompts = fresh * self.input + cached * self.cached + written * self.write
        if self.long is not None and longest > self.long:
            times = LONG
        else:
            times = (1.0, 1.0)
        cost = prompts * times[0] + usage.completion_tokens * self.output * times[1]
        return cost * (self.batch if batch else 1.0) / 1e6

    def unknown_parameter(self, sent: Fields) -> str | None:
        """The first parameter that may change the price, and nobody knows how."""
        for name, value in sent.items():
            if name not in _FREE and str(value) not in self.parameters.get(name, {}):
                return name
        return None

    def of(self, sent: Fields) -> "Price | None":
        """The price of requests with these parameters; None if it is not known."""
        if self.unknown_parameter(sent) is not None:
            return None
        factors = [
            self.parameters[name][str(value)]
            for name, value in sent.items()
            if name in self.parameters
        ]
        factor = prod(factors)
        changed = {
            name: factor * getattr(self, name)
            for name in ("input", "cached", "write", "output")
        }
        return self.model_copy(update=changed)


def no_price(model: str) -> Price:
    """The price of a model that runs in this process: 0."""
    return Price(
        model=model,
        input=0.0,
        output=0.0,
        date="any day",
        source="no service was asked",
    )


def price_of(
    model: str,
    path: str | Path | None = None,
    api: str = "chat",
    sent: Fields | None = None,
) -> Price | None:
    """The price of `model` in the file `path` or the built-in file, or None.

    `sent` are the parameters of the requests: None also if one of them changes the price in an
    unknown way. A listed name covers its dated versions. A file with one list has it for every
    `api`; in a file of the user, the list for "decisions" holds for "systemone", too.
    """
    lists = _read(_PRICES if path is None else Path(path))
    if api == "systemone" and path is not None and api not in lists:
        api = "decisions"
    prices = lists.get(api, lists["chat"] if len(lists) == 1 else {})
    name = covering(model.removeprefix("azure:").rpartition("/")[2], prices)
    if name is None:
        return None
    return prices[name].of(sent or {})


def why_unpriced(model: str, path: str | Path | None, api: str, sent: Fields) -> str:
    """Why `price_of` gives None, and what to do."""
    price = price_of(model, path, api)
    if price is None:
        parameter = None
    else:
        parameter = price.unknown_parameter(sent)
    if parameter is None:
        return f"no price of {model} is known; give a price file with --prices"
    return (
        f"the price of {model} with the parameter {parameter} is not known; give a price file "
        f"(--prices) "
        f"that says under [parameters.{parameter}] by which factor each value changes the prices"
    )


def priced() -> tuple[str, ...]:
    """The chat models with a built-in price."""
    return tuple(_read(_PRICES)["chat"])


def covering(name: str, listed: Iterable[str]) -> str | None:
    """The listed name that equals `name` or its undated name, or None."""
    versions = [
        prefix
        for prefix in listed
        if name.startswith(prefix) and _VERSION.fullmatch(name[len(prefix) :])
    ]
    if name in set(listed):
        return name
    return max(versions, key=len, default=None)


@cache
def _read(path: Path) -> dict[str, dict[str, Price]]:
    """The lists of prices by `api`, with date and source of list or file."""
    try:
        file = parse_toml(read_text(path))
        lists = {
            name: part
            for name, part in file.items()
            if isinstance(part, dict) and "models" in part
        }
        prices: dict[str, dict[str, Price]] = {}
        for api, part in {"chat": file, **lists}.items():
            usual = {**file, **part, "date": str({**file, **part}["date"])}
            models = part["models"].items()
            prices[api] = {
                name: Price(**{**usual, "model": name, **entry})
                for name, entry in models
            }
        return prices
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        why = first_error(error, {}) if isinstance(error, ValidationError) else error
        raise FwcError(
            f"{path} is not a price file ({why}): it needs `date` and, under [models], "
            'lines like "gpt-4o" = { input = 2.5, cached = 1.25, output = 10 }, in dollars per '
            "million tokens"
        ) from None


@dataclass(frozen=True)
class Family:
    """The parameters that a family of models accepts; see families.toml."""

    pattern: str = ""
    reasons: bool = False
    effort_none: bool = False
    openai: bool = True


@cache
def _families() -> Json:
    return parse_toml(_FAMILIES.read_text(encoding="utf-8"))


def family_of(model: str) -> Family:
    """The first family that matches a model's name; else one that accepts everything."""
    name = _BEFORE.sub("", model, count=1).lower()
    families = [
        Family(**family)
        for family in _families()["family"]
        if re.match(family["pattern"], name)
    ]
    if families and "-chat" not in name:
        return families[0]
    return Family()
