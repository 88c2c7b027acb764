"""From raw texts to the clean table: missing values, numbers, protected levels, yes and no."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, get_args

from fwc_llm.data.reading import as_number, as_plain
from fwc_llm.data.row_filters import RowCount, Seen, count_rows, filter_rows, strip_zeros, together
from fwc_llm.errors import FwcError
from fwc_llm.taskfile import UNKNOWN, FileColumn, Outcome, Protected, TaskFile, Written
from fwc_llm.untrusted import visible

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fwc_llm.data.disk_table import DiskTable

_MANY_LEVELS = 20
_MOST_VALUES = 8  # of the outcome, that are listed
# Pairs of outcome values that need no `positive`: their meaning is clear.
_PLAIN_YES = {"yes", "1", "true"}
_PLAIN_PAIRS = {frozenset(pair): pair[0] for pair in (("yes", "no"), ("1", "0"), ("true", "false"))}


@dataclass(frozen=True)
class Tables:
    """`pool` and `test` (the same frame where the table is one file), and what was kept and dropped.

    `rows` counts the rows that were read and kept; None where there was nothing to lose. Of a table that
    stays on disk, the `whole`, the frame is a sample.
    """

    pool: "pd.DataFrame"
    test: "pd.DataFrame"
    notes: tuple[str, ...]
    rows: RowCount | None = None
    whole: "DiskTable | None" = None


def build_tables(task: TaskFile, raws: "Sequence[pd.DataFrame]", seen: Seen | None = None) -> Tables:
    """Clean the frames of texts of `task` (one, or pool and test) into frames as `Task.pool` describes them.

    With `seen` the one frame is a part of the whole, whose counts are added there: what is to be checked
    of all rows is left to `check_whole`.

    Raises `FwcError` for anything in the data that contradicts the task file, naming value, row and remedy.
    """
    import pandas as pd

    counts = seen or Seen()
    raw = pd.concat(raws) if len(raws) > 1 else raws[0].copy()
    derived = {attribute.source: attribute for attribute in task.protected}
    used = [item for item in task.fields if item.use == "column" or item.name in derived]
    _check_ids(task, raw)
    for item in used:
        raw[item.name] = _edited(task, item, raw[item.name])
    keep, said, lost = filter_rows(task, raw, used, counts.filled)
    notes = (*_kept(task, raws, keep), *said)
    counts.rows.append(count_rows(task.protected, raw, keep, lost))
    if seen is None and not keep.any():
        why = ", ".join(f"{reason} ({mask.sum():,})" for reason, mask in lost.items())
        raise FwcError(f"{task.path}: no row is left of {len(raw):,}: {why}")
    clean = raw[keep]
    values: dict[str, pd.Series] = {}
    for item in used:
        cells = clean[item.name]
        if item.name == task.outcome.source:
            values[item.name] = _outcome(task, item, cells, counts)
            continue
        if item.name in derived:
            values[derived[item.name].name] = _levels(task, derived[item.name], item, cells, counts)
            if not derived[item.name].keep:
                continue
        if item.kind == "numeric":
            cells = numbers(task, item, cells)
            counts.whole[item.name] = counts.whole.get(item.name, True) and cells.dtype == "int64"
        if item.kind == "ordinal":
            _check_order(task, item, cells)
        values[item.name] = cells
    frame = pd.DataFrame({column.name: values[column.name] for column in task.columns}, index=clean.index)
    frame = frame.astype({column.name: "str" for column in task.columns if column.kind != "numeric"})
    rows = check_whole(task, counts) if seen is None else counts.rows[-1]
    if len(raws) == 1:
        return Tables(frame, frame, notes, rows)
    n_pool = int(keep[: len(raws[0])].sum())
    if n_pool in (0, len(frame)):
        raise FwcError(
            f"{task.path}: {task.source.files[n_pool > 0]}: no row is left after the missing-value rule"
        )
    return Tables(frame.iloc[:n_pool], frame.iloc[n_pool:], notes, rows)


def crossed(frame: "pd.DataFrame", protected: Sequence[str]) -> "np.ndarray":
    """The protected level (n,) of every row as str; several attributes are crossed with " & "."""
    levels = frame[protected[0]]
    for name in protected[1:]:
        levels = levels + " & " + frame[name]
    return levels.to_numpy(dtype=str)


def check_whole(task: TaskFile, seen: Seen) -> RowCount:
    """Check what only all rows can tell: the outcome's values, answers, levels; return how many are kept."""
    rows = together(seen.rows)
    if not rows.kept:
        why = ", ".join(f"{reason} ({count:,})" for reason, count in rows.reasons.items())
        raise FwcError(f"{task.path}: no row is left of {rows.read:,}: {why}")
    where = f"{task.path}: outcome {task.outcome.source!r}"
    if task.outcome.above is None:
        _check_outcome(where, task.outcome, seen.outcomes)
    if len(seen.answers) == 1:
        answer = next(iter(seen.answers))
        raise FwcError(f"{where} is {answer!r} in all {rows.kept:,} rows: nothing to predict")
    for attribute in task.protected:
        _check_levels(f"{task.path}: protected attribute {attribute.name!r}", seen.levels[attribute.name])
    return replace(rows, outcome=_meaning(task.outcome, seen))


