"""Cleans raw texts: filters rows, parses numbers, derives levels and outcomes."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm import cell_rules
from fwc_llm.errors import FwcError
from fwc_llm.meaning import ABOVE, Meaning, MeaningRule, about_empty, read_meaning
from fwc_llm.number_format import percent
from fwc_llm.sanitize import Counts, Json, Texts, listed
from fwc_llm.taskfile import FRAME, UNKNOWN, Column, FileColumn, MissingRule, TaskFile
from fwc_llm.words import CROSSING, GROUPS_REMEDY, fault_of_groups, groups_of, is_known

_LEAST_DIFFERENCE = (
    0.02  # least difference between groups' shares of lost rows that gives a warning
)
_SIGNIFICANT = 0.05
_OPEN = 0.5  # a column is free text if a larger share of rows has a text that occurs only once


@dataclass(frozen=True)
class RowCount:
    """Numbers of rows read and kept, by group.

    Rows whose group is unknown count as the group "unknown". `counts` has a row per group, and the
    columns `read` (rows of the files), `kept`, and one for each reason for lost rows; a row lost
    for several reasons counts under each. `outcome` is a sentence with the values that mean yes and
    no, and their numbers of rows.
    """

    counts: pd.DataFrame
    outcome: str = ""

    @property
    def read(self) -> int:
        """Number of rows in the files."""
        return int(self.counts["read"].sum())

    @property
    def kept(self) -> int:
        """Number of rows in the cleaned table."""
        return int(self.counts["kept"].sum())

    @property
    def reasons(self) -> dict[str, int]:
        """Numbers of lost rows by reason, most frequent first."""
        return dict(Counter(_lost(self.counts.sum())).most_common())

    @property
    def warning(self) -> str | None:
        """A warning if groups' shares of lost rows differ, else None."""
        counts = self.counts[
            (self.counts["kept"] > 0) | ~self.counts.index.str.contains(UNKNOWN)
        ]
        lost = counts["read"] - counts["kept"]
        share = lost / counts["read"]
        if not _differ(lost, counts["read"]):
            return None
        return (
            f"groups lose rows unequally: {share.idxmax()} {percent(share.max())}, "
            f"{share.idxmin()} {percent(share.min())}; the results do not speak of who is left out"
        )

    def as_json(self) -> Json:
        """The counts as in run.json, results.json and reports."""

        def rows(read: int, kept: int) -> dict[str, int]:
            return {"read": int(read), "kept": int(kept), "lost": int(read - kept)}

        groups = [
            {
                "group": str(group),
                **rows(counts["read"], counts["kept"]),
                "reasons": _lost(counts),
            }
            for group, counts in self.counts.iterrows()
        ]
        content = {"reasons": self.reasons, "groups": groups, "warning": self.warning}
        return rows(self.read, self.kept) | content | {"outcome": self.outcome}


def _differ(lost: pd.Series, read: pd.Series) -> bool:
    """Whether shares of lost rows differ (chi-squared test)."""
    from scipy.special import chdtrc  # scipy.stats takes a second to import

    share = lost / read
    if len(share) < 2 or share.max() - share.min() < _LEAST_DIFFERENCE:
        return False
    overall = lost.sum() / read.sum()
    statistic = (read * (share - overall) ** 2).sum() / (overall * (1 - overall))
    return bool(chdtrc(len(share) - 1, statistic) < _SIGNIFICANT)


def missing_by_answer(missing: pd.Series, answers: pd.Series) -> str:
    """How often cells (n,) are missing for each answer (n,), 1 or 0; "" if equally often."""
    of_answers = missing.groupby(answers.to_numpy())
    if not _differ(of_answers.sum(), of_answers.size()):
        return ""
    no, yes = map(percent, of_answers.mean())
    return f"missing for {no} of the rows with a no, and {yes} of those with a yes"


def _lost(counts: pd.Series) -> dict[str, int]:
    """Numbers of lost rows by reason."""
    return {
        str(reason): int(n) for reason, n in counts.drop(["read", "kept"]).items() if n
    }


