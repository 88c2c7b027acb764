"""From raw columns to the clean table: missing values, numbers, protected levels, yes and no."""

import math
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Any, get_args

from fwc_llm.data.keep import strip_zeros, unmet
from fwc_llm.data.lost import RowCount, count_rows, together
from fwc_llm.data.missing import apply_rules
from fwc_llm.data.reading import RawTable, Texts
from fwc_llm.data.seen import Seen
from fwc_llm.data.writing import as_plain
from fwc_llm.errors import FwcError
from fwc_llm.taskfile import UNKNOWN, FileColumn, Outcome, Protected, TaskFile, Written

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.data.whole import Whole

_MANY_LEVELS = 20
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
    whole: "Whole | None" = None


def build_tables(task: TaskFile, raws: Sequence[RawTable], seen: Seen | None = None) -> Tables:
    """Clean the raw tables of `task` (one, or pool and test) into frames as `Task.pool` describes them.

    With `seen` the one raw table is a part of the whole, whose counts are added there: what is to be checked
    of all rows is left to `check_whole`.

    Raises `FwcError` for anything in the data that contradicts the task file, naming value, row and remedy.
    """
    import pandas as pd

    ids = [identifier for raw in raws for identifier in raw.ids]
    raw = {name: [cell for part in raws for cell in part.columns[name]] for name in raws[0].columns}
    _check_ids(task, raw, ids)
    used = [item for item in task.fields if _is_used(task, item)]
    for item in used:
        if item.strip_suffix:
            raw[item.name] = [
                cell and cell.removesuffix(item.strip_suffix).rstrip() for cell in raw[item.name]
            ]
        if item.strip_zeros:
            raw[item.name] = [cell and strip_zeros(cell) for cell in raw[item.name]]
        if item.written:
            raw[item.name] = [cell and as_plain(cell, item.written) for cell in raw[item.name]]
        if item.bands:
            raw[item.name] = _banded(task, item, raw[item.name], ids)
    keep, said, lost = _rows_kept(task, used, raw, ids, seen)
    notes, rows = (*_kept(task, raws, keep), *said), count_rows(task.protected, raw, keep, lost)
    if seen is not None:
        seen.rows.append(rows)
    elif not any(keep):
        why = ", ".join(f"{reason} ({len(places):,})" for reason, places in lost.items())
        raise FwcError(f"{task.path}: no row is left of {len(ids):,}: {why}")
    ids = list(compress(ids, keep))
    cells = {item.name: list(compress(raw[item.name], keep)) for item in used}

    values: dict[str, object] = {}
    derived = {attribute.source: attribute for attribute in task.protected}
    for item in used:
        name = item.name
        if name == task.outcome.source:
            values[name] = _outcome(task, item, cells[name], ids, seen)
            continue
        if name in derived:
            values[derived[name].name] = _levels(task, derived[name], item, cells[name], ids, seen)
            if not derived[name].keep:
                continue
        values[name] = numbers(task, item, cells[name], ids) if item.kind == "numeric" else cells[name]
        if seen is not None and item.kind == "numeric":
            is_whole = getattr(values[name], "dtype", None) == "int64"
            seen.whole[name] = seen.whole.get(name, True) and is_whole
        if item.kind == "ordinal":
            _check_order(task, item, cells[name], ids)
    index = pd.Index(ids, dtype="str")
    frame = pd.DataFrame(
        {
            column.name: pd.Series(
                values[column.name], index=index, dtype=None if column.kind == "numeric" else "str"
            )
            for column in task.columns
        },
        index=index,
    )
    if len(raws) == 1:
        return Tables(frame, frame, notes, rows)
    n_pool = sum(keep[: len(raws[0].ids)])
    if n_pool in (0, len(frame)):
        raise FwcError(
            f"{task.path}: {task.source.files[n_pool > 0]}: no row is left after the missing-value rule"
        )
    return Tables(frame.iloc[:n_pool], frame.iloc[n_pool:], notes, rows)


def _rows_kept(
    task: TaskFile, used: Sequence[FileColumn], raw: dict[str, Texts], ids: Sequence[str], seen: Seen | None
) -> tuple[list[bool], list[str], dict[str, list[int]]]:
    """Which rows are the table, notes, and the rows lost for each reason, by position.

    Fills missing values in `raw`. A row outside the conditions may lack what it likes.
    """
    outside = unmet(task, raw, ids)
    meets = [True] * len(ids)
    for places in outside.values():
        for place in places:
            meets[place] = False
    notes = [f"{len(places):,} rows left out, {reason}" for reason, places in outside.items()]
    within = [place for place, met in enumerate(meets) if met]
    if not within:
        return meets, notes, outside
    part = {item.name: [raw[item.name][place] for place in within] for item in used}
    keep, said, lost = apply_rules(task, used, part, [ids[place] for place in within], seen)
    for name, cells in part.items():
        whole = list(raw[name])
        for place, cell in zip(within, cells, strict=True):
            whole[place] = cell
        raw[name] = whole
    for place, stays in zip(within, keep, strict=True):
        meets[place] = stays
    return meets, [*notes, said], outside | {why: [within[k] for k in at] for why, at in lost.items()}


