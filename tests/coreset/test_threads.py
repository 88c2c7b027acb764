"""Threads: every item once, in order, by whichever thread is free."""

import threading

import pytest

from fwc_llm.coreset.threads import Threads


@pytest.mark.parametrize("count", [1, 2, 5])
def test_results_are_in_order_and_every_thread_may_divide_its_own_task(count: int) -> None:
    threads, seen = Threads(count), set()

    def inner(item: int) -> int:
        seen.add(threading.get_ident())
        return item * item

    def outer(item: int) -> list[int]:  # all threads wait for each other's parts, were they not to work, too
        return threads.over(inner, range(item))

    assert threads.over(outer, range(20)) == [[i * i for i in range(item)] for item in range(20)]
    assert len(seen) <= count
    assert threads.over_rows(lambda low, high: (low, high), n=7, chunk=3) == [(0, 3), (3, 6), (6, 7)]
    assert threads.over(inner, []) == []


@pytest.mark.parametrize("bad", [0, 3, 9])
def test_an_error_in_any_thread_is_raised_and_the_rest_left(bad: int) -> None:
    threads, done = Threads(2), []

    def task(item: int) -> None:
        if item == bad:
            raise KeyError(item)
        done.append(item)

    with pytest.raises(KeyError, match=str(bad)):
        threads.over(task, range(10_000))
    assert len(done) < 9_999
    assert threads.over(lambda item: item, [1, 2]) == [1, 2]