@dataclass(frozen=True)
class CleanTables:
    """The cleaned frames; one object for a table of one file."""

    pool: pd.DataFrame
    test: pd.DataFrame
    meaning: Meaning  # of `outcomes`
    notes: Texts
    rows: RowCount | None = None  # None if no row can be lost


def clean_tables(
    task: TaskFile, raws: Sequence[pd.DataFrame], meaning: Meaning | None = None
) -> CleanTables:
    """Clean the text frames of `task` (one, or pool and test), as in `Task.pool`.

    `meaning` is that of the outcome's values; by default the values in `raws` decide.
    """
    raw = pd.concat(raws)
    _check_ids(task, raw)
    used = task.used
    written = raw.copy(deep=False)
    for item in used:
        raw[item.name] = edited(task, item, raw[item.name])
    lost = _conditions(task, raw)
    kept = ~_any(lost, raw)
    _check_numbers(task, used, written[kept])
    outcome = task.outcome.source
    raw.loc[kept, outcome] = outcomes(task, raw.loc[kept, outcome])
    stay = complete(
        [item for item in used if item.name != outcome], task.missing, raw[kept]
    )
    meaning = meaning or outcome_meaning(task, raw.loc[kept, outcome], stay)
    neither = raw[outcome].isin([*meaning.dropped, *meaning.unknown])
    lost[f"{outcome} neither yes nor no"] = neither
    raw[outcome] = raw[outcome].where(raw[outcome].isin(meaning.texts))
    filled = _fill_missing(task, raw, used, lost)
    keep = ~_any(lost, raw)
    levels, notes = _levels(task, raw, keep)
    groups = crossed(levels.fillna(UNKNOWN), [*map(str, levels)])
    counts = pd.DataFrame({"read": True, "kept": keep} | lost, raw.index)
    rows = RowCount(counts.groupby(groups).sum().astype(int))
    if not rows.kept:
        why = ", ".join(
            f"{reason} ({count:,})" for reason, count in rows.reasons.items()
        )
        raise FwcError(f"{task.path}: all {rows.read:,} rows were left out: {why}")
    table = _typed(task, raw[keep], levels[keep], meaning)
    _check_whole(task, table, meaning)
    described = meaning.sentence(outcome, counted(raw.loc[keep, outcome]))
    file_of_row = np.repeat(np.arange(len(raws)), [*map(len, raws)])
    frames = [table[file_of_row[keep] == number] for number in range(len(raws))]
    for name, before, frame in zip(task.source.files, raws, frames, strict=False):
        if not len(frame):
            raise FwcError(
                f"{task.path}: {name}: no row is left after the missing-value rule"
            )
        notes.append(
            f"{name.rpartition('/')[2]}: {len(frame):,} of {len(before):,} rows kept"
        )
    for reason, n in rows.reasons.items():
        notes.append(f"{n:,} row{'s' * (n > 1)} left out, {reason}")
    if filled:
        notes.append(
            f"missing values made the category {UNKNOWN!r} ({_listed(filled)})"
        )
    rows = replace(rows, outcome=described)
    return CleanTables(frames[0], frames[-1], meaning, tuple(notes), rows)


def _check_ids(task: TaskFile, raw: pd.DataFrame) -> None:
    """Raise `FwcError` for an id that two rows have."""
    for name in (item.name for item in task.fields if item.use == "id"):
        repeated = raw[name][raw[name].duplicated()]
        if len(repeated):
            cell = repeated.iloc[0]
            raise FwcError(
                f"{repeated.index[0]}: id {cell!r} in column {name!r} is already used at "
                f"{_row(raw[name], cell)}; "
                "ids must be unique: remove the repeated row or give the column another role"
            )


def needed(task: TaskFile) -> list[str]:
    """The columns to read: all except those of the role "drop" that have no other use."""
    used = {item.name for item in task.used} | {rule.column for rule in task.keep}
    return [item.name for item in task.fields if item.use == "id" or item.name in used]


