"""The default task of every command."""

from pathlib import Path
from typing import TYPE_CHECKING

from fwc_llm.errors import FwcError

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

TASK_HELP = (
    "A built-in task (`fwc-llm tasks`) or a task file (.toml). [default: adult, or the simulated census "
    "where adult's data is not on this machine]"
)
PROTECTED_HELP = (
    "Which of the task's attributes are protected, comma-separated: those are crossed (`fwc-llm tasks` lists "
    "what a task offers). [default: the task's own choice]"
)


def open_task(
    name: str | None,
    data_dir: Path | None,
    protected: str | None = None,
    weight: str | None = None,
    data: str | None = None,
) -> "Task":
    """The task called `name`, else the default of every command; says when the census stands in.

    `weight` is the column that says for how many a row stands, "none" for none; None: as the task says.
    `data` are files that take the place of those of the task.
    """
    from fwc_llm.cli.console import err
    from fwc_llm.tasks import default_task, load_task

    column = "" if weight == "none" else weight
    if name is not None:
        return load_task(name, data_dir, protected=protected, weight=column, data=data)
    if data is not None:
        raise FwcError("--data names the rows of a task: name the task too, with --task")
    task = default_task(data_dir)
    if protected is not None or column is not None:
        task = load_task(task.name, data_dir, protected=protected, weight=column)
    if task.simulated:
        err.print(
            "adult's data is not on this machine: the simulated census stands in (--task adult downloads it)",
            soft_wrap=True,
        )
    return task
