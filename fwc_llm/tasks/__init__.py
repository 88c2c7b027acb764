"""Tasks: what the columns of a table mean and what is asked about its rows; built in, in files, of frames."""

from fwc_llm.taskfile import Column
from fwc_llm.tasks.load import (
    census_task,
    default_task,
    layout,
    layout_names,
    load_task,
    recorded_task,
    task_names,
    task_text,
)
from fwc_llm.tasks.task import Task

__all__ = [
    "Column",
    "Task",
    "census_task",
    "default_task",
    "layout",
    "layout_names",
    "load_task",
    "recorded_task",
    "task_names",
    "task_text",
]
