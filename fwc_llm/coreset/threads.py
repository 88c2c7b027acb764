"""Threads for compiled kernels, which run without the GIL."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


def count_threads() -> int:
    """Number of processors that this process may use, limited by its affinity and its
    container's quota.
    """
    from joblib import cpu_count  # imports multiprocessing

    return int(cpu_count())


_lock = Lock()
_limits: list[
    Any
] = []  # one per active caller; the first restores BLAS's own number of threads
_libraries = cache(ThreadpoolController)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread: the matrices are small, and idle BLAS threads would spin."""
    with _lock:
        _limits.append(
            None if _limits else _libraries().limit(limits=1, user_api="blas")
        )
    try:
        yield
    finally:
        with _lock:
            if len(_limits) > 1:
                _limits.pop()
            else:
                _limits.pop().restore_original_limits()


class Threads:
    """A pool of `count` threads; None: one per processor."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count or count_threads()
        self._pool = ThreadPoolExecutor(self.count)

    def over(self, task: Callable[[Any], Any], items: Any) -> list[Any]:
        """Return `task(item)` for every item, in the order of the items."""
        items = list(items)
        if self.count == 1 or len(items) < 2:  # another thread would only cost time
            return [task(item) for item in items]
        return list(self._pool.map(task, items))
