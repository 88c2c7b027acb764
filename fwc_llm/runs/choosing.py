"""How far the choice of examples has come, in words."""

import time
from collections.abc import Callable

from fwc_llm.progress import in_words


class Choosing:
    """Says which examples are chosen now, how many choices are made, and how long the rest may take.

    Every one of `arms` arms chooses once a repeat. An arm's later choices are taken to last as long as its
    earlier ones; nothing is said of the time while an arm has not chosen yet.
    """

    def __init__(
        self,
        arms: int,
        repeats: int,
        say: Callable[[str], None] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._arms, self._repeats, self._say, self._clock = arms, repeats, say, clock
        self._done, self._began = 0, 0.0
        self._seconds: dict[str, list[float]] = {}

    def begin(self, arm: str, repeat: int) -> None:
        """Say that this arm chooses its examples for a repeat, counted from 0."""
        self._began = self._clock()
        if self._say is None:
            return
        total = self._arms * self._repeats
        where = f"{self._done + 1} of {total}" if total > 1 else ""
        left = self._left()
        parts = [part for part in (where, f"about {in_words(left)} left" if left >= 1.0 else "") if part]
        more = f" ({', '.join(parts)})" if parts else ""
        self._say(f"choosing examples: {arm}, repeat {repeat + 1} of {self._repeats}{more}")

    def end(self, arm: str) -> None:
        """Note how long it took."""
        self._done += 1
        self._seconds.setdefault(arm, []).append(self._clock() - self._began)

    def _left(self) -> float:
        """Seconds until the last choice is made; 0 while that is not known."""
        if len(self._seconds) < self._arms:
            return 0.0
        means = {arm: sum(seconds) / len(seconds) for arm, seconds in self._seconds.items()}
        return sum(mean * (self._repeats - len(self._seconds[arm])) for arm, mean in means.items())