def _meaning(rule: Outcome, seen: Seen) -> str:
    """Say which values of the outcome mean yes and no, as 'approved: yes = "Ja" (12), no = "Nein" (9)'."""
    sides = []
    for answer in ("yes", "no"):
        if rule.above is not None:
            words = f"{'above' if answer == 'yes' else 'at most'} {rule.above:g} ({seen.answers[answer]:,})"
        else:
            counts = [
                item for item in seen.outcomes.most_common() if _means_yes(rule, item[0]) == (answer == "yes")
            ]
            words = ", ".join(f'"{visible(value)}" ({count:,})' for value, count in counts[:_MOST_VALUES])
            words += f" and {len(counts) - _MOST_VALUES} more" if len(counts) > _MOST_VALUES else ""
        sides.append(f"{answer} = {words}")
    return f"{visible(rule.source)}: {', '.join(sides)}"


def _means_yes(rule: Outcome, value: str) -> bool:
    return value in rule.positive if rule.positive else value.casefold() in _PLAIN_YES


def numbers(task: TaskFile, item: FileColumn, cells: "pd.Series") -> "pd.Series":
    """A numeric column: int64 when every value is whole, else float64. Text and infinities are refused."""
    parsed = {cell: as_number(cell) for cell in cells.unique()}
    for cell, number in parsed.items():
        if number is not None:
            continue
        where = f"{_row(cells, cell)}: {cell!r} in the numeric column {item.name!r}"
        for written in get_args(Written):
            if as_plain(cell, written) != cell:
                raise FwcError(
                    f'{where}: say how its numbers are written, written = "{written}", in {task.path}'
                )
        raise FwcError(
            f"{where} is no finite number; repair it, list it as a missing_marker, or make the column "
            f'kind = "categorical" in {task.path}'
        )
    column = cells.map(parsed).astype("float64")
    whole = bool((column == column.round()).all() and (column.abs() < 2**53).all())
    return column.astype("int64") if whole else column


def _each(cells: "pd.Series", change: Callable[[str], str]) -> "pd.Series":
    """The cells with every different text changed; missing ones stay missing."""
    return cells.map({cell: change(cell) for cell in cells.dropna().unique()}).astype("str")


def _row(cells: "pd.Series", cell: str) -> str:
    """The id of the first row that has this cell."""
    return str(cells.index[int((cells == cell).to_numpy().argmax())])


def _edited(task: TaskFile, item: FileColumn, cells: "pd.Series") -> "pd.Series":
    """The cells as the task file has them written: without suffix and zeros, numbers plain or in bands."""
    import pandas as pd

    if item.strip_suffix:
        cells = _each(cells, lambda cell: cell.removesuffix(item.strip_suffix).rstrip())
    if item.strip_zeros:
        cells = _each(cells, strip_zeros)
    if item.written:
        cells = _each(cells, lambda cell: as_plain(cell, item.written))
    if item.bands:
        limits = [f"{limit:,.10g}" for limit in item.bands]
        middle = [f"{low} to {high}" for low, high in pairwise(limits)]
        names = [f"up to {limits[0]}", *middle, f"above {limits[-1]}"]
        known = numbers(task, item, cells.dropna())
        banded = pd.cut(known, [-float("inf"), *item.bands, float("inf")], labels=names)
        cells = banded.astype("str").reindex(cells.index)
    return cells


def _check_ids(task: TaskFile, raw: "pd.DataFrame") -> None:
    for item in task.fields:
        if item.use != "id":
            continue
        cells = raw[item.name]
        if (repeated := cells.duplicated()).any():
            row, cell = cells.index[int(repeated.to_numpy().argmax())], cells[repeated].iloc[0]
            raise FwcError(
                f"{row}: id {cell!r} in column {item.name!r} is already used at {_row(cells, cell)}; "
                "ids must be unique: remove the repeated row or give the column another role"
            )


