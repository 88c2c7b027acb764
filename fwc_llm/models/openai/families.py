"""What OpenAI's models accept, and when they end: what families.toml says."""

import re
import tomllib
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from fwc_llm.models.openai.prices import covering

_FILE = Path(__file__).with_name("families.toml")
_BEFORE = re.compile(r"(?:ft:)?(?:[\w.-]+/)*")
_SOON_DAYS = 60


@dataclass(frozen=True)
class Family:
    """What models of a family accept; see families.toml."""

    reasons: bool = False
    known: bool = False
    effort_none: bool = False


@dataclass(frozen=True)
class Ending:
    """The day on which a model is announced to be switched off, and the successor that was named, if any."""

    model: str
    day: date
    successor: str | None

    def words(self, today: date) -> str:
        """When it ends or ended, in words."""
        days = (self.day - today).days
        when = f"ended on {self.day}" if days <= 0 else f"ends on {self.day} (in {days} days)"
        return f"{self.model} {when}" + (f"; named successor {self.successor}" if self.successor else "")

    def soon(self, today: date) -> bool:
        """Whether it has ended, or ends within 60 days."""
        return (self.day - today).days <= _SOON_DAYS


def family_of(model: str) -> Family:
    """The family that a model's name begins like; one that accepts everything where no pattern fits."""
    before = _BEFORE.match(model)
    name = model[before.end() :].lower() if before else model.lower()
    if "-chat" in name:
        return Family()
    for pattern, family in _families():
        if pattern.match(name):
            return family
    return Family()


def ending_of(model: str) -> Ending | None:
    """When a model of OpenAI's ends, dated versions included; None where no end is announced."""
    ends = _content()["ends"]
    known = covering(model, ends)
    if known is None:
        return None
    return Ending(model, ends[known]["date"], ends[known].get("successor"))


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


@cache
def _families() -> tuple[tuple[re.Pattern[str], Family], ...]:
    return tuple(
        (re.compile(one["pattern"]), Family(one["reasons"], one["known"], one["effort_none"]))
        for one in _content()["family"]
    )
