"""One task for every partition, and a tree that merges what they return."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pickle import PickleBuffer
from typing import Any
from uuid import uuid4

from fwc_llm.coreset.streaming.blocks import Block
from fwc_llm.coreset.streaming.cluster.given import Collections, make_block
from fwc_llm.coreset.streaming.cluster.partitions import Key, Load, Partitions
from fwc_llm.errors import InputError
from fwc_llm.untrusted import shortened, visible

SPLIT_EVERY = 8  # parts that one task merges
_SHARED, TOP = "shared", "merged"  # layers; the others are named after workers


@dataclass(frozen=True)
class Work:
    """What all tasks of a reading have in common: one value of the graph, which workers hand on.

    `topic`: where a worker says that a partition is done; None: nowhere. `remote`: whether parts travel.
    `firsts`: the place of each partition's first row, if it is known.
    """

    task: Callable[[Block], Any]
    merge: Callable[[Any, Any], Any]
    names: dict[str, Any]
    kind: str
    topic: str | None
    remote: bool
    firsts: tuple[int, ...] | None = None

    def __sizeof__(self) -> int:
        return _size(self)


@dataclass(frozen=True)
class Parcel:
    """A part on its way; a scheduler is told how large it is."""

    part: Any
    size: int = 0

    @classmethod
    def of(cls, part: Any, work: Work) -> "Parcel":
        """With its size, where that matters."""
        return cls(part, _size(part) if work.remote else 0)

    def __sizeof__(self) -> int:
        return self.size


def _size(value: Any) -> int:
    """Bytes of a value as it travels; its arrays are not copied for it."""
    import cloudpickle

    buffers: list[PickleBuffer] = []
    rest = cloudpickle.dumps(value, buffer_callback=buffers.append)
    return len(rest) + sum(buffer.raw().nbytes for buffer in buffers)


@dataclass(frozen=True)
class Reduction:
    """A graph that ends in `root`, and the keys of the partitions' tasks, by which errors and progress go."""

    graph: Any
    root: Key
    tasks: dict[Key, int]


def reduction(
    collections: Collections,
    partitions: Partitions,
    task: Callable[[Block], Any],
    merge: Callable[[Any, Any], Any],
    homes: Sequence[str | None] | None = None,
    topic: str | None = None,
    firsts: tuple[int, ...] | None = None,
) -> Reduction:
    """The graph of one reading.

    `homes` are the workers that the partitions lie on, or are read by: what one worker's tasks return is
    merged there first, so that one part of each worker travels. With homes, parts stay as they were when they
    are merged, because a cluster may ask for them again; without, a merge may change its first one.
    """
    from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
    from dask.task_spec import Alias, DataNode, Task

    name = f"fwc-llm-{uuid4().hex}"
    common = f"{name}-work"
    work = Work(task, merge, collections.names, collections.kind, topic, homes is not None, firsts)
    layers: dict[str, dict[Key, Any]] = {_SHARED: {**partitions.shared, common: DataNode(common, work)}}
    tree = _Tree(f"{name}-merge", common)
    at: dict[str | None, list[int]] = {}
    for index in range(len(partitions.loads)):
        at.setdefault(homes[index] if homes else None, []).append(index)
    tasks: dict[Key, int] = {}
    heads = []
    for home, indices in at.items():
        layer = layers[f"at {home}"] = {}
        for index in indices:
            load = partitions.loads[index]
            key = (f"{name}-task", index)
            layer[key] = Task(key, run_task, Alias(common), index, load, *map(Alias, load.needs))
            tasks[key] = index
        heads.append(tree.grow(layer, list(layer)))
    layers[TOP] = {}
    root = tree.grow(layers[TOP], heads)
    annotations = {f"at {home}": {"workers": [home], "allow_other_workers": True} for home in at if home}
    depends = {called: {_SHARED} if called != _SHARED else set() for called in layers}
    depends[TOP] |= {f"at {home}" for home in at}
    return Reduction(
        HighLevelGraph(
            {called: MaterializedLayer(layer, annotations.get(called)) for called, layer in layers.items()},
            depends,
        ),
        root,
        tasks,
    )


@dataclass
class _Tree:
    """Tasks that merge parts."""

    name: str
    common: Key
    made: int = field(default=0)

    def grow(self, layer: dict[Key, Any], keys: list[Key]) -> Key:
        """The key of what merges these; its tasks are added to the layer."""
        from dask.task_spec import Alias, Task

        while len(keys) > 1:
            above: list[Key] = []
            for low in range(0, len(keys), SPLIT_EVERY):
                key = (self.name, self.made)
                few = keys[low : low + SPLIT_EVERY]
                layer[key] = Task(key, run_merge, Alias(self.common), *map(Alias, few))
                above.append(key)
                self.made += 1
            keys = above
        return keys[0]


def unreadable(index: int, kind: str, error: BaseException) -> InputError:
    """What is said of a partition that cannot be read."""
    return InputError(f"partition {index} of {kind} cannot be read ({_shown(error)})")


def run_task(work: Work, index: int, load: Load, *values: Any) -> Parcel:
    """What the task returns of one partition; runs on a worker.

    Raises:
        InputError: the partition cannot be read. An error of the task's own has the partition as a note.
    """
    where = f"partition {index} of {work.kind}"
    try:
        found = load(values)
    except Exception as error:
        raise unreadable(index, work.kind, error) from error
    first = None if work.firsts is None else work.firsts[index]
    block = make_block(index, where, work.names, found, first)
    del found, values
    try:
        part = work.task(block)
    except InputError as error:
        if where in str(error):
            raise
        raise type(error)(f"{error} (in {where})") from error
    except Exception as error:
        error.add_note(f"in {where}")
        raise
    if work.topic is not None:
        from distributed import get_worker

        get_worker().log_event(work.topic, index)
    return Parcel.of(part, work)


def run_merge(work: Work, first: Parcel, *rest: Parcel) -> Parcel:
    """Parts as one; what may be asked for again is not changed."""
    if not rest:
        return first
    merged = deepcopy(first.part) if work.remote else first.part
    for parcel in rest:
        merged = work.merge(merged, parcel.part)
    return Parcel.of(merged, work)


def in_words(error: BaseException, name: str) -> BaseException:
    """An error of a reading: our own and a task's as they are, all else as an `InputError`."""
    if isinstance(error, InputError) or getattr(error, "__notes__", None):
        return error
    return InputError(f"{name} cannot be computed ({_shown(error)})")


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {visible(shortened(str(error), 300))}"
