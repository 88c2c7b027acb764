"""Cleans raw texts: filters rows, parses numbers, derives levels and outcomes."""

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from fwc_llm import cell_rules
from fwc_llm.errors import FwcError
from fwc_llm.meaning import Meaning, MeaningRule, read_meaning
from fwc_llm.sanitize import listed, replace_invisible
from fwc_llm.taskfile import UNKNOWN, Column, FileColumn, OutcomeColumn, TaskFile
from fwc_llm.words import merge_spellings, spellings_note

FRAME = Path("the data frame")  # in the place of the path of a task file
_LEAST_DIFFERENCE = (
    0.02  # least difference between groups' shares of lost rows that gives a warning
)
_SIGNIFICANT = 0.05
_OPEN = 0.5  # a column is free text if a larger share of rows has a text that occurs only once
_MANY_LEVELS = 20
_MOST_VALUES = 8  # values of the outcome that a message lists


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
        """A warning if groups' shares of lost rows differ (chi-squared test), else None."""
        from scipy.special import chdtrc  # scipy.stats takes a second to import

        counts = self.counts[(self.counts["kept"] > 0) | ~self.counts.index.str.contains(UNKNOWN)]
        lost = counts["read"] - counts["kept"]
        share = lost / counts["read"]
        if len(counts) < 2 or share.max() - share.min() < _LEAST_DIFFERENCE:
            return None
        overall = lost.sum() / counts["read"].sum()
        statistic = (counts["read"] * (share - overall) ** 2).sum() / (overall * (1 - overall))
        if chdtrc(len(counts) - 1, statistic) >= _SIGNIFICANT:
            return None
        return (
            f"groups lose rows unequally: {share.idxmax()} {share.max():.1%}, {share.idxmin()} "
            f"{share.min():.1%}; the results do not speak of who is left out"
        )

    def as_json(self) -> dict[str, Any]:
        """The counts as in run.json, results.json and reports."""

        def rows(read: int, kept: int) -> dict[str, int]:
            return {"read": int(read), "kept": int(kept), "lost": int(read - kept)}

        groups = [
            {"group": str(group), **rows(counts["read"], counts["kept"]), "reasons": _lost(counts)}
            for group, counts in self.counts.iterrows()
        ]
        content = {"reasons": self.reasons, "groups": groups, "warning": self.warning}
        return (
            rows(self.read, self.kept)
            | content
            | ({"outcome": self.outcome} if self.outcome else {})
        )


def _lost(counts: pd.Series) -> dict[str, int]:
    """Numbers of lost rows by reason."""
    return {str(reason): int(n) for reason, n in counts.drop(["read", "kept"]).items() if n}


@dataclass
class CleanedCounts:
    """Counts accumulated over a task's tables, for checks that need all rows."""

    outcomes: Counter[str] = field(default_factory=Counter)  # values of the outcome column
    answers: Counter[str] = field(default_factory=Counter)  # what these values mean: yes or no
    levels: dict[str, Counter[str]] = field(default_factory=dict)  # by protected attribute
    integral: dict[str, bool] = field(default_factory=dict)  # by column: all numbers are whole
    filled: Counter[str] = field(
        default_factory=Counter
    )  # by column: missing values made a category
    rows: list[pd.DataFrame] = field(default_factory=list)  # of each file, as in `RowCount.counts`

    def dtypes(self, columns: Sequence[Column]) -> dict[str, str]:
        """The dtype of every column by name; whole numbers are int64."""
        number = {True: "int64", False: "float64"}
        kinds = {
            c.name: c.kind == "numeric" and number[self.integral.get(c.name, True)] for c in columns
        }
        return {name: kind or "str" for name, kind in kinds.items()}


@dataclass(frozen=True)
class CleanTables:
    """The cleaned frames; one object for a table of one file."""

    pool: pd.DataFrame
    test: pd.DataFrame
    notes: tuple[str, ...]
    rows: RowCount | None = None  # None if no row can be lost
    meaning: Meaning | None = None  # of the outcome's values; None of numbers and simulated rows


