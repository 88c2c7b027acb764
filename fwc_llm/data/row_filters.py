"""Which rows of the files are the table: conditions and missing values; whom that leaves out, by group."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fwc_llm.data.reading import as_number
from fwc_llm.errors import FwcError
from fwc_llm.taskfile import UNKNOWN, Condition, FileColumn, Protected, TaskFile

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

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
    def lost(self) -> int:
        """Rows that are not kept."""
        return self.read - self.kept

    @property
    def share(self) -> float:
        """The share of lost rows."""
        return self.lost / self.read if self.read else 0.0


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
            {"group": g.group, "read": g.read, "kept": g.kept, "lost": g.lost, "reasons": dict(g.reasons)}
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
    met = np.ones(len(cells), dtype=bool)
    known = cells.notna().to_numpy()
    if condition.values:
        met &= cells.isin([cell for cell in cells.dropna().unique() if code(cell) in values]).to_numpy()
    met &= ~cells.isin([cell for cell in cells.dropna().unique() if code(cell) in without]).to_numpy()
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
        met &= known & compare[name](column, limit)
    return met


def count_rows(
    protected: Sequence[Protected],
    raw: "pd.DataFrame",
    keep: "np.ndarray",
    reasons: "Mapping[str, np.ndarray]",
) -> RowCount:
    """Count rows by group; `keep` (n,) are those of the table, `reasons` those (n,) that each takes out."""
    import pandas as pd

    levels = []
    for attribute in protected:
        cells = raw[attribute.source]
        levels.append(cells.map({cell: _level(attribute, cell) for cell in cells.dropna().unique()}))
    groups = levels[0].astype("str").fillna(UNKNOWN)
    for level in levels[1:]:
        groups = groups + " & " + level.astype("str").fillna(UNKNOWN)
    masks = pd.DataFrame({"": keep} | dict(reasons), index=raw.index)
    counts = masks.groupby(groups.to_numpy(), sort=True).sum()
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
    from scipy.special import chdtrc

    read, lost = sum(group.read for group in groups), sum(group.lost for group in groups)
    if lost in (0, read):
        return 1.0
    share = lost / read
    squares = sum((g.lost - share * g.read) ** 2 / (g.read * share * (1 - share)) for g in groups)
    return float(chdtrc(len(groups) - 1, squares))
