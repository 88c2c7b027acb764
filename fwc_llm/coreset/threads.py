"""Threads for compiled kernels, which run without the interpreter's lock."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

CHUNK = 16_384  # rows at once: enough to amortise a call, few enough to balance the threads
_LEAST = 2048  # rows that are worth another thread's call


def count_threads() -> int:
    """Number of processors that this process may use, by its affinity and its container's quota."""
    from joblib import cpu_count  # it imports multiprocessing

    return int(cpu_count())


_lock = Lock()
_limits: list[Any] = []  # of those who compute now; the first one's restores the library's own number
_libraries = cache(ThreadpoolController)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread: those that wait for work spin, and its matrices here are small."""
    with _lock:
        _limits.append(None if _limits else _libraries().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            if len(_limits) > 1:
                _limits.pop()
            else:
                _limits.pop().restore_original_limits()


class Threads:
    """A pool of threads that divide rows into ranges."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count or count_threads()
        self._pool = ThreadPoolExecutor(self.count - 1) if self.count > 1 else None

    def over_rows(self, kernel: Callable[..., Any], *arguments: Any, n: int, chunk: int = CHUNK) -> list[Any]:
        """`kernel(*arguments, low, high)` on consecutive ranges of n rows, whatever the number of threads."""
        return self.over(lambda low: kernel(*arguments, low, min(low + chunk, n)), range(0, n, chunk))

    def over(self, task: Callable[[Any], Any], items: Any) -> list[Any]:
        """`task(item)` for every item, in order."""
        items = list(items)
        if self._pool is None or len(items) < 2:  # a thread of its own would only cost time
            return [task(item) for item in items]
        results: list[Any] = [None] * len(items)
        places = iter(range(len(items)))  # whoever is free takes the next one

        def work() -> None:
            try:
                for place in places:
                    results[place] = task(items[place])
            except BaseException:
                for _ in places:  # the rest is left
                    pass
                raise

        # This thread works, too: a short task is done before another thread has woken up.
        helpers = [self._pool.submit(work) for _ in range(min(self.count, len(items)) - 1)]
        try:
            work()
        finally:
            begun = [helper for helper in helpers if not helper.cancel()]
            wait(begun)
        for helper in begun:
            helper.result()
        return results

    def share(self, n: int) -> int:
        """Rows at once, at most CHUNK, so that every thread has about as many of n rows as another."""
        pieces = -(-n // CHUNK)
        pieces = -(-pieces // self.count) * self.count
        return max(_LEAST, -(-n // pieces))
