"""Loads a task's files as clean tables."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from fwc_llm.data.clean_table import CleanTables, clean_tables, needed
from fwc_llm.data.locate import locate_or_download
from fwc_llm.data.raw_table import open_table
from fwc_llm.errors import FwcError
from fwc_llm.files import failing_as
from fwc_llm.taskfile import TaskFile


def load_tables(task: TaskFile, folders: Sequence[Path]) -> CleanTables:
    """Locate or download the files of `task`, read and clean them."""
    tables_files = locate_or_download(task, folders)
    notes: list[str] = []
    raws: list[pd.DataFrame] = []
    names = needed(task)
    label_of = _labels([path for paths in tables_files for path in paths])
    for file, paths in zip(task.source.files, tables_files, strict=True):
        parts = []
        for path in paths:
            with failing_as(FwcError, f"cannot read {path}: "):
                content = path.read_bytes()
            expected = task.source.sha256.get(file)
            if expected and hashlib.sha256(content).hexdigest() != expected:
                notes.append(
                    f"{path} differs from the published file (its sha256 differs)"
                )
            table = open_table(
                path, content, task.source, [item.name for item in task.fields]
            )
            parts.append(table.frame(names, label_of[path], task.notations))
        raws.append(pd.concat(parts))
        if not len(raws[-1]):
            raise FwcError(f"{paths[0]}: the table has no rows")
    tables = clean_tables(task, raws)
    return replace(tables, notes=(*tables.notes, *notes))


def _labels(paths: Sequence[Path]) -> dict[Path, str]:
    """Prefixes of row ids: file names, with folders if names repeat."""
    if len({path.name for path in paths}) == len(paths):
        return {path: path.name for path in paths}
    above = Path(os.path.commonpath([path.parent for path in paths]))
    return {path: path.relative_to(above).as_posix() for path in paths}
