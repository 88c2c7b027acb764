"""The pacer on a clock of its own: nothing here waits."""

import asyncio
import random

import pytest

from fwc_llm.models.openai.pacing import Pacer, seconds


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, duration: float) -> None:
        self.now += duration


def pacer(time: Time, **options: float) -> Pacer:
    return Pacer(**options, rng=random.Random(0), clock=time, sleep=time.sleep)  # type: ignore[arg-type]


async def turns(one: Pacer, time: Time, n: int, tokens: int = 0) -> list[float]:
    began, at = time.now, []
    for _ in range(n):
        await one.turn(tokens)
        at.append(time.now - began)
    return at


def test_without_limits_nobody_waits() -> None:
    time = Time()
    assert asyncio.run(turns(pacer(time), time, 100)) == [0.0] * 100


def test_requests_a_minute() -> None:
    time = Time()
    at = asyncio.run(turns(pacer(time, rpm=60.0), time, 5))
    assert at == pytest.approx([0.0, 1.0, 2.0, 3.0, 4.0])


def test_tokens_a_minute_and_their_correction() -> None:
    time = Time()
    one = pacer(time, tpm=6000.0)
    assert asyncio.run(turns(one, time, 3, tokens=100)) == pytest.approx([0.0, 1.0, 2.0])
    one.settle(expected=100, used=400)
    assert asyncio.run(turns(one, time, 1, tokens=100)) == pytest.approx([4.0])


def test_a_refusal_pauses_everybody_once() -> None:
    time = Time()
    one, sent_at = pacer(time, first_pause=1.0), time.now
    for _ in range(20):  # twenty requests sent together are refused together
        time.now += 0.001
        one.refused(sent_at, retry_after=None)
    assert one.waves == 1
    assert 0.4 < one.pause_left <= 1.0


def test_pauses_double_while_nothing_goes_through() -> None:
    time = Time()
    one, pauses = pacer(time, first_pause=1.0), []
    for _ in range(9):
        time.now += 0.1
        one.refused(sent_at=time.now, retry_after=None)
        pauses.append(one.pause_left)
        time.now += one.pause_left
    for wave, pause in enumerate(pauses):
        assert 0.5 * min(2.0**wave, 60.0) <= pause <= min(2.0**wave, 60.0)
    assert one.waves == 9
    one.succeeded(sent_at=time.now + 1.0)
    assert one.waves == 0


def test_retry_after_is_obeyed() -> None:
    time = Time()
    one = pacer(time)
    one.refused(sent_at=time.now, retry_after=20.0)
    assert 20.0 <= one.pause_left <= 21.0


@pytest.mark.parametrize("limit", [5.0, 50.0])
def test_a_service_that_only_refuses_is_found_out(limit: float) -> None:
    """A token bucket of `limit` a second that sends 429 and nothing else; each request takes 20 ms."""
    time = Time()
    one, rng = pacer(time, first_pause=1.0), random.Random(1)
    allowance, filled, refused, done = limit, time.now, 0, 0

    async def go() -> None:
        nonlocal allowance, filled, refused, done
        while done < 1500:
            await one.turn()
            sent = time.now
            allowance = min(limit, allowance + (time.now - filled) * limit)
            filled = time.now
            if allowance >= 1.0:
                allowance -= 1.0
                done += 1
                one.succeeded(sent)
            else:
                refused += 1
                one.refused(sent, None)
            time.now += 0.002 * rng.random()

    began = time.now
    asyncio.run(go())
    rate = done / (time.now - began)
    assert rate > 0.6 * limit, "most of what is allowed is used"
    assert refused < 0.35 * done, "few requests are sent only to be refused"


def test_headers_pace_once_little_is_left() -> None:
    time = Time()
    one = pacer(time)
    head = {"x-ratelimit-limit-requests": "10000", "x-ratelimit-reset-requests": "8.64s"}
    one.learn(head | {"x-ratelimit-remaining-requests": "9999"})
    assert asyncio.run(turns(one, time, 3)) == [0.0, 0.0, 0.0]
    low = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "24h0m0s"}
    one.learn(head | low)  # a day for 10,000: one every 8.64 s
    assert asyncio.run(turns(one, time, 3)) == pytest.approx([0.0, 8.64, 17.28])
    one.learn({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6s"})
    assert one.pause_left == pytest.approx(6.0)
    one.learn({"x-ratelimit-limit-requests": "many"})  # nonsense is no reason to fail


def test_a_waiting_request_sits_out_a_pause_that_begins_meanwhile() -> None:
    time = Time()

    async def sleep(duration: float) -> None:
        if time.now == 1000.0:
            one.refused(sent_at=time.now, retry_after=30.0)
        time.now += duration

    one = Pacer(rpm=60.0, rng=random.Random(0), clock=time, sleep=sleep)
    assert asyncio.run(turns(one, time, 2))[1] >= 30.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8.64s", 8.64),
        ("6m0s", 360.0),
        ("20ms", 0.02),
        ("1h2m3s", 3723.0),
        ("7", 7.0),
        ("soon", None),
        (None, None),
    ],
)
def test_durations_of_rate_limit_headers(text: str | None, value: float | None) -> None:
    assert seconds(text) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize("reset", ["1763750000", "9" * 30 + "s", "1e300", "200h"])
def test_headers_ask_for_no_more_patience_than_a_deadline(reset: str) -> None:
    time, said = Time(), list[str]()
    one = Pacer(clock=time, sleep=time.sleep, notice=said.append)
    one.learn(
        {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0",
         "x-ratelimit-reset-requests": reset}
    )  # fmt: skip
    began = time.now
    for count in range(1, 20):
        asyncio.run(one.turn(patience=30.0))
        assert time.now - began <= 20.0 * count, "never slower than three a minute"
    assert len(said) == 1
    assert "one request in 20 s" in said[0]


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "1e400", "9" * 400, "many", ""])
@pytest.mark.parametrize("name", ["limit", "remaining", "reset"])
def test_nonsense_in_headers_changes_nothing(name: str, value: str) -> None:
    time = Time()
    one = pacer(time)
    head = {"limit": "60", "remaining": "50", "reset": "1s"} | {name: value}
    one.learn({f"x-ratelimit-{part}-requests": text for part, text in head.items()})
    assert asyncio.run(turns(one, time, 3))[-1] <= 40.0


def test_a_pause_that_the_service_asks_for_ends_with_the_patience_but_a_pace_of_ones_own_holds() -> None:
    time = Time()
    one = pacer(time, rpm=60.0)
    one.refused(time.now, 100.0)
    began = time.now
    asyncio.run(one.turn(patience=5.0))
    assert time.now - began == pytest.approx(5.0)
    asyncio.run(one.turn(patience=0.0))
    assert time.now - began == pytest.approx(6.0)


def test_a_count_without_end_holds_nobody_up_for_long_and_is_said() -> None:
    time, said = Time(), list[str]()
    one = Pacer(tpm=1000.0, clock=time, sleep=time.sleep, notice=said.append)
    one.settle(100, 1000)
    assert said == []
    one.settle(0, 10**15)
    asyncio.run(one.turn(1))
    assert time.now <= 1000.0 + 121.0
    assert len(said) == 1
    assert "far more tokens" in said[0]
