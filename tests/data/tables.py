"""Small tables and task files for the tests."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fwc_llm.data.task_inference import draft_task
from fwc_llm.tasks import Task, load_task

TOML = """
question = "Is it yes?"
{top}
columns = [{{ name = "x", kind = "numeric" }}, {{ name = "colour" }}, {{ name = "sex" }}, {{ name = "y" }}]
[data]
file = "data.csv"
{data}
[outcome]
column = "y"
{outcome}
[[protected]]
column = "sex"
{protected}
"""
CSV = "x,colour,sex,y\n1,red,f,yes\n2,blue,m,no\n3.5,red,f,no\n4,green,m,yes\n"


def write_task(
    folder: Path,
    csv: str | bytes = CSV,
    *,
    top: str = "",
    data: str = "",
    outcome: str = "",
    protected: str = "",
    toml: str | None = None,
) -> Path:
    """Write data.csv and task.toml into `folder`; returns the task file's path."""
    (folder / "data.csv").write_bytes(csv if isinstance(csv, bytes) else csv.encode())
    if toml is None:
        text = TOML.format(top=top, data=data, outcome=outcome, protected=protected)
    else:
        text = toml
    (folder / "task.toml").write_text(text, encoding="utf-8")
    return folder / "task.toml"


def small_task(folder: Path, csv: str | bytes = CSV, **parts: str) -> Task:
    """The task of `write_task`."""
    return load_task(write_task(folder, csv, **parts))


def cycled(n: int, /, **columns: Sequence[object]) -> pd.DataFrame:
    """A table of n rows whose columns repeat their values in turn."""
    return pd.DataFrame(
        {
            name: np.resize(np.array([*cells], object), n)
            for name, cells in columns.items()
        }
    )


def write_csv(path: Path, frame: pd.DataFrame) -> Path:
    """Write the table without its index; returns the path."""
    frame.to_csv(path, index=False)
    return path


def drafted(table: Path, protected: str = "sex", outcome: str = "y") -> Path:
    """Write the task file that is drafted for a table beside it; returns its path."""
    path = table.with_suffix(".toml")
    text = draft_task(table, [protected], outcome, table.parent)
    path.write_text(text, encoding="utf-8")
    return path
