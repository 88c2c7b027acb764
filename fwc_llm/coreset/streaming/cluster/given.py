"""What a caller passed as collections of Dask, checked and aligned: rows, labels and weights."""

import re
from dataclasses import dataclass
from typing import Any

from fwc_llm.coreset.problem.frames import take_named
from fwc_llm.coreset.streaming.blocks import Block
from fwc_llm.errors import InputError

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ROLES = ("y", "sensitive", "weight")


def is_dask(table: Any, kind: str = "dask") -> bool:
    """Whether it is a collection of Dask, or of its module `kind`; Dask is not imported for it."""
    return any(f"{base.__module__}.".startswith(f"{kind}.") for base in type(table).__mro__)


@dataclass(frozen=True)
class Collections:
    """Collections with the same partitions: `parts` are rows and, where they are no columns of these, the
    others, each a dask.array or a frame or series of dask.dataframe.

    `names` are the columns of a frame's `y`, `sensitive` and `weight`. Partitions are named after `kind`.
    """

    parts: dict[str, Any]
    names: dict[str, Any]
    kind: str

    @property
    def count(self) -> int:
        """Number of partitions."""
        return int(_count(self.parts["rows"]))

    @property
    def known_lengths(self) -> tuple[int, ...] | None:
        """Rows of each partition, where Dask knows them."""
        lengths = self.parts["rows"].chunks[0] if _is_array(self.parts["rows"]) else (float("nan"),)
        return tuple(map(int, lengths)) if _known(lengths) else None

    @property
    def narrow(self) -> "Collections":
        """The same rows, of as few columns as it takes to count them."""
        rows = self.parts["rows"]
        return Collections({"rows": rows if _is_array(rows) else rows[list(rows.columns[:1])]}, {}, self.kind)

    @property
    def stamp(self) -> str:
        """Tells whether it is still the same table: Dask's tokens, or what is known without them.

        Where a name comes from chance, such as that of a delayed function that is not pure, a collection that
        is made again has another one. A frame's that is persisted has its client in it.
        """
        from dask.tokenize import tokenize

        said: list[Any] = [sorted(self.names.items())]
        for what, part in self.parts.items():
            graph = dict((part if _is_array(part) else part.optimize(fuse=False)).__dask_graph__())
            held = sorted({_stem(key) for key, node in graph.items() if is_future(node)})
            if any(_UUID.search(_stem(key)) for key in graph) or (held and not _is_array(part)):
                columns = getattr(part, "columns", getattr(part, "shape", ())[1:])
                held = [stem for stem in held if not _UUID.search(stem)]
                said.append((what, _count(part), [str(column) for column in columns], held))
            else:
                said.append((what, tokenize(part)))
        return str(tokenize(said))


def read_collections(X: Any, y: Any, sensitive: Any, sample_weight: Any) -> Collections:
    """The collections of a table; `y`, `sensitive` and `sample_weight` may name columns of a frame.

    Raises:
        InputError: what is no table, does not belong to its rows, or cannot be aligned with them.
    """
    framed = _is_framed(X)
    if not (framed or _is_array(X)) or X.ndim != 2:
        shape = f" of {X.ndim} dimensions" if framed or _is_array(X) else ""
        raise InputError(
            f"X is a dask {type(X).__name__}{shape}: pass a dask.array (n, p) or a dask.dataframe.DataFrame"
        )
    rows = X if framed else _whole_rows(X, "X")
    parts, names = {"rows": rows}, {}
    for what, given in zip(_ROLES, (y, sensitive, sample_weight), strict=True):
        called = "sample_weight" if what == "weight" else what
        if is_dask(given):
            parts[what] = _aligned(given, called, rows, many=what == "sensitive")
        elif given is not None and framed:
            names[what] = list(given) if isinstance(given, tuple) else given
        elif given is not None:
            raise InputError(
                f"{called} is of type {type(given).__name__} but X is a dask.array: pass one with the same "
                "chunks, such as dask.array.from_array(values, chunks=X.chunks[0])"
            )
    if framed:
        _check_names(list(X.columns), names)
    return Collections(parts, names, "the dask DataFrame" if framed else "the dask array")


