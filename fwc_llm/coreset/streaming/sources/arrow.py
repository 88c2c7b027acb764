"""Files that pyarrow reads: Parquet by row groups, all other formats of a `Dataset` from front to back."""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from fwc_llm.coreset.problem.frames import take_named
from fwc_llm.coreset.streaming.blocks import Block, Part
from fwc_llm.coreset.streaming.sources.pool import Stream, block_rows, reduce_streams
from fwc_llm.coreset.streaming.sources.schemas import FileColumns, casts, common_schema, is_text
from fwc_llm.errors import InputError
from fwc_llm.untrusted import shortened, visible

_BUFFERS = 2**25  # bytes read at once of all columns, so that a row group of any size can be read


@dataclass(frozen=True)
class Stretch:
    """Rows of one file that are read one after the other: its row groups `groups`, or all of it (None)."""

    file: int
    groups: tuple[int, ...] | None
    rows: int
    first: int  # number of its first block
    blocks: int
    before: int  # rows of the table before it

    @property
    def ends(self) -> list[int]:
        """The row after each block: blocks of equal length, as far as they can be."""
        return [self.rows * (k + 1) // self.blocks for k in range(self.blocks)]

    @property
    def where(self) -> str:
        """The row groups in words."""
        if self.groups is None:
            return ""
        low, high = self.groups[0], self.groups[-1]
        return f", row group {low}" if low == high else f", row groups {low} to {high}"


@dataclass(frozen=True, eq=False)
class ArrowSource:
    """The rows of a pyarrow `Dataset`.

    `files` are its fragments, `schema` that of the rows read; text is read as categories, which is several
    times as fast: `texts` are such columns.
    """

    name: str
    files: tuple[Any, ...]
    schema: Any
    stretches: tuple[Stretch, ...]
    step: int
    y: Any = None
    sensitive: Any = None
    weight: Any = None
    texts: frozenset[str] = frozenset()
    threads: int | None = None
    places: tuple[str, ...] = ()
    casts: tuple[dict[str, Any], ...] = ()  # by file the columns that are read as another type

    @property
    def n(self) -> int:
        """Rows in all files."""
        return sum(stretch.rows for stretch in self.stretches)

    @property
    def by_row_groups(self) -> bool:
        """Whether all of its files are Parquet."""
        return all(stretch.groups is not None for stretch in self.stretches)

    def origin(self, index: int) -> tuple[str, int]:
        """The file of a block, and the number of the block's first row there."""
        place = bisect_right([stretch.first for stretch in self.stretches], index) - 1
        stretch = self.stretches[place]
        before = sum(one.rows for one in self.stretches[:place] if one.file == stretch.file)
        block = index - stretch.first
        return self.places[stretch.file], before + (stretch.ends[block - 1] if block else 0)

    @property
    def stamp(self) -> str:
        """Sizes and times of the files, in one hash. Those of a store elsewhere are asked for once alone."""
        return self._remote_stamp if self._remote else self._stamp_now()

    @cached_property
    def _remote(self) -> bool:
        """Whether files lie where each question takes its time."""
        kinds = {file.filesystem.type_name for file in self.files if hasattr(file, "path")}
        return not kinds <= {"local"}

    @cached_property
    def _remote_stamp(self) -> str:
        return self._stamp_now()

    def _stamp_now(self) -> str:
        known = self.schema.names, self.y, self.sensitive, self.weight, self.places
        digest = hashlib.sha256(repr(known).encode("utf-8", "backslashreplace"))
        for file in self.files:
            state = file.filesystem.get_file_info(file.path) if hasattr(file, "path") else None
            digest.update(f"{getattr(state, 'size', '')} {getattr(state, 'mtime_ns', '')};".encode())
        return digest.hexdigest()

    def reduce(
        self,
        task: Callable[[Block], Part],
        merge: Callable[[Part, Part], Part],
        tick: Callable[[int, int], None] | None = None,
    ) -> Part:
        """`task` of every block, merged (`Source.reduce`)."""
        streams: list[Stream] = [partial(self._read, stretch) for stretch in self.stretches]
        blocks = sum(stretch.blocks for stretch in self.stretches)
        return reduce_streams(streams, self.name, task, merge, tick, blocks, self.threads)

    def _read(self, stretch: Stretch) -> Iterator[Block]:
        """The blocks of a stretch, whatever the batches in which pyarrow reads them."""
        import pyarrow as pa

        where = self.places[stretch.file] + stretch.where
        start, held, waiting = 0, 0, []
        batches = self._batches(stretch)
        for index, end in enumerate(stretch.ends, stretch.first):
            wanted = end - start
            while held < wanted:
                try:
                    batch = next(batches, None)
                except (pa.ArrowException, OSError, ValueError) as error:
                    raise InputError(f"{where} cannot be read: {first_words(error)}") from error
                if batch is None:
                    raise InputError(f"{where} ends before row {end:,}: it has changed")
                waiting.append(batch)
                held += batch.num_rows
            table = pa.Table.from_batches(waiting)
            if len(waiting) > 1:
                table = table.unify_dictionaries()
            waiting, held = [], held - wanted
            if held:
                waiting = table.slice(wanted).to_batches()
            yield self._block(table.slice(0, wanted), index, where, start, stretch.before)
            start = end

    def _batches(self, stretch: Stretch) -> Iterator[Any]:
        file = self.files[stretch.file]
        if stretch.groups is None:
            yield from file.to_batches(
                schema=self.schema, columns=self.schema.names, batch_size=self.step, use_threads=False
            )
            return
        import pyarrow.dataset as ds
        import pyarrow.parquet as pq

        keys = ds.get_partition_keys(file.partition_expression)
        names = [name for name in self.schema.names if name not in keys]
        texts = sorted(self.texts - keys.keys())
        with file.filesystem.open_input_file(file.path) as opened:
            reader = pq.ParquetFile(
                opened,
                metadata=file.metadata,
                read_dictionary=texts,
                buffer_size=min(max(_BUFFERS // max(len(names), 1), 2**14), 2**20),
                pre_buffer=False,
                page_checksum_verification=True,
            )
            for batch in reader.iter_batches(
                batch_size=stretch.ends[0], row_groups=list(stretch.groups), columns=names, use_threads=False
            ):
                for name, kind in self.casts[stretch.file].items():
                    place = batch.schema.get_field_index(name)
                    batch = batch.set_column(place, name, batch.column(place).cast(kind))
                for name in (name for name in self.schema.names if name in keys):
                    batch = batch.append_column(name, self._constant(name, keys[name], batch.num_rows))
                yield batch

    def _constant(self, name: str, value: Any, n: int) -> Any:
        """A column that the folders of partitions name, text as categories."""
        import pyarrow as pa

        kind = self.schema.field(name).type
        if value is None:
            return pa.nulls(n, kind)
        if name in self.texts or pa.types.is_dictionary(kind):
            return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([value]))
        return pa.repeat(pa.scalar(value, kind), n)

    def _block(self, table: Any, index: int, where: str, start: int, before: int) -> Block:
        table = table.select(self.schema.names)
        frame = table.to_pandas(use_threads=False, split_blocks=True, ignore_metadata=True)
        rows, y, sensitive, weight = take_named(
            frame, self.y, self.sensitive, self.weight, self.name, only_names=True
        )
        return Block(index, rows, y, sensitive, weight, where, start, before + start)


def open_dataset(
    dataset: Any,
    name: str,
    y: Any,
    sensitive: Any,
    sample_weight: Any,
    threads: int | None,
    columns: Collection[str] | None = None,
) -> ArrowSource:
    """The source of a pyarrow `Dataset`, its files looked at: whether they can be read and are alike."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    files = tuple(_fragments(dataset, name))
    if not files:
        raise InputError(f"{name} has no files: pass at least one")
    places = tuple(_place(file, name, k) for k, file in enumerate(files))
    counts: list[list[int]] = []
    held: list[FileColumns] = []
    for file, place in zip(files, places, strict=True):
        try:
            groups = [group.num_rows for group in file.row_groups] if hasattr(file, "row_groups") else []
            counts.append(groups if hasattr(file, "row_groups") else [file.count_rows()])
            keys = frozenset(ds.get_partition_keys(file.partition_expression))
            held.append(FileColumns(place, file.physical_schema, sum(counts[-1]), keys))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{place} cannot be read: {first_words(error)}") from error
    if not any(map(sum, counts)):
        raise InputError(f"{name} has no rows: pass at least one")
    schema = common_schema(held, dataset.schema, columns)
    _check_names(schema.names, name, y, sensitive, sample_weight)
    step = block_rows(len(schema.names))
    texts = frozenset(column.name for column in schema if is_text(column.type))
    if not all(hasattr(file, "row_groups") for file in files):
        texts = frozenset()
    stretches: list[Stretch] = []
    blocks, before = 0, 0
    for k, (file, sizes) in enumerate(zip(files, counts, strict=True)):
        for groups in _joined(sizes, step):
            n = sum(sizes[g] for g in groups)
            which = tuple(groups) if hasattr(file, "row_groups") else None
            stretches.append(Stretch(k, which, n, blocks, max(1, round(n / step)), before))
            blocks, before = blocks + stretches[-1].blocks, before + n
    given = name, files, schema, tuple(stretches), step, y, sensitive, sample_weight, texts, threads, places
    return ArrowSource(*given, tuple(casts(file, schema) for file in held))


def _fragments(dataset: Any, name: str) -> Iterator[Any]:
    try:
        yield from dataset.get_fragments()
    except (NotImplementedError, ValueError) as error:
        raise InputError(f"{name} is filtered, or not of files ({error}): write it to a file first") from None


def _place(file: Any, name: str, k: int) -> str:
    """How errors call a file."""
    return file.path if getattr(file, "path", "") else f"part {k} of {name}"


def first_words(error: BaseException) -> str:
    """What is wrong, of an error that may tell a chain of causes and quote a file's bytes."""
    lines = str(error).rpartition("Invalid: ")[2].splitlines() or [type(error).__name__]
    late = "; a CSV column has the type of its first rows, a Parquet file says it: write one"
    return visible(shortened(lines[0], 300)) + late * ("CSV conversion error" in lines[0])


def named_in(error: BaseException, name: str) -> str:
    """The file that an error is about, if it says so."""
    found = re.search(r"(?:schema from|input source) '(.+?)'", str(error))
    return found[1] if found else name


def _check_names(names: Sequence[str], table: str, y: Any, sensitive: Any, sample_weight: Any) -> None:
    """Refuse, before the work, anything but names of columns for labels and weights."""
    import pandas as pd

    take_named(pd.DataFrame(columns=list(names)), y, sensitive, sample_weight, table, only_names=True)


def _joined(sizes: Sequence[int], step: int) -> Iterator[list[int]]:
    """Row groups in stretches of about a block; a larger one is a stretch of its own, an empty one none."""
    held: list[int] = []
    for group, rows in enumerate(sizes):
        if held and sum(sizes[g] for g in held) + rows > step:
            yield held
            held = []
        if rows:
            held.append(group)
    if held:
        yield held
