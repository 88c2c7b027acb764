"""Missing values: rows dropped, a category made, or the table refused, as the task file says."""

from collections.abc import Mapping, Sequence

from fwc_llm.data.reading import Texts
from fwc_llm.data.seen import Seen
from fwc_llm.errors import FwcError
from fwc_llm.taskfile import UNKNOWN, FileColumn, TaskFile


def apply_rules(
    task: TaskFile,
    used: Sequence[FileColumn],
    raw: dict[str, Texts],
    ids: Sequence[str],
    seen: Seen | None = None,
) -> tuple[list[bool], str, dict[str, list[int]]]:
    """Apply the missing-value rules: which rows to keep, a note, and the rows lost for each reason.

    May fill `raw` in place, and counts in `seen` what it fills.
    """
    places = {item.name: [k for k, cell in enumerate(raw[item.name]) if cell is None] for item in used}
    lacking = [item for item in used if places[item.name]]
    keep = [True] * len(ids)
    if not lacking:
        return keep, "no value is missing", {}
    dropped: list[str] = []
    filled: list[str] = []
    for item in lacking:
        rule = item.missing or task.missing
        if rule == "drop":
            dropped.append(item.name)
            for place in places[item.name]:
                keep[place] = False
            continue
        _check_fillable(task, item, rule, ids[places[item.name][0]], _counted(lacking, places))
        filled.append(item.name)
        raw[item.name] = [UNKNOWN if cell is None else cell for cell in raw[item.name]]
    said = []
    if filled:
        counts = {name: len(places[name]) for name in filled}
        said.append(filled_note(counts))
        if seen is not None:
            seen.filled.update(counts)
    if dropped:
        lost = len(ids) - sum(keep)
        which = _counted([item for item in lacking if item.name in dropped], places)
        said.append(f"{lost:,} row{'s' * (lost > 1)} with a missing value dropped ({which})")
    return keep, "; ".join(said), {f"no value in {name}": places[name] for name in dropped}


def filled_note(counts: Mapping[str, int]) -> str:
    """Says of which columns missing values made a category."""
    which = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    return f"missing values made the category {UNKNOWN!r} ({which})"


def _counted(items: Sequence[FileColumn], places: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{item.name} {len(places[item.name]):,}" for item in items)


def _check_fillable(task: TaskFile, item: FileColumn, rule: str, place: str, said: str) -> None:
    """Refuse a missing value that the rule does not allow, or that cannot be a category."""
    if rule == "error":
        raise FwcError(
            f'{place}: no value in column {item.name!r} (missing values: {said}); set missing = "drop" or '
            f'"category" in {task.path}, or repair the table'
        )
    if item.kind != "categorical" or item.name == task.outcome.source:
        what = "the outcome" if item.name == task.outcome.source else f"a column of kind {item.kind}"
        raise FwcError(
            f"{place}: no value in {item.name!r}, and {what} cannot have a category for missing values; "
            f'set missing = "drop" in {task.path}, for the table or for this column'
        )