def edited(task: TaskFile, item: FileColumn, cells: pd.Series) -> pd.Series:
    """A column's texts (n,) with its rules applied; NaN for missing values."""
    if item.name in task.filled:
        cells = cells.fillna("")
    known = cells.mask(cells.isin(item.markers))
    return applied(known, partial(cell_rules.edited, item))


def _check_numbers(
    task: TaskFile, used: Sequence[FileColumn], raw: pd.DataFrame
) -> None:
    """Raise `FwcError` for a column of numbers with other texts or several units."""
    for item in filter(partial(_is_number, task), used):
        cells = raw[item.name].mask(raw[item.name].isin(item.markers))
        fault = cell_rules.fault_of_numbers(task, item, [*counted(cells)])
        if fault:
            raise FwcError(f"{_row(cells, fault[0])}: {fault[1]}")


def _is_number(task: TaskFile, item: FileColumn) -> bool:
    """Whether a column's cells must be numbers: also to split them by a threshold or bands."""
    numeric = [column.name for column in task.columns if column.kind == "numeric"]
    return bool(task.split_of(item)) or item.name in numeric


def counted(cells: pd.Series, within: pd.Series | None = None) -> dict[str, int]:
    """The number of rows of each text, most frequent first; of the rows `within` (n,), if any."""
    counts = cells.value_counts()
    if within is not None:
        counts = cells[within].value_counts().reindex(counts.index, fill_value=0)
    return {str(cell): int(n) for cell, n in counts.items()}


def complete(
    fields: Iterable[FileColumn], usual: MissingRule, cells: pd.DataFrame
) -> pd.Series:
    """A mask (n,) of the rows that no missing value leaves out; `usual` is the task's rule."""
    needed = [item.name for item in fields if (item.missing or usual) == "drop"]
    return cells[needed].notna().all(axis=1)


def _any(lost: Mapping[str, pd.Series], raw: pd.DataFrame) -> pd.Series:
    """A mask (n,) of the rows that are lost for any reason."""
    return pd.DataFrame(lost, raw.index).any(axis=1)


def _conditions(task: TaskFile, raw: pd.DataFrame) -> dict[str, pd.Series]:
    """Masks (n,) of rows that do not meet a condition of the task, by reason."""
    lost = {}
    for condition in task.keep:
        cells = raw[condition.column]
        met = applied(cells, partial(cell_rules.meets, task, condition), object)
        met = met.where(cells.notna(), cell_rules.meets(task, condition, None))
        lost[f"not {condition}"] = ~met.astype(bool)
    return lost


def outcomes(task: TaskFile, cells: pd.Series) -> pd.Series:
    """The outcome's values (n,): its edited texts, or the sides of a threshold that they are on."""
    above = task.outcome.above
    if above is None:
        return cells
    sides = task.outcome.sides
    name = task.outcome.source
    return applied(
        cells, lambda text: sides[cell_rules.parse_number(name, text) > above]
    )


def outcome_meaning(task: TaskFile, cells: pd.Series, stay: pd.Series) -> Meaning:
    """What the outcome's values (of `outcomes`) mean; `FwcError` for one without a meaning, with
    the numbers of rows that `stay` (n,).
    """
    rule = task.outcome
    if rule.above is not None:
        no, yes = rule.sides
        return Meaning((yes,), (no,))
    counts = counted(cells.fillna(""), stay)
    in_file = task.path != FRAME
    above = ABOVE if in_file else "--above NUMBER"
    values = rule.positive, rule.negative, rule.others, rule.refer
    described = MeaningRule(*values, in_file, above)
    where = f"{task.path}: outcome {rule.source!r}"
    meaning = read_meaning(counts, where, described)
    if rule.refer and not meaning.refer:
        absent = listed(rule.refer, len(rule.refer), repr)
        raise FwcError(f"{where}: no row has {absent}, to refer: leave refer out")
    empty = about_empty(counts, described)
    if empty:
        raise FwcError(f"{where} has no other value than {meaning.texts[0]!r}; {empty}")
    return meaning


