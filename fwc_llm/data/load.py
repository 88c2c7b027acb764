"""The files of a task, found or downloaded, as its clean tables."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fwc_llm.data.download import download
from fwc_llm.data.locate import Places, find_parts
from fwc_llm.data.reading import RawTable, joined, read_table
from fwc_llm.errors import FwcError
from fwc_llm.files import home_expanded
from fwc_llm.taskfile import TaskFile

if TYPE_CHECKING:
    from fwc_llm.data.table import Tables


def load_tables(task: TaskFile, places: Places) -> "Tables":
    """Find (or download) the files of `task`, read and clean them; `FwcError` for missing or faulty data."""
    from dataclasses import replace

    from fwc_llm.data.large import is_large, load_large
    from fwc_llm.data.table import build_tables

    raws: list[RawTable] = []
    notes: list[str] = []
    names = [item.name for item in task.fields]
    # Row ids begin with the file's name: two files of one name need their folders too.
    labels = {name: name.rpartition("/")[2] for name in task.source.files}
    if len(set(labels.values())) < len(labels):
        labels = {name: name for name in labels}
    tables_files = _files(task, places)
    for paths in tables_files:
        _check_names(task, paths)
    if len(tables_files) == 1 and is_large(task, tables_files[0]):
        return load_large(task, tables_files[0])
    for name, paths in zip(task.source.files, tables_files, strict=True):
        parts = []
        for path in paths:
            try:
                content = path.read_bytes()
            except OSError as error:
                raise FwcError(f"cannot read {path}: {error.strerror or error}") from error
            expected = task.source.sha256.get(name)
            if expected and hashlib.sha256(content).hexdigest() != expected:
                notes.append(f"{path} differs from the published file (its sha256 is another)")
            label = labels[name] if len(paths) == 1 else path.name
            parts.append(read_table(path, content, task.source, names, label))
        raws.append(joined(parts))
    tables = build_tables(task, raws)
    return replace(tables, notes=(*tables.notes, *notes))


def _check_names(task: TaskFile, paths: Sequence[Path]) -> None:
    """Refuse two files of one name: row ids begin with it."""
    names = Counter(path.name for path in paths)
    if twice := next((name for name, n in names.items() if n > 1), None):
        raise FwcError(
            f"{task.path}: {names[twice]} of its files are called {twice!r}, and row ids begin with the "
            "file's name: rename them"
        )


def _files(task: TaskFile, places: Places) -> tuple[tuple[Path, ...], ...]:
    """The files of every table."""
    found = find_parts(task, places)
    if found is not None:
        return found
    if task.source.url:
        return tuple((path,) for path in download(task, places))
    searched = ", ".join(str(folder) for folder in places.folders)
    missing = next((name for name in task.source.files if places.find(name) is None), task.source.files[0])
    if home_expanded(missing).is_absolute():
        raise FwcError(f"{missing}: there is no such file, and none that this pattern names")
    raise FwcError(
        f"{task.path}: its data file {missing} is in none of {searched}; correct the path under [data]"
    )