def clean_tables(
    task: TaskFile, raws: Sequence[pd.DataFrame], meaning: Meaning | None = None
) -> CleanTables:
    """Clean the text frames of `task` (one, or pool and test), as in `Task.pool`.

    `meaning` is that of the outcome's values; by default the values in `raws` decide.
    """
    for name in (item.name for item in task.fields if item.use == "id"):
        cells = pd.concat([raw[name] for raw in raws])
        if len(repeated := cells[cells.duplicated()]):
            row = repeated.index[0]
            cell = repeated.iloc[0]
            raise FwcError(
                f"{row}: id {cell!r} in column {name!r} is already used at {_row(cells, cell)}; "
                "ids must be unique: remove the repeated row or give the column another role"
            )
    edited = [_edited(task, raw) for raw in raws]
    met = [_conditions(task, raw) for raw in edited]
    if task.outcome.above is None and meaning is None:
        kept = [
            raw[~np.logical_or.reduce([*lost.values()])]
            for raw, lost in zip(edited, met, strict=True)
        ]
        meaning = outcome_meaning(task, pd.concat([raw[task.outcome.source] for raw in kept]))
    counts = CleanedCounts()
    frames = [
        _clean(task, raw, lost, meaning, counts) for raw, lost in zip(edited, met, strict=True)
    ]
    notes = []
    for attribute in task.protected:
        frames, note = _merge_spellings(attribute.name, frames, counts)
        notes += note
    rows = check_whole(task, counts, meaning)
    for name, raw, frame in zip(task.source.files, raws, frames, strict=False):
        if not len(frame):
            raise FwcError(f"{task.path}: {name}: no row is left after the missing-value rule")
        notes.append(f"{name.rpartition('/')[2]}: {len(frame):,} of {len(raw):,} rows kept")
    frames = [frame.astype(counts.dtypes(task.columns)) for frame in frames]
    return CleanTables(frames[0], frames[-1], (*notes, *loss_notes(rows, counts)), rows, meaning)


def _used(task: TaskFile) -> list[FileColumn]:
    """The columns that the cleaned table has, and those that protected attributes are derived
    from.
    """
    sources = {attribute.source for attribute in task.protected}
    return [item for item in task.fields if item.use == "column" or item.name in sources]


def _edited(task: TaskFile, raw: pd.DataFrame) -> pd.DataFrame:
    """A table with the columns' rules for texts applied."""
    raw = raw.copy()
    for item in _used(task):
        cells = raw[item.name]
        if item.markers:
            cells = cells.mask(cells.isin(item.markers))
        if item.strip_suffix or item.strip_zeros or item.factors or item.written or item.bands:
            cells = _mapped(cells, partial(cell_rules.edited, task, item))
        raw[item.name] = cells
    return raw


def _conditions(task: TaskFile, raw: pd.DataFrame) -> dict[str, np.ndarray]:
    """Masks (n,) of rows that do not meet a condition of the task, by reason."""
    lost = {"": np.zeros(len(raw), dtype=np.bool_)}
    for condition in task.keep:
        cells = raw[condition.column]
        met = _mapped(cells, partial(cell_rules.meets, task, condition), object)
        met = met.where(cells.notna(), cell_rules.meets(task, condition, None))
        lost[f"not {condition}"] = ~met.to_numpy(dtype=bool)
    return lost


def outcome_meaning(task: TaskFile, cells: pd.Series) -> Meaning:
    """What the values of the outcome mean; `FwcError` for one without a meaning."""
    rule = task.outcome
    counts = Counter(cells.dropna().tolist())
    options: Literal["python", "task file"] = "python" if task.path == FRAME else "task file"
    described = MeaningRule(rule.positive, rule.negative, rule.others, options)
    try:
        return read_meaning(
            dict(counts.most_common()), f"{task.path}: outcome {rule.source!r}", described
        )
    except FwcError as error:
        above = ""
        if len(counts) > 2 and not rule.positive:
            written = "above=NUMBER" if options == "python" else "threshold = { above = NUMBER }"
            above = f"; or for numbers {written}"
        raise FwcError(f"{error}{above}") from None


