"""The files of a task, found or downloaded, as its clean tables."""

import hashlib
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from fwc_llm.data.locate import Places, locate_or_download
from fwc_llm.data.reading import read_table
from fwc_llm.errors import FwcError
from fwc_llm.taskfile import TaskFile

if TYPE_CHECKING:
    from fwc_llm.data.table import Tables


def load_tables(task: TaskFile, places: Places) -> "Tables":
    """Find (or download) the files of `task`, read and clean them; `FwcError` for missing or faulty data."""
    import pandas as pd

    from fwc_llm.data.disk_cleaning import is_large, load_large
    from fwc_llm.data.table import build_tables

    tables_files = locate_or_download(task, places)
    for paths in tables_files:
        for name, times in Counter(path.name for path in paths).items():
            if times > 1:
                raise FwcError(
                    f"{task.path}: {times} of its files are called {name!r}, and row ids begin with the "
                    "file's name: rename them"
                )
    if len(tables_files) == 1 and is_large(task, tables_files[0]):
        return load_large(task, tables_files[0])
    notes: list[str] = []
    raws: list[pd.DataFrame] = []
    last = {file.rpartition("/")[2] for file in task.source.files}
    for file, paths in zip(task.source.files, tables_files, strict=True):
        parts = []
        for path in paths:
            try:
                content = path.read_bytes()
            except OSError as error:
                raise FwcError(f"cannot read {path}: {error.strerror or error}") from error
            expected = task.source.sha256.get(file)
            if expected and hashlib.sha256(content).hexdigest() != expected:
                notes.append(f"{path} differs from the published file (its sha256 is another)")
            # Row ids begin with the file's name: two files of one name need their folders too.
            label = path.name if len(paths) > 1 or len(last) == len(task.source.files) else file
            names = [item.name for item in task.fields]
            parts.append(read_table(path, content, task.source, names, label))
        raws.append(parts[0] if len(parts) == 1 else pd.concat(parts))
    tables = build_tables(task, raws)
    return replace(tables, notes=(*tables.notes, *notes))
