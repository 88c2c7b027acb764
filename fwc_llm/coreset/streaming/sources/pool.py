"""Threads that read blocks and work on them."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Condition
from typing import TypeVar

from fwc_llm.coreset.streaming.blocks import Block
from fwc_llm.coreset.threads import count_threads
from fwc_llm.errors import InputError

Part = TypeVar("Part")
Stream = Callable[[], Iterator[Block]]  # opens a file, or a part of it, and reads its blocks in order

_VALUES = 2**22  # of a block: 32 MiB as float64
_FEWEST, _MOST = 2**10, 2**17  # rows of a block


def block_rows(columns: int) -> int:
    """How many rows of so many columns make a block."""
    return min(max(_VALUES // max(columns, 1), _FEWEST), _MOST)


def reduce_streams(
    streams: Sequence[Stream],
    name: str,
    task: Callable[[Block], Part],
    merge: Callable[[Part, Part], Part],
    tick: Callable[[int, int], None] | None,
    blocks: int,
    threads: int | None = None,
) -> Part:
    """The merged `task` of every block; `blocks` is how many there are, 0 if nobody knows.

    While one thread works on a block, another reads the next one: at most one block a thread is in memory.
    `tick` is called by the caller's thread.
    """
    count = threads or count_threads()
    hall = _Hall(streams)
    said: SimpleQueue[bool] = SimpleQueue()

    def work() -> list[Part]:
        parts: list[Part] = []
        try:
            while (block := hall.take()) is not None:
                found = task(block)
                del block
                parts = [merge(parts[0], found)] if parts else [found]
                said.put(True)
        except BaseException:
            hall.close()
            raise
        finally:
            said.put(False)
        return parts

    done, working = 0, count
    with ThreadPoolExecutor(count, thread_name_prefix="fwc-llm-blocks") as pool:
        futures = [pool.submit(work) for _ in range(count)]
        try:
            while working:
                if said.get():
                    done += 1
                    if tick is not None:
                        tick(done, blocks)
                else:
                    working -= 1
        except BaseException:
            hall.close()
            raise
        parts = [part for future in futures for part in future.result()]
    if not parts:
        raise InputError(f"{name} has no rows: pass at least one")
    whole = parts[0]
    for part in parts[1:]:
        whole = merge(whole, part)
    return whole


class _Hall:
    """Hands out the blocks of streams; each stream is read by one thread at a time, and few are open."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._fresh = deque(streams)
        self._idle: deque[Iterator[Block]] = deque()
        self._reading = 0
        self._change = Condition()

    def take(self) -> Block | None:
        """The next block; None if there is none left."""
        while (stream := self._stream()) is not None:
            block, went_on = None, False
            try:
                block = next(stream, None)
                went_on = block is not None
            finally:
                with self._change:
                    self._reading -= 1
                    if went_on:
                        self._idle.append(stream)
                    self._change.notify_all()
            if block is not None:
                return block
        return None

    def close(self) -> None:
        """Nothing more is handed out."""
        with self._change:
            self._fresh.clear()
            self._idle.clear()
            self._change.notify_all()

    def _stream(self) -> Iterator[Block] | None:
        with self._change:
            while not self._idle and not self._fresh and self._reading:
                self._change.wait()
            if not self._idle and not self._fresh:
                return None
            self._reading += 1
            return self._idle.popleft() if self._idle else self._fresh.popleft()()
