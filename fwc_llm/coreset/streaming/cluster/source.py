"""A table of Dask as a source of blocks."""

from collections.abc import Callable
from functools import cached_property
from itertools import accumulate
from operator import or_
from typing import Any

from fwc_llm.coreset.streaming.blocks import Block, Part
from fwc_llm.coreset.streaming.cluster.client import Cluster, closed, current_client
from fwc_llm.coreset.streaming.cluster.given import Collections, read_collections
from fwc_llm.coreset.streaming.cluster.graph import TOP, in_words, reduction
from fwc_llm.coreset.streaming.cluster.partitions import Partitions, split
from fwc_llm.errors import InputError


class DaskSource:
    """Collections of Dask: each partition is a block.

    The current client's cluster reads them, or without a client the scheduler that Dask is set to, by default
    its threads in this process. No cluster is started.
    """

    def __init__(self, collections: Collections) -> None:
        self.collections = collections
        self._clusters: dict[str, Cluster] = {}

    @classmethod
    def open(cls, X: Any, y: Any = None, sensitive: Any = None, sample_weight: Any = None) -> "DaskSource":
        """The source of a dask.array (n, p) or a dask.dataframe; `InputError` for what cannot be one."""
        return cls(read_collections(X, y, sensitive, sample_weight))

    @property
    def name(self) -> str:
        """What it is called in errors."""
        return self.collections.kind

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Rows of each partition; where Dask does not know them, a column of each is read to count them."""
        known = self.collections.known_lengths
        if known is not None:
            return known
        counts: dict[int, int] = DaskSource(self.collections.narrow).reduce(_count, or_)
        return tuple(counts[index] for index in sorted(counts))

    @property
    def n(self) -> int:
        """Number of rows."""
        return sum(self.lengths)

    @property
    def _firsts(self) -> tuple[int, ...] | None:
        """The place of each partition's first row, once the rows are counted."""
        return tuple(accumulate(self.lengths, initial=0)) if "lengths" in vars(self) else None

    @cached_property
    def stamp(self) -> str:
        """Tells whether it is still the same table."""
        return self.collections.stamp

    @cached_property
    def partitions(self) -> Partitions:
        """What every partition needs."""
        return split(self.collections)

    def reduce(
        self,
        task: Callable[[Block], Part],
        merge: Callable[[Part, Part], Part],
        tick: Callable[[int, int], None] | None = None,
    ) -> Part:
        """`task` of every partition, merged (`Source.reduce`): one task for each, merged as a tree."""
        client = current_client()
        if client is None and self._clusters:
            raise closed(self.name)
        if client is None:
            return self._reduce_here(task, merge, tick)
        cluster = self._clusters.setdefault(client.id, Cluster(client))
        try:
            homes = cluster.homes(self.partitions, self.name)
            topic = cluster.topic if tick is not None else None
            graph = reduction(self.collections, self.partitions, task, merge, homes, topic, self._firsts)
            found: Part = cluster.compute(graph, self.partitions, self.name, tick).part
        except Exception as error:
            if cluster.closed:
                raise closed(self.name) from error
            raise
        return found

    def _reduce_here(
        self,
        task: Callable[[Block], Part],
        merge: Callable[[Part, Part], Part],
        tick: Callable[[int, int], None] | None,
    ) -> Part:
        """By Dask's scheduler of this process."""
        from dask.callbacks import Callback
        from dask.delayed import Delayed

        if self.partitions.futures:
            raise InputError(
                f"{self.name} lies on a cluster, but there is no current client: connect one, and persist "
                "the table again"
            )
        graph = reduction(self.collections, self.partitions, task, merge, firsts=self._firsts)
        root = Delayed(graph.root, graph.graph, layer=TOP)
        done = 0

        def ended(key: Any, *_: Any) -> None:
            nonlocal done
            if key in graph.tasks and tick is not None:
                done += 1
                tick(done, len(graph.tasks))

        with Callback(posttask=ended):
            try:
                found: Part = root.compute(optimize_graph=False).part
            except Exception as error:
                raise in_words(error, self.name) from error.__cause__
        return found


def _count(block: Block) -> dict[int, int]:
    return {block.index: len(block.rows)}