def _clean(
    task: TaskFile,
    raw: pd.DataFrame,
    lost: dict[str, np.ndarray],
    meaning: Meaning | None,
    counts: CleanedCounts,
) -> pd.DataFrame:
    """Clean edited texts, and add to `counts` for `check_whole`."""
    derived = {attribute.source: attribute for attribute in task.protected}
    used = _used(task)
    outcome = task.outcome.source
    if meaning is not None:
        dropped = raw[outcome].isin(meaning.dropped).to_numpy()
        lost = lost | {f"{outcome} neither yes nor no": dropped}
        texts = [*meaning.yes, *meaning.no, *meaning.dropped]
        raw[outcome] = raw[outcome].where(raw[outcome].isin(texts))
    keep, lost = filter_rows(task, raw, used, lost, counts.filled)
    levels = {
        attribute.name: _mapped(raw[attribute.source], partial(cell_rules.find_level, attribute))
        for attribute in task.protected
    }
    groups = crossed(pd.DataFrame(levels).fillna(UNKNOWN), list(levels))
    counts.rows.append(pd.DataFrame({"read": True, "kept": keep} | lost).groupby(groups).sum())
    rows = raw[keep]
    values = {}
    for item in used if keep.any() else ():
        cells = rows[item.name]
        attribute = derived.get(item.name)
        if item.name == outcome:
            values[item.name] = _outcome(task, cells, meaning, counts)
            continue
        if attribute is not None:
            values[attribute.name] = _mapped(
                cells, partial(cell_rules.parse_level, task, attribute)
            )
            counts.levels.setdefault(attribute.name, Counter()).update(
                values[attribute.name].tolist()
            )
            if not attribute.keep:
                continue
        if item.kind == "numeric":
            cells = numbers(task, cells)
            counts.integral[item.name] = (
                counts.integral.get(item.name, True) and cells.dtype == "int64"
            )
        elif item.kind == "ordinal":
            cells = _mapped(cells, partial(cell_rules.parse_value, task, item))
        values[item.name] = cells
    return pd.DataFrame({c.name: values.get(c.name, ()) for c in task.columns}, index=rows.index)


def _merge_spellings(
    name: str, frames: Sequence[pd.DataFrame], counts: CleanedCounts
) -> tuple[list[pd.DataFrame], list[str]]:
    """Make one level of spellings that differ in case, white space or Unicode form; return a
    note.
    """
    spelled = merge_spellings(counts.levels.get(name, {}))
    if not spelled:
        return list(frames), []
    counts.levels[name] = Counter()
    merged = []
    for frame in frames:
        levels = frame[name].replace(spelled)
        counts.levels[name].update(levels.tolist())
        merged.append(frame.assign(**{name: levels}))
    return merged, [spellings_note(name, spelled)]


def crossed(frame: pd.DataFrame | Mapping[str, pd.Series], protected: Sequence[str]) -> np.ndarray:
    """Protected levels (n,) as str; levels of several attributes are joined by " & "."""
    levels = frame[protected[0]]
    for name in protected[1:]:
        levels = levels + " & " + frame[name]
    return levels.to_numpy(dtype=str)


