"""The pace on a clock of its own: nothing here waits."""

import asyncio

import pytest

from fwc_llm.models.openai.retry import Pace


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, duration: float) -> None:
        self.now += duration


def turns(pace: Pace, time: Time, n: int, patience: float = 1e9) -> list[float]:
    async def go() -> list[float]:
        began = time.now
        at = []
        for _ in range(n):
            await pace.turn(patience)
            at.append(time.now - began)
        return at

    return asyncio.run(go())


def pace_of(time: Time, rpm: float | None = None) -> Pace:
    return Pace(rpm, 1.0, clock=time, sleep=time.sleep)


def test_requests_a_minute() -> None:
    time = Time()
    assert turns(pace_of(time), time, 100) == [0.0] * 100
    assert turns(pace_of(time, rpm=60.0), time, 4) == pytest.approx(
        [0.0, 1.0, 2.0, 3.0]
    )


def test_a_burst_of_refusals_pauses_everybody_once() -> None:
    time = Time()
    pace = pace_of(time)
    sent_at = time.now
    for _ in range(20):  # sent together, refused together
        time.now += 0.001
        pace.refused(sent_at, retry_after=None)
    assert pace.refusals == 1
    assert 0.4 < pace.pause_left <= 1.0


def test_pauses_double_until_something_goes_through() -> None:
    time = Time()
    pace = pace_of(time)
    for count in range(9):
        time.now += 0.1
        pace.refused(time.now, None)
        assert 0.5 <= pace.pause_left / min(2.0**count, 60.0) <= 1.0
        time.now += pace.pause_left
    assert pace.refusals == 9
    pace.succeeded(time.now + 1.0)
    assert pace.refusals == 0


def test_retry_after_holds_everybody_but_nobody_beyond_their_patience() -> None:
    time = Time()
    pace = pace_of(time, rpm=60.0)
    pace.refused(time.now, retry_after=20.0)
    assert pace.pause_left == pytest.approx(20.0)
    assert turns(pace, time, 2) == pytest.approx([20.0, 21.0])
    pace.refused(time.now, retry_after=100.0)
    assert turns(pace, time, 1, patience=30.0) == pytest.approx([30.0])
    assert turns(pace, time, 2, patience=0.0) == pytest.approx(
        [1.0, 2.0]
    )  # a pace of one's own holds


def test_a_waiting_request_sits_out_a_pause_that_begins_meanwhile() -> None:
    time = Time()

    async def sleep(duration: float) -> None:
        if time.now == 1000.0:
            pace.refused(time.now, 30.0)
        time.now += duration

    pace = Pace(60.0, clock=time, sleep=sleep)
    assert turns(pace, time, 2)[1] >= 30.0
