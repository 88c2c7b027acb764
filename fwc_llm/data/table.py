"""From raw texts to the clean table: which rows are kept, numbers, protected levels, yes and no."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_args

from fwc_llm.data.reading import as_number, as_plain
from fwc_llm.errors import FwcError
from fwc_llm.taskfile import UNKNOWN, Condition, FileColumn, Outcome, Protected, TaskFile, Written
from fwc_llm.untrusted import visible

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fwc_llm.data.disk_table import DiskTable

FEW_MISSING = 0.03  # a draft drops rows with missing values where they are at most this share of all rows
_LEAST_DIFFERENCE = 0.02  # of the groups' shares of lost rows: below it nobody is warned
_SIGNIFICANT = 0.05


@dataclass(frozen=True)
class GroupRows:
    """The rows of one group: how many the files hold, how many are kept, and why the others are not.

    A row that lacks several values counts under each of its `reasons`.
    """

    group: str
    read: int
    kept: int
    reasons: Mapping[str, int]

    @property
    def share(self) -> float:
        """The share of lost rows."""
        return 1 - self.kept / self.read


@dataclass(frozen=True)
class RowCount:
    """The rows of a table by group; rows without a known group stand under "unknown".

    `outcome` says which values of the outcome mean yes and no, with their rows.
    """

    groups: tuple[GroupRows, ...]
    outcome: str = ""

    @property
    def read(self) -> int:
        """Rows of the files."""
        return sum(group.read for group in self.groups)

    @property
    def kept(self) -> int:
        """Rows of the table."""
        return sum(group.kept for group in self.groups)

    @property
    def reasons(self) -> dict[str, int]:
        """Lost rows by reason, the most frequent first."""
        reasons: Counter[str] = Counter()
        for group in self.groups:
            reasons.update(group.reasons)
        return dict(reasons.most_common())

    @property
    def warning(self) -> str | None:
        """What to know where groups lose unequally: more than chance, and more than a few rows."""
        groups = [group for group in self.groups if group.kept or UNKNOWN not in group.group]
        if len(groups) < 2:
            return None
        most = max(groups, key=lambda group: group.share)
        least = min(groups, key=lambda group: group.share)
        if most.share - least.share < _LEAST_DIFFERENCE or _p_value(groups) >= _SIGNIFICANT:
            return None
        return (
            f"groups lose rows unequally: {most.group} {most.share:.1%}, {least.group} {least.share:.1%}; "
            "who is left out is not left out at random, and the results do not speak of them"
        )

    def as_json(self) -> dict[str, Any]:
        """The counts as run.json, results.json and reports hold them."""
        groups = [
            {
                "group": g.group,
                "read": g.read,
                "kept": g.kept,
                "lost": g.read - g.kept,
                "reasons": dict(g.reasons),
            }
            for g in self.groups
        ]
        counts = {"read": self.read, "kept": self.kept, "lost": self.read - self.kept}
        said = {"outcome": self.outcome} if self.outcome else {}
        return {**counts, "reasons": self.reasons, "groups": groups, "warning": self.warning, **said}


@dataclass
class Seen:
    """Counts over the parts of a table that is cleaned part by part, for the checks that need all rows.

    `outcomes` are the cells of the outcome column, `answers` what they mean; `levels` the protected levels by
    attribute; `whole` says of every numeric column whether all of its numbers are whole; `filled` counts the
    missing values by column that became a category.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    levels: dict[str, Counter[str]] = field(default_factory=dict)
    whole: dict[str, bool] = field(default_factory=dict)
    filled: Counter[str] = field(default_factory=Counter)
    rows: list[RowCount] = field(default_factory=list)


def filter_rows(
    task: TaskFile, raw: "pd.DataFrame", used: Sequence[FileColumn], filled: Counter[str]
) -> "tuple[np.ndarray, list[str], dict[str, np.ndarray]]":
    """Which rows (n,) are the table, notes, and the rows (n,) that each reason takes out.

    A row outside the conditions may lack what it likes. Missing values that become a category are filled in
    `raw` and counted by column in `filled`. Raises `FwcError` for a value that may not be missing, and where
    a limit meets a text.
    """
    import numpy as np

    lost = {}
    for condition in task.keep:
        outside = ~_meets(task, condition, raw[condition.column])
        if outside.any():
            lost[f"not {condition}"] = outside
    if task.outcome.others == "drop":
        cells = raw[task.outcome.source]
        neither = (cells.notna() & ~cells.isin([*task.outcome.positive, *task.outcome.negative])).to_numpy()
        if neither.any():
            lost[f"{task.outcome.source} neither yes nor no"] = neither
    notes = [f"{mask.sum():,} rows left out, {reason}" for reason, mask in lost.items()]
    within = keep = ~np.logical_or.reduce([np.zeros(len(raw), dtype=bool), *lost.values()])
    if not within.any():
        return keep, notes, lost
    missing = {item.name: raw[item.name].isna().to_numpy() & within for item in used}
    lacking = [item for item in used if missing[item.name].any()]
    counts = {item.name: int(missing[item.name].sum()) for item in lacking}
    made, dropped = {}, {}
    for item in lacking:
        rule, mask = item.missing or task.missing, missing[item.name]
        if rule == "drop":
            dropped[item.name] = counts[item.name]
            lost[f"no value in {item.name}"] = mask
            keep = keep & ~mask
        else:
            _check_fillable(task, item, rule, raw.index[mask.argmax()], counts)
            made[item.name] = counts[item.name]
            raw[item.name] = raw[item.name].mask(mask, UNKNOWN)
    filled.update(made)
    said = [filled_note(made)] if made else []
    if dropped:
        n = int((within & ~keep).sum())
        said.append(f"{n:,} row{'s' * (n > 1)} with a missing value dropped ({_listed(dropped)})")
    return keep, [*notes, "; ".join(said) or "no value is missing"], lost


