"""Blocks that the caller makes: an object whose `iter()` gives the same ones at every call."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from fwc_llm.coreset.problem.frames import as_pandas, is_frame, take_named
from fwc_llm.coreset.streaming.blocks import Block, Part
from fwc_llm.coreset.streaming.sources.mapped import rows_of
from fwc_llm.coreset.streaming.sources.pool import block_rows, reduce_streams
from fwc_llm.errors import InputError

_FORMS = "DataFrames, or tuples (X, y, sensitive) or (X, y, sensitive, sample_weight)"


@dataclass
class GivenBlocks:
    """An iterable of blocks. What its blocks hold is told at the first reading, and checked at all others."""

    blocks: Iterable[Any]
    y: Any = None
    sensitive: Any = None
    weight: Any = None
    threads: int | None = None
    _lengths: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What it is called in errors."""
        return "X"

    @property
    def stamp(self) -> str:
        """Nothing is known of the blocks before they are read."""
        return type(self.blocks).__name__

    def reduce(
        self,
        task: Callable[[Block], Part],
        merge: Callable[[Part, Part], Part],
        tick: Callable[[int, int], None] | None = None,
    ) -> Part:
        """`task` of every block, merged (`Source.reduce`)."""
        return reduce_streams([self._read], self.name, task, merge, tick, 0, self.threads)

    def _read(self) -> Iterator[Block]:
        lengths: list[int] = []
        index = 0
        for number, given in enumerate(self._given()):
            whole = self._block(given, f"block {number}")
            n = len(whole.rows)
            lengths.append(n)
            if self._lengths and lengths != self._lengths[: number + 1]:
                break
            step = block_rows(whole.rows.shape[1])
            for low in range(0, max(n, 1), step):
                part = _slice(whole, index, low, min(low + step, n))
                yield replace(part, first=sum(lengths[:-1]) + low)
                index += 1
        if self._lengths and lengths != self._lengths:
            raise InputError(
                f"the blocks of X differ from those of the first reading ({len(lengths)} with "
                f"{sum(lengths):,} rows, not {len(self._lengths)} with {sum(self._lengths):,}): X must give "
                "the same blocks each time that it is iterated"
            )
        self._lengths = lengths

    def _given(self) -> Iterator[Any]:
        try:
            yield from self.blocks
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"the blocks of X cannot be read ({type(error).__name__}: {error})") from error

    def _block(self, given: Any, where: str) -> Block:
        if isinstance(given, tuple):
            if not 1 <= len(given) <= 4:
                raise InputError(f"{where} is a tuple of {len(given)}: give {_FORMS}")
            if self.y is not None or self.sensitive is not None or self.weight is not None:
                raise InputError(f"{where} is a tuple, which has y and sensitive with it: name no columns")
            rows, y, sensitive, weight = (*given, None, None, None)[:4]
            rows, y, sensitive = as_pandas(rows), as_pandas(y), as_pandas(sensitive)
        else:
            rows = as_pandas(given)
            if not is_frame(rows) and not hasattr(rows, "shape"):
                raise InputError(f"{where} is a {type(given).__name__}: give {_FORMS}")
            rows, y, sensitive, weight = take_named(
                rows, self.y, self.sensitive, self.weight, where, only_names=True
            )
        if len(getattr(rows, "shape", ())) != 2:
            raise InputError(f"X in {where} is no table with rows and columns: give {_FORMS}")
        for what, values in (("y", y), ("sensitive", sensitive), ("sample_weight", weight)):
            if values is not None and (not hasattr(values, "__len__") or len(values) != len(rows)):
                found = len(values) if hasattr(values, "__len__") else "no"
                raise InputError(f"{what} has {found} rows in {where}, but X has {len(rows)}")
        return Block(0, rows, y, sensitive, weight, where)


def _slice(block: Block, index: int, low: int, high: int) -> Block:
    if low > 0 or high < len(block.rows):
        rows, y, sensitive, weight = (
            None if part is None else rows_of(part, low, high)
            for part in (block.rows, block.y, block.sensitive, block.weight)
        )
        return Block(index, rows, y, sensitive, weight, block.where, low)
    return replace(block, index=index)