def filter_rows(
    task: TaskFile,
    raw: pd.DataFrame,
    used: Sequence[FileColumn],
    lost: dict[str, np.ndarray],
    filled: Counter[str],
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Masks (n,) of kept rows, and of lost rows by reason; makes categories in `raw`."""
    within = keep = ~np.logical_or.reduce([*lost.values()])
    missing = {item.name: raw[item.name].isna().to_numpy() & within for item in used}
    counts = {name: int(mask.sum()) for name, mask in missing.items() if mask.any()}
    for item in used:
        if item.name not in counts:
            continue
        rule = item.missing or task.missing
        mask = missing[item.name]
        if rule == "drop":
            lost[f"no value in {item.name}"] = mask
            keep = keep & ~mask
        elif not cell_rules.can_be_unknown(task, item):
            complete = within & ~np.logical_or.reduce(
                [missing[one.name] for one in used if not one.missing]
            )
            stay = f"{int(complete.sum()):,} of {int(within.sum()):,} rows stay"
            several = len(counts) > 1 and not item.missing
            top = f', or all columns missing = "drop" at the top ({stay})' if several else ""
            raise FwcError(
                f"{raw.index[mask.argmax()]}: no value in column {item.name!r} ({_listed(counts)} "
                f"missing): "
                f"{_remedies(task, item, mask, int(within.sum()))}{top} in {task.path}, or repair "
                f"the table"
            )
        else:
            filled[item.name] += counts[item.name]
            raw[item.name] = raw[item.name].mask(mask, UNKNOWN)
    return keep, {reason: mask for reason, mask in lost.items() if mask.any()}


def _remedies(task: TaskFile, item: FileColumn, missing: np.ndarray, rows: int) -> str:
    """The remedies for `missing` values (n,), with the numbers of rows that stay."""
    ways = [f'missing = "drop" ({rows - int(missing.sum()):,} of {rows:,} rows stay)']
    if item.kind == "categorical" and item.name != task.outcome.source:
        ways.append('missing = "category"')
    elif item.kind == "numeric" and item.name != task.outcome.source:
        ways.append('kind = "categorical" with bands = […] and missing = "category"')
    return f"give this column {' or '.join(ways)}"


def loss_notes(rows: RowCount, counts: CleanedCounts) -> list[str]:
    """Notes on lost rows, and on missing values that became a category."""
    notes = [f"{n:,} row{'s' * (n > 1)} left out, {reason}" for reason, n in rows.reasons.items()]
    if counts.filled:
        notes.append(f"missing values made the category {UNKNOWN!r} ({_listed(counts.filled)})")
    return notes


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def check_whole(task: TaskFile, counts: CleanedCounts, meaning: Meaning | None) -> RowCount:
    """Check answers and levels over all rows; return the row counts."""
    described = _meaning(task.outcome, counts, meaning)
    rows = RowCount(pd.concat(counts.rows).groupby(level=0).sum().astype(int), described)
    if not rows.kept:
        why = ", ".join(f"{reason} ({count:,})" for reason, count in rows.reasons.items())
        raise FwcError(f"{task.path}: all {rows.read:,} rows were left out: {why}")
    if len(counts.answers) == 1:
        answer = next(iter(counts.answers))
        where = f"{task.path}: outcome {task.outcome.source!r}"
        raise FwcError(f"{where} is {answer!r} in all {rows.kept:,} rows: nothing to predict")
    for attribute in task.protected:
        _check_levels(
            f"{task.path}: protected attribute {attribute.name!r}", counts.levels[attribute.name]
        )
    return rows


def _meaning(rule: OutcomeColumn, counts: CleanedCounts, meaning: Meaning | None) -> str:
    """A sentence on the outcome: 'approved: yes = "Ja" (12), no = "Nein" (9)'."""
    sides = []
    for answer in ("yes", "no"):
        if meaning is None:
            side = "above" if answer == "yes" else "at most"
            values = [f"{side} {rule.above:g} ({counts.answers[answer]:,})"]
        else:
            if answer == "yes":
                texts = meaning.yes
            else:
                texts = meaning.no
            found = [
                (value, count) for value, count in counts.outcomes.most_common() if value in texts
            ]
            values = [f'"{replace_invisible(value)}" ({count:,})' for value, count in found]
        sides.append(f"{answer} = {listed(values, _MOST_VALUES)}")
    return f"{replace_invisible(rule.source)}: {', '.join(sides)}"


def numbers(task: TaskFile, cells: pd.Series) -> pd.Series:
    """Parse a numeric column: int64 if every value is whole, else float64."""
    column = _mapped(cells, partial(cell_rules.parse_number, task, str(cells.name)), float)
    integral = bool((column == column.round()).all() and (column.abs() < 2**53).all())
    if integral:
        return column.astype("int64")
    return column


def _mapped(cells: pd.Series, rule: Callable[[str], Any], dtype: Any = "str") -> pd.Series:
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


def _check_levels(where: str, counts: Mapping[str, int]) -> None:
    """Raise `FwcError` for a single level, too many levels, or control characters in a level."""
    levels = sorted(counts)
    if len(levels) == 1:
        n = sum(counts.values())
        raise FwcError(
            f"{where} has only the level {levels[0]!r} in all {n:,} rows: nothing to compare"
        )
    if len(levels) > _MANY_LEVELS:
        raise FwcError(
            f"{where} has {len(levels)} levels ({', '.join(levels[:5])}, …); group them with a map "
            "or split a number with threshold = { above = NUMBER }"
        )
    for level in levels:  # levels are printed to terminals
        if any(unicodedata.category(character) == "Cc" for character in level):
            raise FwcError(
                f"{where} has the level {level!r}, which holds control characters: map it to "
                f"another name"
            )


def _outcome(
    task: TaskFile, cells: pd.Series, meaning: Meaning | None, counts: CleanedCounts
) -> pd.Series:
    """The outcome (n,) of every row: "yes" or "no"."""
    if meaning is None:
        yes = numbers(task, cells) > task.outcome.above
    else:
        counts.outcomes.update(cells.tolist())
        yes = cells.isin(meaning.yes)
    answers = yes.map({True: "yes", False: "no"})
    counts.answers.update(answers.tolist())
    return answers


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
    if column.kind == "numeric" and not column.values:
        return cell_rules.Domain(least=cells.min(), most=cells.max())
    counts = cells.value_counts()
    if column.kind == "numeric":
        words = {cell_rules.as_number(text) for text in column.values}
        if words.issuperset(counts.index):
            values = frozenset(map(float, counts.index))
        else:
            values = None
        return cell_rules.Domain(least=min(counts.index), most=max(counts.index), values=values)
    is_open = (counts == 1).sum() > _OPEN * counts.sum()
    return cell_rules.Domain(values=None if is_open else frozenset(counts.index))