def _fill_missing(
    task: TaskFile,
    raw: pd.DataFrame,
    used: Sequence[FileColumn],
    lost: dict[str, pd.Series],
) -> dict[str, int]:
    """Apply the rules for missing values: add to `lost`, or make categories in `raw`; count."""
    within = ~_any(lost, raw)
    missing = {item.name: raw[item.name].isna() & within for item in used}
    counts = {name: int(mask.sum()) for name, mask in missing.items() if mask.any()}
    filled = {}
    for item in used:
        if item.name not in counts:
            continue
        mask = missing[item.name]
        if (item.missing or task.missing) == "drop":
            lost[f"no value in {item.name}"] = mask
        elif cell_rules.can_be_unknown(task, item):
            filled[item.name] = counts[item.name]
            raw[item.name] = raw[item.name].mask(mask, UNKNOWN)
        else:
            rules = _remedies(task, item, raw.loc[within, item.name])
            remedy = (
                f"give this column {rules} in {task.place} (missing at the top is the rule of all "
                f"columns without one), or repair the table"
            )
            if task.path == FRAME:
                remedy = "fill the empty cells, or leave their rows out"
            raise FwcError(
                f"{mask.idxmax()}: no value in column {item.name!r} ({_listed(counts)} "
                f"missing): {remedy}"
            )
    return filled


def _remedies(task: TaskFile, item: FileColumn, cells: pd.Series) -> str:
    """The remedies for missing cells (n,), with the number of rows that stay."""
    stay = f"{cells.count():,} of {len(cells):,} rows stay"
    ways = [f'missing = "drop" ({stay})']
    is_category = 'missing = "category"'
    bands = [*quartiles(numbers(cells.dropna()))] if item.kind == "numeric" else []
    if bands:
        is_category = f'kind = "categorical" with bands = {bands} and {is_category}'
    if item.name != task.outcome.source and (bands or item.kind == "categorical"):
        ways.append(is_category)
    return " or ".join(ways)


def _levels(
    task: TaskFile, raw: pd.DataFrame, keep: pd.Series
) -> tuple[pd.DataFrame, list[str]]:
    """Levels (n,) by protected attribute, NaN if unknown, and notes; by `groups_of`."""
    levels = pd.DataFrame(index=raw.index)
    notes = []
    for attribute in task.protected:
        cells = raw[attribute.source]
        found = applied(cells, partial(cell_rules.find_level, attribute))
        applied(
            cells[keep & found.isna()], partial(cell_rules.parse_level, task, attribute)
        )
        found[keep & found.isna()] = UNKNOWN
        groups, told = groups_of(attribute.name, counted(found))
        levels[attribute.name] = found.map(groups)
        notes += told
    return levels, notes


def crossed(frame: Any, protected: Sequence[str]) -> np.ndarray:
    """Protected levels (n,) as str; levels of several attributes are joined by " & "."""
    columns = [frame[name].to_numpy(dtype=str) for name in protected]
    return reduce(lambda levels, names: levels + CROSSING + names, columns)


def _typed(
    task: TaskFile, rows: pd.DataFrame, levels: pd.DataFrame, meaning: Meaning
) -> pd.DataFrame:
    """The table of kept rows, with typed cells."""
    values = {name: levels[name] for name in levels}
    for column in task.columns:
        name = column.name
        if name == task.outcome.source:
            words = {
                text: meaning.answers[code] for text, code in meaning.codes.items()
            }
            values[name] = rows[name].map(words)
        elif column.kind == "numeric":
            values[name] = numbers(rows[name])
        elif name not in levels:
            values[name] = applied(
                rows[name], partial(cell_rules.parse_value, task, column)
            )
    return pd.DataFrame({column.name: values[column.name] for column in task.columns})


