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
from fwc_llm.data.clean_table import clean_tables, numbers, outcome_meaning
from fwc_llm.data.raw_table import RawTable, frame_table
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
        rule = self.rules.outcome
        cells = column(frame, rule.source)
        yes = cells == "yes"
        is_clean = bool((yes | (cells == "no")).all())
        if is_clean and ("yes" in rule.negative or "no" in rule.positive):
            is_clean = self._has_row_ids(frame)
        if is_clean:
            return yes.to_numpy(dtype=bool)
        texts = self._edited(frame, rule.source)
        _refuse(texts.isna(), texts, "has no value")
        if rule.above is not None:
            return (numbers(self.rules, texts) > rule.above).to_numpy()
        answers = texts.map(self._meaning(texts).of)
        _refuse(answers.isna(), texts, "means neither yes nor no")
        return answers.to_numpy(dtype=bool)

    def groups(self, frame: Any, name: str) -> pd.Series:
        """The levels (n,) of the protected attribute `name`; `FwcError` for an unknown level."""
        own_levels = self.levels[name]
        by_name = {attribute.name: attribute for attribute in self.rules.protected}
        attribute = by_name.get(name) or Protected(column=name, name=name)
        renamed = any(attribute.mapping.get(level, level) != level for level in own_levels)
        if name in frame_titles(frame):
            cells = column(frame, name)
            if cells.isin(own_levels).all() and (not renamed or self._has_row_ids(frame)):
                return cells
        texts = self._edited(frame, attribute.source)
        if cell_rules.can_be_unknown(self.rules, self._field(attribute.source)):
            texts = texts.fillna(UNKNOWN)
        _refuse(texts.isna(), texts, "has no value")
        parse = partial(cell_rules.parse_level, self.rules, attribute)
        domain = cell_rules.Domain(values=frozenset(own_levels))
        levels = texts.map(lambda text: cell_rules.known_spelling(parse(text), domain))
        _refuse(~levels.isin(own_levels), texts, "is in no row of the task's table")
        return levels

    def cleaned(self, frame: Any) -> tuple[pd.DataFrame, np.ndarray]:
        """The frame with cells as in the table, and a mask (n,) of the rows that it keeps."""
        if isinstance(frame, pd.DataFrame) and self._is_clean(frame):
            self._refuse_unknown(frame)
            return frame, np.ones(len(frame), dtype=bool)
        table = frame_table(frame)
        names = [item.name for item in self.rules.fields if item.use != "drop"]
        sources = [attribute.source for attribute in self.rules.protected]
        conditions = [condition.column for condition in self.rules.keep]
        raw = _texts(table, list(dict.fromkeys([*names, *sources, *conditions])), self.rules)
        meaning = None
        if self.rules.outcome.above is None:
            texts = self._edited(frame, self.rules.outcome.source)
            meaning = self._meaning(texts)
            meant = (*meaning.yes, *meaning.no, *meaning.dropped)
            _refuse(texts.notna() & ~texts.isin(meant), texts, "means neither yes nor no")
        pool = clean_tables(self.rules, [raw], meaning).pool
        self._refuse_unknown(pool)
        levels = {name: self.groups(pool, name) for name in self.levels}
        return pool.assign(**levels), raw.index.isin(pool.index)

    def _refuse_unknown(self, pool: pd.DataFrame) -> None:
        """Raise `FwcError` for a clean cell that no row of the table is like."""
        for name, domain in self.domains.items():
            cells = pool[name]
            if domain.values is not None:
                _refuse(~cells.isin(domain.values), cells, "is in no row of the task's table")
            elif domain.least is not None:
                _refuse((cells < 0) & (domain.least >= 0), cells, "is negative")

    def _is_clean(self, frame: pd.DataFrame) -> bool:
        """Whether all cells are as in the table."""
        outcome = self.rules.outcome.source
        if not {item.name for item in self.rules.columns} <= set(frame.columns):
            return False
        if not frame[outcome].isin(("yes", "no")).all():
            return False
        if not all(frame[name].isin(levels).all() for name, levels in self.levels.items()):
            return False
        if self._has_row_ids(frame) or self.rules.outcome.above is not None:
            return True
        meaning = self._meaning(frame[outcome])
        return any(meaning.of(value) is None for value in frame[outcome].unique())

    def _has_row_ids(self, frame: Any) -> bool:
        if not isinstance(frame, pd.DataFrame):
            return False
        return -1 not in self.rows.get_indexer_for(frame.index)

    def _meaning(self, texts: pd.Series) -> Meaning:
        return self.meaning or outcome_meaning(self.rules, texts)

    def _field(self, name: str) -> FileColumn:
        return next(item for item in self.rules.fields if item.name == name)

    def _edited(self, frame: Any, name: str) -> pd.Series:
        """The texts of a raw column after the column's rules; NaN for missing values."""
        item = self._field(name)
        texts = _texts(frame_table(frame), [name], self.rules)[name]
        texts = texts.mask(texts.isin(item.markers))
        return texts.map(partial(cell_rules.edited, self.rules, item), na_action="ignore")


def column(frame: Any, name: str) -> pd.Series:
    """A column as it is in a frame of pandas, and as texts in one of another library."""
    if not isinstance(frame, pd.DataFrame):
        return frame_table(frame).frame([name], _ROW)[name]
    if name not in frame.columns:
        nearest = did_you_mean(name, map(str, frame.columns))
        raise FwcError(f"the frame has no column {name!r}{nearest}")
    return frame[name]


def frame_titles(frame: Any) -> Sequence[str]:
    """The names of a frame's columns."""
    if isinstance(frame, pd.DataFrame):
        return [str(name) for name in frame.columns]
    return frame_table(frame).titles


def _texts(table: RawTable, names: Sequence[str], rules: TaskFile) -> pd.DataFrame:
    """Columns as texts, without the values that mark a missing one."""
    marked = replace(table, markers=frozenset(rules.source.markers))
    return marked.frame(names, _ROW, rules.notations)


def _refuse(wrong: pd.Series, texts: pd.Series, reason: str) -> None:
    """Raise `FwcError` for the first wrong cell."""
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        (cell,) = texts.iloc[row : row + 1].tolist()
        cell = "the cell" if pd.isna(cell) else repr(cell)
        raise FwcError(f"{texts.index[row]}, column {texts.name!r}: {cell} {reason}")