def _check_names(columns: list[Any], names: dict[str, Any]) -> None:
    """Refuse names of columns that a frame does not have."""
    import pandas as pd

    y, sensitive, weight = (names.get(what) for what in _ROLES)
    rest = take_named(pd.DataFrame(columns=columns), y, sensitive, weight, "X", only_names=True)[0]
    if not rest.shape[1]:
        raise InputError("every column of X is named as y, sensitive or sample_weight: no feature is left")


def make_block(
    index: int, where: str, names: dict[str, Any], values: dict[str, Any], first: int | None = None
) -> Block:
    """A partition as a block; `first` is the place of its first row, if it is known.

    Raises:
        InputError: its parts are not of the same rows.
    """
    rows = values["rows"]
    if not hasattr(rows, "shape") or len(rows.shape) != 2:
        raise InputError(f"{where} is a {type(rows).__name__}, not a table with rows and columns")
    for what, part in values.items():
        if len(part) != len(rows):
            raise InputError(f"{what} has {len(part)} rows in {where} but X has {len(rows)}: align them")
        own, other = getattr(rows, "index", None), getattr(part, "index", None)
        if own is not None and other is not None and not own.equals(other):
            raise InputError(f"the index of {what} differs from that of X in {where}: align them")
    found = {what: part for what, part in values.items() if what != "rows"}
    if names:
        y, sensitive, weight = (names.get(what) for what in _ROLES)
        rows, *columns = take_named(rows, y, sensitive, weight, where, only_names=True)
        found |= {what: part for what, part in zip(_ROLES, columns, strict=True) if what in names}
    return Block(index, rows, **found, where=where, first=first)


def _is_array(x: Any) -> bool:
    return is_dask(x, "dask.array")


def _is_framed(x: Any) -> bool:
    """A frame or a series."""
    return is_dask(x, "dask.dataframe") and hasattr(x, "npartitions")


def _count(part: Any) -> Any:
    return part.numblocks[0] if _is_array(part) else part.npartitions


def _whole_rows(array: Any, what: str) -> Any:
    """An array whose every chunk holds whole rows."""
    if array.ndim == 1 or array.numblocks[1] == 1:
        return array
    return array.rechunk({1: -1})


def _known(lengths: tuple[float, ...]) -> bool:
    return all(length == length for length in lengths)


def _aligned(given: Any, what: str, rows: Any, many: bool) -> Any:
    """Labels with the partitions of the rows."""
    if not _is_array(given) and not _is_framed(given):
        raise InputError(
            f"{what} is a dask {type(given).__name__}: pass a dask.array or a dask.dataframe.Series"
        )
    if given.ndim != 1 and not (many and given.ndim == 2):
        raise InputError(f"{what} has {given.ndim} dimensions: pass one value per row")
    if _is_array(given):
        given = _whole_rows(given, what)
    if not (_is_array(given) and _is_array(rows)):
        if _count(given) != _count(rows):
            raise InputError(
                f"{what} has {_count(given)} partitions but X has {_count(rows)}: pass them from one "
                "dask.dataframe, or repartition one of them"
            )
        theirs, own = getattr(given, "divisions", (None,)), getattr(rows, "divisions", (None,))
        if None not in theirs and None not in own and theirs != own:
            raise InputError(
                f"the divisions of {what} differ from those of X: pass them from one dask.dataframe"
            )
        return given
    own, theirs = rows.chunks[0], given.chunks[0]
    if _known(own) and _known(theirs):
        if sum(own) != sum(theirs):
            raise InputError(f"{what} has {sum(theirs)} rows but X has {sum(own)}: pass one value per row")
        return given if own == theirs else given.rechunk({0: own})
    if len(own) != len(theirs):
        raise InputError(
            f"{what} has {len(theirs)} chunks but X has {len(own)}, some of unknown length: give both "
            "the same chunks, or call compute_chunk_sizes() of both"
        )
    return given


def _stem(key: Any) -> str:
    """What the keys of all partitions of a collection have in common."""
    return str(key[0] if isinstance(key, tuple) else key)


def is_future(node: Any) -> bool:
    """Whether a node of a graph is a value on a cluster."""
    return hasattr(node, "add_done_callback") and hasattr(node, "key")
