"""What a gate asks: `accuracy < 0.8`, `dp[fwc] > 0.1`, `dp[fwc] - dp[zero] > 0`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fwc_llm.errors import FwcError
from fwc_llm.untrusted import shortened

METRICS = {
    "accuracy": "accuracy",
    "dp": "demographic_parity_difference",
    "dp_ratio": "demographic_parity_ratio",
    "eo": "equalized_odds_difference",
    "coverage": "coverage",
}
COMPARED = ("accuracy", "dp")  # differences between arms that have an interval
OPERATORS = (">=", "<=", ">", "<")
_NAME = re.compile(r"\w+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_SPACE = re.compile(r"\s*")
_LONGEST = 200  # characters of a condition that an error repeats


@dataclass(frozen=True)
class Condition:
    """A metric of one arm, or of one arm less that of another (`minus`), set against a number.

    Without `arm` every arm is meant. `text` is what was written.
    """

    text: str
    metric: str
    operator: str
    bound: float
    arm: str | None = None
    minus: str | None = None

    def check_arms(self, arms: Sequence[str]) -> None:
        """Refuse a condition about an arm that is not there: `FwcError`."""
        for name in (self.arm, self.minus):
            if name is not None and name not in arms:
                there = ", ".join(arms) if arms else "none"
                raise FwcError(f"{_quoted(self.text)} names the arm {name!r:.80}; the arms are {there}")

    def about(self, arm: str) -> str:
        """The condition with an arm's name in its place."""
        less = f" - {self.metric}[{self.minus}]" if self.minus is not None else ""
        return f"{self.metric}[{arm}]{less} {self.operator} {self.bound:g}"


def parse_condition(text: str) -> Condition:
    """Read a condition; `FwcError` says at which character it cannot be read, and what may stand there."""
    return _Reader(text).condition()


class _Reader:
    """Reads from left to right; `at` is the place of the next character."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def condition(self) -> Condition:
        metric = self.metric()
        arm, minus = self.arm(), None
        if self.take(("-", "−")):
            minus = self.second(metric, arm)
        operator = self.take(OPERATORS)
        if operator is None:
            raise self.wrong(f"one of {', '.join(sorted(OPERATORS))} must stand here")
        self.skip()
        place, bound = self.at, self.number()
        if self.at < len(self.text):
            percent = ": write a share, 0.1 for 10 %" if self.text[self.at] == "%" else ""
            raise self.wrong(f"nothing may follow the number{percent}")
        least = -1.0 if minus is not None else 0.0
        if not least <= bound <= 1.0:
            self.at = place
            what = f"a difference of {metric} lies" if minus is not None else f"{metric} lies"
            raise self.wrong(f"{what} from {least:g} to 1 (0.8 is 80 %), {bound:g} does not")
        return Condition(self.text.strip(), metric, operator, bound, arm, minus)

    def second(self, metric: str, arm: str | None) -> str:
        """The arm that is taken off."""
        place = self.at
        other, minus = self.metric(), self.arm()
        if other != metric or metric not in COMPARED:
            self.at = place
            raise self.wrong(f"differences are of one metric, {' or '.join(COMPARED)}, between two arms")
        if arm is None or minus is None or arm == minus:
            self.at = place
            raise self.wrong(f"a difference names two arms: {metric}[fwc] - {metric}[zero]")
        return minus

    def metric(self) -> str:
        self.skip()
        found = _NAME.match(self.text, self.at)
        name = found.group() if found else ""
        if name not in METRICS:
            raise self.wrong(f"a metric must stand here: {', '.join(METRICS)}")
        self.at += len(name)
        self.skip()
        return name

    def arm(self) -> str | None:
        """The arm in brackets; in quotes where its name holds a bracket."""
        place = self.at
        if not self.take(("[",)):
            return None
        quote = self.take(('"', "'"), False)
        end = self.text.find(quote or "]", self.at)
        if end < 0:
            self.at = place
            raise self.wrong(f"this bracket is not closed by {(quote or '') + ']'}")
        name = self.text[self.at : end]
        self.at = end + len(quote or "")
        if not self.take(("]",)):
            raise self.wrong("] must stand here")
        name = name if quote else name.strip()
        if not name:
            self.at = place
            raise self.wrong("the brackets must hold an arm's name")
        return name

    def number(self) -> float:
        self.skip()
        found = _NUMBER.match(self.text, self.at)
        if found is None:
            raise self.wrong("a number must stand here")
        bound = float(found.group())
        self.at = found.end()
        self.skip()
        return bound

    def take(self, words: Sequence[str], skip: bool = True) -> str | None:
        """The first of the words that stands here, and go past it."""
        self.skip()
        word = next((word for word in words if self.text.startswith(word, self.at)), None)
        if word is not None:
            self.at += len(word)
            if skip:
                self.skip()
        return word

    def skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def wrong(self, why: str) -> FwcError:
        rest = shortened(self.text[self.at :], 30)
        where = f"at {rest!r} (character {self.at + 1})" if rest else "at its end"
        return FwcError(f"cannot read the condition {_quoted(self.text)}: {where} {why}")


def _quoted(text: str) -> str:
    return f'"{shortened(text, _LONGEST)}"'
