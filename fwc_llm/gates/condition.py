"""Conditions of gates, such as `accuracy < 0.8` or `dp_gap[fwc] - dp_gap[zero] > 0`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fwc_llm.errors import FwcError, did_you_mean, require
from fwc_llm.metrics.counts import BY_KEY
from fwc_llm.sanitize import truncate

_ARM = (
    r"""(?:"(?P<double{0}>[^"]+)"|'(?P<single{0}>[^']+)'|(?P<arm{0}>[^]"']*[^]"'\s]))"""
)
_SIDE = r"(?P<metric{0}>\w+)\s*(?:\[\s*" + _ARM + r"\s*\])?"
_CONDITION = re.compile(
    rf"\s*(?P<abs>abs\s*\(\s*)?{_SIDE.format('')}\s*(?:[-−]\s*{_SIDE.format(2)}\s*)?(?(abs)\))\s*"
    r"(?P<operator>>=|<=|>|<)\s*(?P<bound>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*"
)


@dataclass(frozen=True)
class GateCondition:
    """A metric of `arm` (None: of every arm), or its difference to `minus`, against `bound`."""

    text: str
    metric: str
    operator: str
    bound: float
    arm: str | None
    minus: str | None
    size: bool

    def check_arms(self, arms: Sequence[str]) -> None:
        """Raise `FwcError` for an unknown arm."""
        for name in (self.arm, self.minus):
            if name is not None and name not in arms:
                there = ", ".join(arms) or "none"
                raise FwcError(
                    f"{_quoted(self.text)} names the arm {name!r:.80}; the arms are {there}"
                )

    def about(self, arm: str) -> str:
        """Return the condition for one arm, as text."""
        less = f" - {self.metric}[{self.minus}]" if self.minus is not None else ""
        value = f"{self.metric}[{arm}]{less}"
        value = f"abs({value})" if self.size else value
        return f"{value} {self.operator} {self.bound:g}"


def parse_condition(text: str) -> GateCondition:
    """Parse a condition; raise `FwcError` with the reason if it is invalid."""
    require(text, str, "the condition", 'give a text such as "dp_gap > 0.1"')
    parts = _CONDITION.fullmatch(text)
    if parts is None:
        remedy = ""
        if text.rstrip().endswith("%"):
            remedy = ": write a share, 0.1 for 10 %"
        comma = re.search(r"(\d+),(\d+)\s*$", text)
        if comma is not None:
            remedy = f": write {comma[1]}.{comma[2]}"
        raise _refusal(
            text,
            f"write METRIC[ARM] OPERATOR NUMBER, such as dp_gap[fwc] > 0.1{remedy}",
        )
    metric = parts["metric"]
    bound = float(parts["bound"])
    size = parts["abs"] is not None
    arm, minus = (
        parts[f"double{n}"] or parts[f"single{n}"] or parts[f"arm{n}"]
        for n in ("", "2")
    )
    if metric not in BY_KEY:
        raise _refusal(
            text, f"{metric!r:.40} is not a metric{did_you_mean(metric, BY_KEY)}"
        )
    if parts["metric2"] is not None or size:
        if parts["metric2"] != metric:
            raise _refusal(text, "a difference is that of one metric between two arms")
        if arm is None or minus is None or arm == minus:
            raise _refusal(
                text, f"a difference names two arms: {metric}[fwc] - {metric}[zero]"
            )
    least = 0.0 if minus is None or size else -1.0
    if not least <= bound <= 1.0:
        of = metric if minus is None else f"a difference of {metric}"
        raise _refusal(
            text, f"{of} lies from {least:g} to 1 (0.8 is 80 %), {bound:g} does not"
        )
    return GateCondition(
        text.strip(), metric, parts["operator"], bound, arm, minus, size
    )


def _refusal(text: str, why: str) -> FwcError:
    return FwcError(f"cannot read the condition {_quoted(text)}: {why}")


def _quoted(text: str) -> str:
    return f'"{truncate(text, 200)}"'
