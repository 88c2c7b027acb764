"""What each partition needs of the caller's graph.

A partition's own part of the graph runs within its task: its rows are in memory only while that task works
on them, a worker needs no other's rows, and an error has the partition's name. What is computed already
(persisted) or shared by several partitions stays a task of its own.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fwc_llm.coreset.streaming.cluster.given import Collections, is_future

Key = Hashable
_SHARED = -1


@dataclass(frozen=True)
class Load:
    """How a task gets at a partition: `nodes` in their order, run with the values of `needs`."""

    nodes: tuple[Any, ...]
    needs: tuple[Key, ...]
    keys: dict[str, Key]  # of rows, y, …

    def __call__(self, values: Sequence[Any]) -> dict[str, Any]:
        """The values of `keys`; each other value is dropped after its last use."""
        found = dict(zip(self.needs, values, strict=True))
        uses = Counter(key for node in self.nodes for key in node.dependencies)
        uses.update(self.keys.values())
        for node in self.nodes:
            found[node.key] = node(found)
            for key in node.dependencies:
                uses[key] -= 1
                if not uses[key]:
                    del found[key]
        return {what: found[key] for what, key in self.keys.items()}


@dataclass(frozen=True)
class Partitions:
    """How each partition is loaded, and the part of the graph that runs outside of its task."""

    loads: tuple[Load, ...]
    shared: dict[Key, Any]

    @property
    def futures(self) -> dict[Key, Any]:
        """What lies on a cluster already."""
        return {key: node for key, node in self.shared.items() if is_future(node)}


def split(collections: Collections) -> Partitions:
    """The partitions of collections."""
    graph, keys = _graph(collections)
    owner: dict[Key, int] = {}
    for index, part in enumerate(keys):
        _own(graph, part.values(), index, owner)
    loads = tuple(_load(graph, part, index, owner) for index, part in enumerate(keys))
    return Partitions(loads, _closure(graph, {key for load in loads for key in load.needs}))


def _graph(collections: Collections) -> tuple[dict[Key, Any], list[dict[str, Key]]]:
    """One graph of all collections, and the keys of each partition in it.

    Frames are optimized, so that no column is read in vain. Arrays are not: where rows and labels are parts
    of one array, Dask would make that array once for each of them.
    """
    from dask.core import flatten

    graph: dict[Key, Any] = {}
    flat = {}
    for what, part in collections.parts.items():
        ready = part.optimize() if hasattr(part, "optimize") else part
        graph |= dict(ready.__dask_graph__())
        flat[what] = list(flatten(ready.__dask_keys__()))
    graph = {key: _as_node(graph, key, node) for key, node in graph.items()}
    return graph, [{what: keys[k] for what, keys in flat.items()} for k in range(collections.count)]


def _as_node(graph: Mapping[Key, Any], key: Key, node: Any) -> Any:
    """A plain value as a node of Dask's, and a node under the name that the graph has for it."""
    from dask.core import istask
    from dask.task_spec import Alias, DataNode, GraphNode

    if isinstance(node, Alias) and node.key != key:  # from_delayed's are called after what they stand for
        return Alias(key, node.target)
    if isinstance(node, GraphNode) or is_future(node) or istask(node) or _needs(graph, key):
        return node
    return DataNode(key, node)


def _own(graph: Mapping[Key, Any], keys: Iterable[Key], index: int, owner: dict[Key, int]) -> None:
    """Mark what partition `index` needs as its own, or as shared if another one needs it, too."""
    todo = list(keys)
    while todo:
        key = todo.pop()
        before = owner.get(key)
        if before in (index, _SHARED):
            continue
        owner[key] = index if before is None else _SHARED
        todo += _needs(graph, key)


def _load(graph: Mapping[Key, Any], keys: dict[str, Key], index: int, owner: Mapping[Key, int]) -> Load:
    """How partition `index` is loaded: within its task as far as that is possible."""
    nodes: dict[Key, Any] = {}
    for key in keys.values():
        nodes |= _nodes_here(graph, key, index, owner) or {}
    needs = {key: None for node in nodes.values() for key in sorted(node.dependencies, key=str)}
    needs |= dict.fromkeys(keys.values())
    return Load(tuple(nodes.values()), tuple(key for key in needs if key not in nodes), keys)


def _nodes_here(
    graph: Mapping[Key, Any], key: Key, index: int, owner: Mapping[Key, int]
) -> dict[Key, Any] | None:
    """The nodes that compute a key within the partition's task, in their order; None where that cannot be.

    All of them are the partition's own, up to what is persisted and to plain values. What follows a task that
    is shared, such as a shuffle, may have to run on a certain worker and under its own name.
    """
    from dask.task_spec import DataNode, GraphNode

    nodes: dict[Key, Any] = {}
    seen: set[Key] = set()
    todo = [(key, False)]
    while todo:
        key, ready = todo.pop()
        if ready:
            nodes[key] = graph[key]
        elif key not in seen:
            seen.add(key)
            node = graph.get(key)
            if node is None or is_future(node):
                continue
            if (owner[key] != index and not isinstance(node, DataNode)) or not isinstance(node, GraphNode):
                return None
            if owner[key] == index:
                todo.append((key, True))
                todo += [(other, False) for other in node.dependencies]
    return nodes


def _closure(graph: Mapping[Key, Any], keys: Iterable[Key]) -> dict[Key, Any]:
    """The nodes that lead to keys."""
    found: dict[Key, Any] = {}
    todo = list(keys)
    while todo:
        key = todo.pop()
        if key not in found and key in graph:
            found[key] = graph[key]
            todo += _needs(graph, key)
    return found


def _needs(graph: Mapping[Key, Any], key: Key) -> Iterable[Key]:
    """The keys that a node needs; what is persisted needs none."""
    from dask.core import get_dependencies

    node = graph.get(key)
    if node is None or is_future(node):
        return ()
    # A node in Dask's older form is a tuple.
    found: Iterable[Key] = getattr(node, "dependencies", None) or get_dependencies(graph, key)
    return found
