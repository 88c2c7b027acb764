"""What tokens cost: a dated file, which the user can replace."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.models.base import Usage

_BUILT_IN = Path(__file__).with_name("prices.toml")
_VERSION = re.compile(r"-(\d{4}(-\d{2}-\d{2})?|preview|latest)")


@dataclass(frozen=True)
class Price:
    """One model's prices in dollars per million tokens. `date` and `source` say how far to trust them.

    `batch` is the share of the price that the Batch API charges; `context` the model's window in tokens.
    """

    model: str
    input: float
    cached: float
    output: float
    batch: float
    context: int | None
    date: str
    source: str

    def dollars(self, usage: Usage, batch: bool = False) -> float:
        """What `usage` costs."""
        fresh = max(usage.prompt_tokens - usage.cached_tokens, 0)
        cost = fresh * self.input + usage.cached_tokens * self.cached + usage.completion_tokens * self.output
        return cost * (self.batch if batch else 1.0) / 1e6


def no_price(model: str) -> Price:
    """The price of a model that this process runs itself: nothing."""
    return Price(model, 0.0, 0.0, 0.0, 1.0, None, "any day", "asked on this machine")


def price_of(model: str, path: str | Path | None = None, api: str = "chat") -> Price | None:
    """The price of `model` (dated versions included) in the built-in file or in `path`; None if not listed.

    An `api` other than "chat" has a list of its own; a file with one list is taken to mean it for all, and
    its list of decisions for System One too. The built-in prices of decisions are OpenAI's alone.

    Errors: `FwcError` when the file cannot be read or is not a price file.
    """
    lists = _read(Path(path) if path is not None else _BUILT_IN)
    if api == "systemone" and path is not None and api not in lists and "decisions" in lists:
        api = "decisions"
    prices = lists.get(api, lists["chat"] if len(lists) == 1 else {})
    name = model.rpartition(":")[2] if model.startswith("azure:") else model
    name = name.rpartition("/")[2]
    known = covering(name, prices)
    return prices[known] if known is not None else None


def priced() -> tuple[str, ...]:
    """The chat models whose price is built in."""
    return tuple(_read(_BUILT_IN)["chat"])


def covering(name: str, known: Iterable[str]) -> str | None:
    """The one of the names `known` that is this model's, or whose dated version it is; None without one."""
    names = set(known)
    if name in names:
        return name
    candidates = [one for one in names if name.startswith(one) and _VERSION.fullmatch(name[len(one) :])]
    return max(candidates, key=len) if candidates else None


@cache
def _read(path: Path) -> dict[str, dict[str, Price]]:
    """The lists of prices by interface."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FwcError(f"cannot read the price file {path}: {error}") from None
    try:
        common = {name: value for name, value in content.items() if not isinstance(value, dict)}
        others = {
            name: {**common, **one}
            for name, one in content.items()
            if isinstance(one, dict) and "models" in one
        }
        return {name: _prices(one, path) for name, one in {"chat": content, **others}.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FwcError(
            f"{path} is not a price file ({error!r}): it needs `date` and, under [models], "
            'lines like "gpt-4o" = { input = 2.5, cached = 1.25, output = 10 }, in dollars per million tokens'
        ) from None


def _prices(content: dict[str, Any], path: Path) -> dict[str, Price]:
    """One list: all of it has the same date and source."""
    date, source, batch = (
        str(content["date"]),
        str(content.get("source", path)),
        float(content.get("batch", 1.0)),
    )
    return {name: _price(name, entry, batch, date, source) for name, entry in content["models"].items()}


def _price(name: str, entry: dict[str, float], batch: float, date: str, source: str) -> Price:
    input_price, output = float(entry["input"]), float(entry["output"])
    cached = float(entry.get("cached", input_price))
    if not min(input_price, cached, output) >= 0.0:
        raise ValueError(f"a price of {name} is negative")
    context = int(entry["context"]) if "context" in entry else None
    return Price(name, input_price, cached, output, batch, context, date, source)
