"""Read frames that users pass to a task: cleaned cells as they are, raw cells by the task.

A raw frame holds the cells of the task's file, or of the frame that was given to `load_task`. Row
ids tell the two apart where a cell could be of either kind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm import cell_rules
from fwc_llm.data.clean_table import (
    clean_tables,
    edited,
    needed,
    numbers,
    outcome_meaning,
)
from fwc_llm.data.raw_table import frame_table
from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.meaning import Meaning
from fwc_llm.taskfile import UNKNOWN, FileColumn, Protected, TaskFile

_ROW = "row"  # prefix of the row ids of a frame: "row:17"


@dataclass(frozen=True)
class FrameReader:
    """Reads frames as the table of a task was read.

    `rows` are the row ids of the table, `levels` the levels of each protected attribute, `domains`
    the values of each feature. `meaning` is that of the outcome's values; None: the values of a
    frame decide.
    """

    rules: TaskFile
    rows: pd.Index
    levels: Mapping[str, Sequence[str]]
    domains: Mapping[str, cell_rules.Domain]
    meaning: Meaning | None = None

    def outcomes(self, frame: Any) -> np.ndarray:
        """Whether each outcome (n,) is yes; `FwcError` for a cell without a meaning."""
        frame = _pandas(frame)
        rule = self.rules.outcome
        cells = column(frame, rule.source)
        taken = {"yes", "no"} & {*rule.negative, *rule.positive}
        if _are(cells, ("yes", "no")) and (not taken or self._has_row_ids(frame)):
            return (cells == "yes").to_numpy(dtype=bool)
        texts = self._edited(frame, rule.source)
        _refuse(texts.isna(), texts, "has no value")
        if rule.above is not None:
            return (numbers(self.rules, texts) > rule.above).to_numpy()
        answers = texts.map(self._meaning(texts).of)
        _refuse(answers.isna(), texts, "means neither yes nor no")
        return answers.to_numpy(dtype=bool)

    def groups(self, frame: Any, name: str) -> pd.Series:
        """The levels (n,) of the protected attribute `name`; `FwcError` for an unknown level."""
        frame = _pandas(frame)
        known = self.levels[name]
        by_name = {attribute.name: attribute for attribute in self.rules.offered}
        attribute = by_name.get(name) or Protected(column=name, name=name)
        renamed = any(attribute.mapping.get(level, level) != level for level in known)
        is_known = name in frame.columns and _are(frame[name], known)
        if is_known and (not renamed or self._has_row_ids(frame)):
            return column(frame, name)
        texts = self._edited(frame, attribute.source)
        if cell_rules.can_be_unknown(self.rules, self._field(attribute.source)):
            texts = texts.fillna(UNKNOWN)
        _refuse(texts.isna(), texts, "has no value")
        domain = cell_rules.Domain(values=frozenset(known))
        known_level = partial(
            cell_rules.known_level, self.rules, attribute, domain=domain
        )
        levels = texts.astype("category").map(known_level).astype("str")
        _refuse(~levels.isin(known), texts, "is in no row of the task's table")
        return levels

    def cleaned(self, frame: Any) -> tuple[pd.DataFrame, np.ndarray]:
        """The frame with cells as in the table, and a mask (n,) of the rows that it keeps."""
        frame = _pandas(frame)
        if self._is_clean(frame):
            self._refuse_unknown(frame)
            return frame, np.ones(len(frame), dtype=bool)
        raw = self._texts(frame, needed(self.rules))
        meaning = None
        if self.rules.outcome.above is None:
            texts = self._edited(frame, self.rules.outcome.source)
            meaning = self._meaning(texts)
            wrong = texts.notna() & ~texts.isin(meaning.texts)
            _refuse(wrong, texts, "means neither yes nor no")
        pool = clean_tables(self.rules, [raw], meaning).pool
        self._refuse_unknown(pool)
        levels = {name: self.groups(pool, name) for name in self.levels}
        return pool.assign(**levels), raw.index.isin(pool.index)

    def _refuse_unknown(self, pool: pd.DataFrame) -> None:
        """Raise `FwcError` for a clean cell that no row of the table is like."""
        for name, domain in self.domains.items():
            cells = pool[name]
            if domain.values is not None:
                _refuse(
                    ~cells.isin(domain.values),
                    cells,
                    "is in no row of the task's table",
                )
            elif domain.least is not None:
                _refuse((cells < 0) & (domain.least >= 0), cells, "is negative")

    def _is_clean(self, frame: pd.DataFrame) -> bool:
        """Whether all cells are as in the table."""
        names = [column.name for column in self.rules.columns]
        if not {*names} <= {*frame.columns}:
            return False
        answers = frame[self.rules.outcome.source]
        domains = {**self.levels, self.rules.outcome.source: ("yes", "no")}
        if not all(_are(frame[name], values) for name, values in domains.items()):
            return False
        if self._has_row_ids(frame) or self.rules.outcome.above is not None:
            return True
        meaning = self._meaning(answers)
        return any(meaning.of(value) is None for value in answers.unique())

    def _has_row_ids(self, frame: Any) -> bool:
        return -1 not in self.rows.get_indexer_for(frame.index)

    def _meaning(self, texts: pd.Series) -> Meaning:
        return self.meaning or outcome_meaning(self.rules, texts)

    def _field(self, name: str) -> FileColumn:
        return next(item for item in self.rules.fields if item.name == name)

    def _texts(self, frame: Any, names: Sequence[str]) -> pd.DataFrame:
        """Columns as texts, without the values that mark a missing one."""
        table = replace(
            frame_table(frame), markers=frozenset(self.rules.source.markers)
        )
        return table.frame(names, _ROW, self.rules.notations)

    def _edited(self, frame: Any, name: str) -> pd.Series:
        """The texts of a raw column after the column's rules; NaN for missing values."""
        return edited(self._field(name), self._texts(frame, [name])[name])


def column(frame: Any, name: str) -> pd.Series:
    """A column as it is in a frame of pandas, and as texts in one of another library."""
    frame = _pandas(frame)
    if name not in frame.columns:
        nearest = did_you_mean(name, map(str, frame.columns))
        raise FwcError(f"the frame has no column {name!r}{nearest}")
    cells: pd.Series = frame[name]
    return cells


def _pandas(frame: Any) -> pd.DataFrame:
    """A frame of another library as texts; its rows are not those of a task."""
    if isinstance(frame, pd.DataFrame):
        return frame
    table = frame_table(frame)
    return table.frame(table.titles, _ROW).reset_index(drop=True)


def _are(cells: pd.Series, values: Sequence[str]) -> bool:
    """Whether all cells are among these texts; columns of Arrow compare only with their type."""
    return bool(cells.astype(object).isin(values).all())


def _refuse(wrong: pd.Series, texts: pd.Series, reason: str) -> None:
    """Raise `FwcError` for the first wrong cell."""
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        (cell,) = texts.iloc[row : row + 1].tolist()
        cell = "the cell" if pd.isna(cell) else repr(cell)
        raise FwcError(f"{texts.index[row]}, column {texts.name!r}: {cell} {reason}")
