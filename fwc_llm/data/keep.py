"""Which rows of the files are the table: the conditions of the task file."""

from collections.abc import Mapping, Sequence

from fwc_llm.data.reading import Texts
from fwc_llm.errors import FwcError
from fwc_llm.taskfile import TaskFile
from fwc_llm.taskfile.values import Condition


def unmet(task: TaskFile, raw: Mapping[str, Texts], ids: Sequence[str]) -> dict[str, list[int]]:
    """The rows, by position, that do not meet each condition of `task`; empty without conditions.

    Raises `FwcError` where a limit meets a text.
    """
    found = {}
    for condition in task.keep:
        places = _unmet(task, condition, raw[condition.column], ids)
        if places:
            found[f"not {condition}"] = places
    return found


def _unmet(task: TaskFile, condition: Condition, cells: Texts, ids: Sequence[str]) -> list[int]:
    met = {cell: _is_met(task, condition, cell, cells, ids) for cell in dict.fromkeys(cells)}
    return [place for place, cell in enumerate(cells) if not met[cell]]


def _is_met(task: TaskFile, condition: Condition, cell: str | None, cells: Texts, ids: Sequence[str]) -> bool:
    if cell is None:
        return not condition.values and not condition.limits
    if (condition.values and cell not in condition.values) or cell in condition.without:
        return False
    if not condition.limits:
        return True
    try:
        number = float(cell)
    except ValueError:
        raise FwcError(
            f"{ids[cells.index(cell)]}: {cell!r} in column {condition.column!r} is no number, and "
            f"[[keep]] compares it with one; correct {task.path} or the table"
        ) from None
    return (
        (condition.above is None or number > condition.above)
        and (condition.at_least is None or number >= condition.at_least)
        and (condition.below is None or number < condition.below)
        and (condition.at_most is None or number <= condition.at_most)
    )