def filled_note(counts: Mapping[str, int]) -> str:
    """Says of which columns missing values made a category."""
    return f"missing values made the category {UNKNOWN!r} ({_listed(counts)})"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _check_fillable(task: TaskFile, item: FileColumn, rule: str, row: str, counts: Mapping[str, int]) -> None:
    """Refuse a missing value that the rule does not allow, or that cannot be a category."""
    if rule == "error":
        raise FwcError(
            f"{row}: no value in column {item.name!r} (missing values: {_listed(counts)}); set missing = "
            f'"drop" or "category" in {task.path}, or repair the table'
        )
    if item.kind != "categorical" or item.name == task.outcome.source:
        what = "the outcome" if item.name == task.outcome.source else f"a column of kind {item.kind}"
        raise FwcError(
            f"{row}: no value in {item.name!r}, and {what} cannot have a category for missing values; "
            f'set missing = "drop" in {task.path}, for the table or for this column'
        )


def strip_zeros(cell: str) -> str:
    """A code without the zeros before it: 07 is 7, and 00 is 0."""
    return cell.lstrip("0") or "0"


def _meets(task: TaskFile, condition: Condition, cells: "pd.Series") -> "np.ndarray":
    """Which rows (n,) meet a condition."""
    import numpy as np

    zeros = any(item.strip_zeros for item in task.fields if item.name == condition.column)
    code = strip_zeros if zeros else str  # a code is the same with and without its zeros
    values, without = set(map(code, condition.values)), set(map(code, condition.without))
    coded = cells.map(code, na_action="ignore")
    met = (coded.isin(values) | (not values)).to_numpy() & ~coded.isin(without).to_numpy()
    if not condition.limits:
        return met
    numbers = {cell: as_number(cell) for cell in cells.dropna().unique()}
    for cell, number in numbers.items():
        if number is None:
            raise FwcError(
                f"{cells.index[(cells == cell).argmax()]}: {cell!r} in column {condition.column!r} is no "
                f"number, and [[keep]] compares it with one; correct {task.path} or the table"
            )
    column = cells.map(numbers).astype(float).to_numpy()
    compare = {"above": np.greater, "at_least": np.greater_equal, "below": np.less, "at_most": np.less_equal}
    for name, limit in condition.limits.items():
        met &= compare[name](column, limit)  # false where the value is missing
    return met


def count_rows(
    protected: Sequence[Protected],
    raw: "pd.DataFrame",
    keep: "np.ndarray",
    reasons: "Mapping[str, np.ndarray]",
) -> RowCount:
    """Count rows by group; `keep` (n,) are those of the table, `reasons` those (n,) that each takes out."""
    import pandas as pd

    levels = pd.DataFrame(
        {
            a.name: raw[a.source].map({cell: _level(a, cell) for cell in raw[a.source].dropna().unique()})
            for a in protected
        }
    )
    groups = crossed(levels.astype("str").fillna(UNKNOWN), [a.name for a in protected])
    counts = pd.DataFrame({"": keep} | dict(reasons)).groupby(groups, sort=True).sum()
    read = Counter(groups.tolist())
    return RowCount(
        tuple(
            GroupRows(str(group), read[str(group)], int(row[""]), {r: int(row[r]) for r in reasons if row[r]})
            for group, row in counts.iterrows()
        )
    )


def together(parts: Sequence[RowCount]) -> RowCount:
    """The counts of several parts of a table as those of the whole."""
    groups: dict[str, tuple[Counter[str], Counter[str]]] = {}
    for part in parts:
        for rows in part.groups:
            counts, reasons = groups.setdefault(rows.group, (Counter(), Counter()))
            counts.update(read=rows.read, kept=rows.kept)
            reasons.update(rows.reasons)
    return RowCount(
        tuple(
            GroupRows(group, counts["read"], counts["kept"], dict(reasons))
            for group, (counts, reasons) in sorted(groups.items())
        )
    )


def _level(attribute: Protected, cell: str) -> str:
    """The protected level of a row that may be lost: what cannot be told is unknown."""
    if attribute.above is not None:
        number = as_number(cell)
        return UNKNOWN if number is None else attribute.sides[number > attribute.above]
    return attribute.mapping.get(cell, UNKNOWN) if attribute.mapping else cell


def _p_value(groups: Sequence[GroupRows]) -> float:
    """Pearson's chi-squared test that all groups lose the same share."""
    from scipy.stats import chi2_contingency

    counts = [[g.kept for g in groups], [g.read - g.kept for g in groups]]
    return float(chi2_contingency(counts, correction=False).pvalue) if all(map(sum, counts)) else 1.0


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