def _is_used(task: TaskFile, item: FileColumn) -> bool:
    return item.use == "column" or item.name in {attribute.source for attribute in task.protected}


def _check_ids(task: TaskFile, raw: dict[str, Texts], ids: Sequence[str]) -> None:
    for item in task.fields:
        if item.use != "id":
            continue
        seen: dict[str | None, str] = {}
        for cell, place in zip(raw[item.name], ids, strict=True):
            if cell in seen:
                raise FwcError(
                    f"{place}: id {cell!r} in column {item.name!r} is already used at {seen[cell]}; "
                    "ids must be unique: remove the repeated row or give the column another role"
                )
            seen[cell] = place


def _kept(task: TaskFile, raws: Sequence[RawTable], keep: Sequence[bool]) -> list[str]:
    """One note per file: how many of its rows are kept."""
    notes, start = [], 0
    for name, raw in zip(task.source.files, raws, strict=True):
        kept = sum(keep[start : start + len(raw.ids)])
        notes.append(f"{name.rpartition('/')[2]}: {kept:,} of {len(raw.ids):,} rows kept")
        start += len(raw.ids)
    return notes


def _banded(task: TaskFile, item: FileColumn, cells: Texts, ids: Sequence[str]) -> Texts:
    """Numbers as the names of the bands they lie in."""
    known = [k for k, cell in enumerate(cells) if cell is not None]
    found: Any = numbers(task, item, [cells[k] for k in known], [ids[k] for k in known])
    limits = [f"{limit:,.10g}" for limit in item.bands]
    middle = [f"{low} to {high}" for low, high in pairwise(limits)]
    names = [f"up to {limits[0]}", *middle, f"above {limits[-1]}"]
    banded: Texts = [None] * len(cells)
    for k, number in zip(known, found.tolist(), strict=True):
        banded[k] = names[bisect_left(item.bands, number)]
    return banded


def numbers(task: TaskFile, item: FileColumn, cells: Texts, ids: Sequence[str]) -> object:
    """A numeric column: int64 when every value is whole, else float64. Text and infinities are refused."""
    import numpy as np

    parsed: dict[str | None, float] = {}
    for cell in set(cells):
        number = _number(cell)
        if number is None:
            place = ids[cells.index(cell)]
            hint = next((way for way in get_args(Written) if cell and as_plain(cell, way) != cell), None)
            if hint:
                raise FwcError(
                    f"{place}: {cell!r} in the numeric column {item.name!r}: say how its numbers are "
                    f'written, written = "{hint}", in {task.path}'
                )
            raise FwcError(
                f"{place}: {cell!r} in the numeric column {item.name!r} is no finite number; repair "
                f'it, list it as a missing_marker, or make the column kind = "categorical" in {task.path}'
            )
        parsed[cell] = number
    column = np.fromiter(map(parsed.__getitem__, cells), dtype=np.float64, count=len(cells))
    whole = bool(np.all(column == np.floor(column)) and np.all(np.abs(column) < 2**53))
    return column.astype(np.int64) if whole else column


def _number(cell: str | None) -> float | None:
    """The number that a cell writes, or None. Python's own 1_000 and "infinity" are not accepted."""
    try:
        number = float(cell) if cell is not None and "_" not in cell else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _check_order(task: TaskFile, item: FileColumn, cells: Texts, ids: Sequence[str]) -> None:
    for cell in set(cells):
        if cell not in task.column(item).order:
            raise FwcError(
                f"{ids[cells.index(cell)]}: {cell!r} is not in the order of the ordinal column {item.name!r} "
                f"({', '.join(task.column(item).order)}); add it in {task.path}"
            )


def _levels(
    task: TaskFile,
    attribute: Protected,
    item: FileColumn,
    cells: Texts,
    ids: Sequence[str],
    seen: Seen | None,
) -> list[str]:
    """The protected attribute's level of every row."""
    if attribute.above is not None:
        low, high = attribute.sides
        column = numbers(task, item, cells, ids)
        levels = [high if number > attribute.above else low for number in column.tolist()]  # type: ignore[attr-defined]
    elif attribute.mapping:
        levels = _mapped(task, attribute, cells, ids)
    else:
        levels = [str(cell) for cell in cells]
    if seen is None:
        _check_levels(task, attribute, Counter(levels))
    else:
        seen.levels.setdefault(attribute.name, Counter()).update(levels)
    return levels


