"""The files of a task, found or downloaded, as its clean tables."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from fwc_llm.data.download import download
from fwc_llm.data.locate import Places, find_parts
from fwc_llm.data.reading import joined, read_table
from fwc_llm.errors import FwcError
from fwc_llm.taskfile import TaskFile

if TYPE_CHECKING:
    from fwc_llm.data.table import Tables


def load_tables(task: TaskFile, places: Places) -> "Tables":
    """Find (or download) the files of `task`, read and clean them; `FwcError` for missing or faulty data."""
    from dataclasses import replace

    from fwc_llm.data.table import build_tables

    raws, notes = [], []
    names = [item.name for item in task.fields]
    # Row ids begin with the file's name: two files of one name need their folders too.
    labels = {name: name.rpartition("/")[2] for name in task.source.files}
    if len(set(labels.values())) < len(labels):
        labels = {name: name for name in labels}
    for name, paths in zip(task.source.files, _files(task, places), strict=True):
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


def _files(task: TaskFile, places: Places) -> tuple[tuple[Path, ...], ...]:
    """The files of every table."""
    found = find_parts(task, places)
    if found is not None:
        return found
    if task.source.url:
        return tuple((path,) for path in download(task, places))
    searched = ", ".join(str(folder) for folder in places.folders)
    missing = next((name for name in task.source.files if places.find(name) is None), task.source.files[0])
    raise FwcError(
        f"{task.path}: its data file {missing} is in none of {searched}; correct the path under [data]"
    )