def _check_whole(task: TaskFile, table: pd.DataFrame, meaning: Meaning) -> None:
    """Raise `FwcError` for one answer alone, or for levels that cannot be compared."""
    if "…" in task.question:
        raise FwcError(
            f"{task.path}: the question still has …: write what is asked, such as "
            'question="Will this person repay?"'
        )
    where = f"{task.path}: outcome {task.outcome.source!r}"
    outcome = table[task.outcome.source]
    answers = outcome.unique()
    if len(answers) == 1:
        raise FwcError(
            f"{where} is {answers[0]!r} in all {len(table):,} rows: nothing to predict"
        )
    for word in meaning.answers[:2]:
        if word not in answers:
            raise FwcError(
                f"{where} is {word!r} in no row: beside rows to refer, there must be some of "
                f"yes and some of no"
            )
    remedy = GROUPS_REMEDY
    if task.path != FRAME:
        split = "threshold = { above = NUMBER } splits numbers"
        remedy = f"{remedy}; in the task file, a map merges values, and {split}"
    for attribute in task.protected:
        where = f"{task.path}: protected attribute {attribute.name!r}"
        levels = [*filter(is_known, table[attribute.name].unique())]
        if len(levels) < 2:
            only = ", ".join(map(repr, levels)) or "none"
            raise FwcError(
                f"{where} has fewer than two known groups in {len(table):,} rows ({only}): "
                f"nothing to compare"
            )
        fault = fault_of_groups(levels)
        if fault:
            raise FwcError(f"{where} has {fault}: {remedy}")


def quartiles(numbers: pd.Series) -> tuple[float, ...]:
    """The distinct quartiles of the numbers, without the maximum."""
    limits = numbers.quantile([0.25, 0.5, 0.75], interpolation="higher")
    limits = limits[limits < numbers.max()].drop_duplicates()
    rounded = limits.map("{:.3g}".format).astype(float)
    return tuple(rounded if rounded.is_unique else limits)


def _listed(counts: Counts) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def numbers(cells: pd.Series) -> pd.Series:
    """Parse a numeric column: int64 if every value is whole, else float64."""
    column = applied(cells, partial(cell_rules.parse_number, str(cells.name)), float)
    integral = bool((column == column.round()).all() and (column.abs() < 2**53).all())
    if integral:
        return column.astype("int64")
    return column


def applied(
    cells: pd.Series, rule: Callable[[str], Any], dtype: Any = "str"
) -> pd.Series:
    """Apply `rule` to a column's distinct texts; errors name the text's first row."""
    code, different = pd.factorize(cells)
    values = []
    for cell in different:
        try:
            values.append(rule(cell))
        except FwcError as error:
            raise FwcError(f"{_row(cells, cell)}: {error}") from None
    mapped: Any = pd.Series([*values, None], dtype=dtype).take(code)
    return pd.Series(mapped.array, cells.index, name=cells.name)


def _row(cells: pd.Series, cell: str) -> str:
    """The id of the first row with the text `cell`."""
    return str(cells.index[int((cells == cell).to_numpy().argmax())])


def fingerprint(columns: Sequence[Column], table: pd.DataFrame) -> str:
    """SHA-256 (hex) of row ids, columns and values of a clean table."""
    digest = hashlib.sha256("\x1f".join(table.index.tolist()).encode())
    for column in columns:
        digest.update(f"\x1d{column.name}\x1f{column.kind}\x1e".encode())
        cells = table[column.name]
        if column.kind == "numeric":
            digest.update(cells.to_numpy(dtype="<f8").tobytes())
        else:
            digest.update("\x1f".join(cells.tolist()).encode())
    return digest.hexdigest()


def domain_of(column: Column, cells: pd.Series) -> cell_rules.Domain:
    """The domain of a clean column."""
    counts = cells.value_counts()
    if column.kind == "numeric":
        words = {cell_rules.as_number(text) for text in column.values}
        is_named = bool(words) and words.issuperset(counts.index)
        values = frozenset(map(float, counts.index)) if is_named else None
        return cell_rules.Domain(least=cells.min(), most=cells.max(), values=values)
    is_open = (counts == 1).sum() > _OPEN * counts.sum()
    return cell_rules.Domain(values=None if is_open else frozenset(counts.index))
