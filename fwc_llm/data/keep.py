"""Which rows of the files are the table: the conditions of the task file."""

from collections.abc import Mapping, Sequence

from fwc_llm.data.reading import Texts
from fwc_llm.errors import FwcError
from fwc_llm.taskfile import Condition, TaskFile


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
    field = next((item for item in task.fields if item.name == condition.column), None)
    if field is not None and field.strip_zeros:  # a code is the same with and without its zeros
        listed, without = map(_stripped, (condition.values, condition.without))
        condition = condition.model_copy(update={"values": listed, "without": without})
        cells = [cell and strip_zeros(cell) for cell in cells]
    met = {cell: _is_met(task, condition, cell, cells, ids) for cell in dict.fromkeys(cells)}
    return [place for place, cell in enumerate(cells) if not met[cell]]


def strip_zeros(cell: str) -> str:
    """A code without the zeros before it: 07 is 7, and 00 is 0."""
    return cell.lstrip("0") or "0"


def _stripped(cells: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(strip_zeros, cells))


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