def _kept(task: TaskFile, raws: "Sequence[pd.DataFrame]", keep: "np.ndarray") -> list[str]:
    """One note per file: how many of its rows are kept."""
    notes, start = [], 0
    for name, raw in zip(task.source.files, raws, strict=True):
        kept = int(keep[start : start + len(raw)].sum())
        notes.append(f"{name.rpartition('/')[2]}: {kept:,} of {len(raw):,} rows kept")
        start += len(raw)
    return notes


def _check_order(task: TaskFile, item: FileColumn, cells: "pd.Series") -> None:
    order = task.column(item).order
    for cell in cells.unique():
        if cell not in order:
            raise FwcError(
                f"{_row(cells, cell)}: {cell!r} is not in the order of the ordinal column {item.name!r} "
                f"({', '.join(order)}); add it in {task.path}"
            )


def _levels(
    task: TaskFile, attribute: Protected, item: FileColumn, cells: "pd.Series", seen: Seen
) -> "pd.Series":
    """The protected attribute's level of every row."""
    if attribute.above is not None:
        low, high = attribute.sides
        cells = (numbers(task, item, cells) > attribute.above).map({True: high, False: low})
    elif attribute.mapping:
        for cell in cells.unique():
            if cell not in attribute.mapping and cell != UNKNOWN:
                raise FwcError(
                    f"{_row(cells, cell)}: the map of protected attribute {attribute.name!r} has no "
                    f"entry for {cell!r} in column {attribute.source!r}; add it in {task.path}"
                )
        cells = _each(cells, lambda cell: attribute.mapping.get(cell, UNKNOWN))
    seen.levels.setdefault(attribute.name, Counter()).update(_counted(cells))
    return cells


def _counted(cells: "pd.Series") -> dict[str, int]:
    """How often each text stands, in the order of its first row."""
    return {str(cell): int(count) for cell, count in cells.value_counts(sort=False).items()}


def _check_levels(where: str, counts: Mapping[str, int]) -> None:
    """Refuse a single level, and many."""
    levels = sorted(counts)
    if len(levels) == 1:
        n = sum(counts.values())
        raise FwcError(f"{where} has the one level {levels[0]!r} in all {n:,} rows: nothing to compare")
    if len(levels) > _MANY_LEVELS:
        raise FwcError(
            f"{where} has {len(levels)} levels ({', '.join(levels[:5])}, …); group them with a map "
            "or split a number with threshold = { above = NUMBER }"
        )
    for level in levels:  # every table prints the level; no cell may control a terminal
        if any(unicodedata.category(character) == "Cc" for character in level):
            raise FwcError(f"{where} has the level {level!r}, which holds control characters: give it a map")


def _outcome(task: TaskFile, item: FileColumn, cells: "pd.Series", seen: Seen) -> "pd.Series":
    """ "yes" or "no" for every row."""
    rule = task.outcome
    if rule.above is not None:
        yes = numbers(task, item, cells) > rule.above
    else:
        counts = _counted(cells)
        seen.outcomes.update(counts)
        yes = cells.isin([value for value in counts if _means_yes(rule, value)])
    answers = yes.map({True: "yes", False: "no"})
    seen.answers.update(_counted(answers))
    return answers


def _check_outcome(where: str, rule: Outcome, counts: Counter[str]) -> None:
    """Refuse values of the outcome whose meaning the task file leaves open."""
    listed = ", ".join(f"{value!r} ({count:,})" for value, count in counts.most_common(8))
    if not rule.positive:
        if len(counts) == 2 and frozenset(value.casefold() for value in counts) in _PLAIN_PAIRS:
            return
        raise FwcError(
            f'{where} has {len(counts)} values, {listed}, and no positive ones are named: positive = ["…"]'
        )
    for value in rule.positive:
        if value not in counts:
            raise FwcError(f"{where}: the positive value {value!r} does not occur; the column has {listed}")
    for value in counts if rule.negative and rule.others != "no" else ():
        if value not in rule.positive and value not in rule.negative:
            raise FwcError(
                f"{where}: the value {value!r} is named neither positive nor negative; it has {listed}: "
                'name it, or write others = "no" or "drop"'
            )
    # ">50K." beside ">50K" would quietly count as no: spellings of one value must agree.
    spellings: dict[str, str] = {}
    for value in sorted(counts) if not rule.negative else ():
        other = spellings.setdefault(value.casefold().strip(" .,;:'\""), value)
        if other != value and not (other in rule.positive and value in rule.positive):
            raise FwcError(
                f"{where} has both {other!r} and {value!r}: set strip_suffix on the column, or list positive "
                "and negative values in full"
            )
    if len(counts) > 2 and not rule.negative and rule.others is None:
        raise FwcError(
            f"{where} has {len(counts)} values, {listed}: besides the positive ones name those that mean no, "
            'negative = ["…"], or write others = "no" or, with negative ones, "drop"'
        )
