"""When the next request may go out: one pacer shared by all workers of a client.

Three sources decide the pace: what the user set (`rpm`, `tpm`), what the service's rate-limit headers say,
and refusals (429). The first two space requests evenly. A refusal pauses everybody at once; when refusals
are frequent, requests go on at three quarters of the rate that went through, which then grows again.
"""

import asyncio
import math
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping

from fwc_llm.untrusted import header_number

_LONGEST_PAUSE = 60.0  # seconds, where the service does not say how long
_GROWTH = 0.05  # of the rate, per second without a refusal
_NEGLIGIBLE = 1e-4  # seconds between requests below which the learned pace is forgotten
_OFTEN = 0.25  # share of refusals, over about the last 32 requests, from which the pace slows down
_MEMORY = 1.0 / 32.0
_LOW = 0.1  # share of an allowance below which its refill rate becomes the pace
_SLOWEST = 20.0  # seconds between requests, at most, on the word of headers alone
_MOST = 1e12  # of whatever a header counts
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_LONGEST_DURATION = 100  # characters
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Pacer:
    """Hands out turns. `rpm` and `tpm` are per minute; None leaves that side to the service.

    `first_pause` (seconds) is the pause after a refusal that does not say how long; it doubles with every
    further one.
    """

    def __init__(
        self,
        rpm: float | None = None,
        tpm: float | None = None,
        first_pause: float = 1.0,
        rng: random.Random | None = None,
        notice: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._first_pause = first_pause
        self._rng = rng or random.Random(0)
        self._notice, self._clock, self._sleep = notice, clock, sleep
        self._interval = 60.0 / rpm if rpm else 0.0  # seconds a request, as the user set it
        self._per_token = 60.0 / tpm if tpm else 0.0  # seconds a token
        self._learned = 0.0  # seconds a request, from refusals
        self._refill = 0.0  # seconds a request, from headers
        self._next = self._next_own = self._next_tokens = self._paused_until = 0.0
        self._wave_began = clock()
        self._went_through = 0
        self._refused_share = 0.0
        self.waves = 0  # refusals in a row without a success in between, a burst of them counted once

    async def turn(self, tokens: int = 0, patience: float = math.inf) -> None:
        """Wait for this request's turn; `tokens` is what it is expected to use.

        What the user set is always kept. For what the service says it waits `patience` seconds at most.
        """
        latest = self._clock() + patience
        while True:
            now = self._clock()
            own = max(now, self._next_own, self._next_tokens)
            at = max(own, min(max(self._next, self._paused_until), latest))
            self._next_own = at + self._interval
            if learned := max(self._learned, self._refill):
                self._next = at + learned
            if self._per_token:
                self._next_tokens = at + tokens * self._per_token
            if at <= now:
                return
            await self._sleep(at - now)
            if min(self._paused_until, latest) <= self._clock():
                return

    def settle(self, expected: int, used: int) -> None:
        """Correct the token pace once a request's real use is known, by a minute at most."""
        correction = (used - expected) * self._per_token
        self._next_tokens += min(correction, _LONGEST_PAUSE)
        if correction > _LONGEST_PAUSE:
            self._notice(
                "the service says that requests use far more tokens than expected: with --tpm they go out "
                f"one in {_LONGEST_PAUSE:g} s until it says otherwise"
            )

    def refused(self, sent_at: float, retry_after: float | None) -> None:
        """A 429: pause everybody. Requests sent before the pause began belong to the same refusal."""
        now = self._clock()
        self._refused_share += _MEMORY * (1.0 - self._refused_share)
        if self._refused_share > _OFTEN:
            self._slow_down(now)
        if sent_at > self._wave_began or self.waves == 0:
            self.waves += 1
            self._wave_began, self._went_through = now, 0
            if retry_after is None:
                pause = min(self._first_pause * 2.0 ** (self.waves - 1), _LONGEST_PAUSE)
                self._pause(now + pause * (0.5 + 0.5 * self._rng.random()))
        if retry_after is not None:
            self._pause(now + retry_after + min(0.1 * retry_after, 1.0) * self._rng.random())

    @property
    def pause_left(self) -> float:
        """Seconds until the shared pause ends."""
        return max(self._paused_until - self._clock(), 0.0)

    def succeeded(self, sent_at: float) -> None:
        """A request went through."""
        self._went_through += 1
        self._refused_share -= _MEMORY * self._refused_share
        if sent_at > self._wave_began:
            self.waves = 0
            if self._learned:
                self._learned /= 1.0 + _GROWTH * self._learned
                if self._learned < _NEGLIGIBLE:
                    self._learned = 0.0

    def learn(self, headers: Mapping[str, str]) -> None:
        """Take the pace from `x-ratelimit-*` headers once little of an allowance is left.

        `reset` is the time in which the allowance is full again, so it refills at
        (limit − remaining) / reset a second, whatever the period that the limit is stated for.
        """
        if (left := header_number(headers, "x-ratelimit-remaining-requests", _MOST)) is not None:
            limit = header_number(headers, "x-ratelimit-limit-requests", _MOST) or 0.0
            reset = seconds(headers.get("x-ratelimit-reset-requests")) or 0.0
            asked = reset / (limit - left) if left < _LOW * limit else 0.0
            self._refill = min(asked, _SLOWEST)
            if asked > _SLOWEST:
                self._notice(
                    f"the service's headers ask for less than one request in {_SLOWEST:g} s: no row waits "
                    "longer than its deadline for that (--rpm sets a pace, fewer at once with --concurrency)"
                )
        if header_number(headers, "x-ratelimit-remaining-tokens", _MOST) == 0.0:
            reset = seconds(headers.get("x-ratelimit-reset-tokens")) or 0.0
            self._pause(self._clock() + min(reset, _LONGEST_PAUSE))

    def _slow_down(self, now: float) -> None:
        rate = self._went_through / max(now - self._wave_began, 1.0)
        if rate > 0.0:
            self._learned = max(1.0 / (0.75 * rate), self._learned)
        elif self._learned:
            self._learned = min(2.0 * self._learned, _LONGEST_PAUSE)
        self._refused_share = 0.0

    def _pause(self, until: float) -> None:
        self._paused_until = max(self._paused_until, until)


def seconds(duration: str | None) -> float | None:
    """Seconds of a duration as the rate-limit headers write it: "8.64s", "6m0s", "20ms", or a number."""
    if duration is None:
        return None
    if (plain := header_number({"": duration}, "", _MOST)) is not None:
        return plain
    parts = _DURATION.findall(duration[:_LONGEST_DURATION])
    return min(sum(float(value) * _SECONDS[unit] for value, unit in parts), _MOST) if parts else None