def _check_levels(task: TaskFile, attribute: Protected, counts: Counter[str]) -> None:
    """Refuse a single level, and many."""
    distinct = sorted(counts)
    where = f"{task.path}: protected attribute {attribute.name!r}"
    if len(distinct) == 1:
        raise FwcError(
            f"{where} has the one level {distinct[0]!r} in all {counts.total():,} rows: nothing to compare"
        )
    if len(distinct) > _MANY_LEVELS:
        raise FwcError(
            f"{where} has {len(distinct)} levels ({', '.join(distinct[:5])}, …); group them with a map "
            "or split a number with threshold = { above = NUMBER }"
        )
    for level in distinct:  # every table prints the level; no cell may control a terminal
        if any(unicodedata.category(character) == "Cc" for character in level):
            raise FwcError(f"{where} has the level {level!r}, which holds control characters: give it a map")


def _mapped(task: TaskFile, attribute: Protected, cells: Texts, ids: Sequence[str]) -> list[str]:
    for cell in set(cells):
        if cell not in attribute.mapping and cell != UNKNOWN:
            raise FwcError(
                f"{ids[cells.index(cell)]}: the map of protected attribute {attribute.name!r} has no "
                f"entry for {cell!r} in column {attribute.source!r}; add it in {task.path}"
            )
    return [attribute.mapping.get(str(cell), UNKNOWN) for cell in cells]


def _outcome(
    task: TaskFile, item: FileColumn, cells: Texts, ids: Sequence[str], seen: Seen | None
) -> list[str]:
    """ "yes" or "no" for every row."""
    rule = task.outcome
    where = f"{task.path}: outcome {rule.source!r}"
    if rule.above is not None:
        column = numbers(task, item, cells, ids)
        answers = ["yes" if number > rule.above else "no" for number in column.tolist()]  # type: ignore[attr-defined]
    else:
        counts = Counter(str(cell) for cell in cells)
        if seen is None:
            positive = _positive_values(where, rule, counts)
        else:
            seen.outcomes.update(counts)
            positive = frozenset(rule.positive or (cell for cell in counts if cell.casefold() in _PLAIN_YES))
        answers = ["yes" if cell in positive else "no" for cell in cells]
    if seen is None:
        _check_answers(where, Counter(answers))
    else:
        seen.answers.update(answers)
    return answers


def _check_answers(where: str, counts: Counter[str]) -> None:
    """Refuse an outcome that is the same in all rows."""
    if len(counts) == 1:
        raise FwcError(
            f"{where} is {next(iter(counts))!r} in all {counts.total():,} rows: nothing to predict"
        )


def check_whole(task: TaskFile, seen: Seen) -> RowCount:
    """What `build_tables` checks of all rows, for a table cleaned part by part; how many are kept."""
    rows = together(seen.rows)
    if not rows.kept:
        why = ", ".join(f"{reason} ({count:,})" for reason, count in rows.reasons.items())
        raise FwcError(f"{task.path}: no row is left of {rows.read:,}: {why}")
    where = f"{task.path}: outcome {task.outcome.source!r}"
    if task.outcome.above is None:
        _positive_values(where, task.outcome, seen.outcomes)
    _check_answers(where, seen.answers)
    for attribute in task.protected:
        _check_levels(task, attribute, seen.levels[attribute.name])
    return rows


def _positive_values(where: str, rule: Outcome, counts: Counter[str]) -> frozenset[str]:
    """Which raw values mean yes. Refuses values whose meaning the task file leaves open."""
    found = ", ".join(f"{value!r} ({count:,})" for value, count in counts.most_common(8))
    if not rule.positive:
        plain = {value.casefold(): value for value in counts}
        pair = frozenset(plain)
        if len(counts) == 2 and pair in _PLAIN_PAIRS:
            return frozenset({plain[_PLAIN_PAIRS[pair]]})
        raise FwcError(
            f'{where} has {len(counts)} values, {found}, and no positive ones are named: positive = ["…"]'
        )
    for value in rule.positive:
        if value not in counts:
            raise FwcError(f"{where}: the positive value {value!r} does not occur; the column has {found}")
    positive = frozenset(rule.positive)
    if rule.negative:
        for value in counts:
            if value not in positive and value not in rule.negative:
                raise FwcError(
                    f"{where}: the value {value!r} is named neither positive nor negative; it has {found}"
                )
        return positive
    # ">50K." beside ">50K" would quietly count as no: spellings of one value must agree.
    spellings: dict[str, str] = {}
    for value in sorted(counts):
        known = spellings.setdefault(value.casefold().strip(" .,;:'\""), value)
        if known != value and (known in positive) != (value in positive):
            raise FwcError(
                f"{where} has both {known!r} and {value!r}, of which only one is named positive; set "
                "strip_suffix on the column, or list positive and negative values in full"
            )
        if known != value and known not in positive:
            raise FwcError(
                f"{where} has both {known!r} and {value!r}; set strip_suffix on the column, or list the "
                "negative values in full"
            )
    return positive
