"""Read frames that users pass to a task: cleaned cells as they are, raw cells by the task.

A raw frame holds the cells of the task's file, or of the frame that was given to `load_task`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm import cell_rules
from fwc_llm.data.clean_table import applied, clean_tables, edited, needed, outcomes
from fwc_llm.data.raw_table import frame_table
from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.meaning import Meaning
from fwc_llm.sanitize import listed
from fwc_llm.taskfile import UNKNOWN, FileColumn, Protected, TaskFile

_MOST_VALUES = 8  # of the outcome, that an error lists
_ROW = "row"  # prefix of the row ids of a frame: "row:17"
_GIVEN = "given"  # prefix of ids of rows that are not the table's: "given:17"
_READ_BY = "fwc_llm"  # attribute of a frame: which reader made its cells clean


@dataclass(frozen=True)
class FrameReader:
    """Reads frames as the table of a task was read.

    `table` is that of the task, by row id, `domains` are the values of each column. `meaning` is
    that of the outcome's values. Rows with ids of the table, and those of `cleaned`, are clean.
    """

    rules: TaskFile
    table: pd.DataFrame
    domains: Mapping[str, cell_rules.Domain]
    features: Sequence[str]
    meaning: Meaning

    def outcomes(self, frame: Any) -> np.ndarray:
        """The code (n,) of each outcome (`Meaning.codes`); `FwcError` for one without a meaning."""
        frame = _pandas(frame)
        cells = column(frame, self._outcome)
        if self._is_clean(frame):
            codes = {word: code for code, word in enumerate(self.meaning.answers)}
            return cells.map(codes).to_numpy(dtype="int8")
        texts, meaning = self._meant(frame)
        _refuse(texts.isna(), texts, "has no value")
        answers = texts.map(meaning.codes)
        _refuse(answers.isna(), texts, self._neither)
        return answers.to_numpy(dtype="int8")

    def _meant(self, frame: pd.DataFrame) -> tuple[pd.Series, Meaning]:
        """The outcome's texts (n,) and their meaning; `FwcError` for one without a meaning."""
        texts = outcomes(self.rules, self._edited(frame, self._outcome))
        meaning = self.meaning.also(texts.dropna().unique())
        wrong = texts.notna() & ~texts.isin(meaning.texts)
        _refuse(wrong, texts, self._neither)
        return texts, meaning

    def groups(self, frame: Any, name: str) -> pd.Series:
        """The levels (n,) of the protected attribute `name`; `FwcError` for an unknown level."""
        frame = _pandas(frame)
        (attribute,) = (item for item in self.rules.protected if item.name == name)
        if self._is_clean(frame) or attribute.source not in frame.columns:
            return self._in_table(column(frame, name), _as_levels(attribute))
        texts = self._edited(frame, attribute.source)
        if cell_rules.can_be_unknown(self.rules, self._field(attribute.source)):
            texts = texts.fillna(UNKNOWN)
        return self._in_table(texts, attribute)

    def cleaned(self, frame: Any) -> tuple[pd.DataFrame, np.ndarray]:
        """The frame with cells as in the table, and a mask (n,) of the rows that it keeps."""
        frame = _pandas(frame)
        if self._is_clean(frame):
            for item in self.rules.columns:
                column(frame, item.name)
            pool = frame
            kept = np.ones(len(frame), dtype=bool)
        else:
            pool, kept = self._clean(frame)
        levels = {
            item.name: self._in_table(pool[item.name], _as_levels(item))
            for item in self.rules.protected
        }
        pool = pool.assign(**levels)
        for name in self.features:
            known = partial(cell_rules.check_value, name, self.domains[name])
            _read(pool[name], known)
        pool.attrs[_READ_BY] = self._name
        return pool, kept

    def _clean(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
        """Raw rows as rows of a table of their own, and a mask (n,) of the rows that are kept."""
        raw = self._texts(frame, needed(self.rules))
        _, meaning = self._meant(frame)
        pool = clean_tables(self.rules, [raw], meaning).pool
        kept = raw.index.isin(pool.index)
        if not self._are_own(pool):
            pool.index = pd.Index([f"{_GIVEN}:{k}" for k in np.flatnonzero(kept)])
        return pool, kept

    def _are_own(self, pool: pd.DataFrame) -> bool:
        """Whether no row has the id of a row of the table with other cells."""
        protected = [attribute.name for attribute in self.rules.protected]
        names = [*self.features, *protected, self._outcome]
        given = pool.loc[pool.index.isin(self.table.index), names]
        own = self.table.loc[given.index, names]
        return bool((given.to_numpy(object) == own.to_numpy(object)).all())

    @cached_property
    def _name(self) -> str:
        """What readers with the same rules and meaning have in common."""
        rules = f"{self.rules.model_dump_json()} {self.meaning}"
        return sha256(rules.encode()).hexdigest()

    def _is_clean(self, frame: pd.DataFrame) -> bool:
        """Whether the cells are as in the table; `FwcError` for rows of another task."""
        if frame.attrs.get(_READ_BY) == self._name:
            return True
        if -1 in self.table.index.get_indexer_for(frame.index):
            return False
        cells = frame.get(self._outcome)
        if cells is None:
            return True
        # Columns of Arrow compare only with their type.
        if not cells.astype(object).isin(self.meaning.answers).all():
            return False
        other = cells != self.table.loc[frame.index, self._outcome]
        _refuse(other, cells, "is not its answer in this task: is it another's row?")
        return True

    def _in_table(self, texts: pd.Series, attribute: Protected) -> pd.Series:
        """Levels (n,) as the table spells them; `FwcError` for one that it lacks."""
        domain = self.domains[attribute.name]
        levels = _read(
            texts, partial(cell_rules.level_in, self.rules, attribute, domain)
        )
        return levels.astype("str").rename(attribute.name)

    @property
    def _outcome(self) -> str:
        return self.rules.outcome.source

    @property
    def _neither(self) -> str:
        """What is wrong with a value of the outcome that has no meaning."""
        values = listed(self.meaning.texts, _MOST_VALUES, repr)
        return (
            f"means neither yes nor no; the task's table has {values} (clean rows, as of "
            f"task.pool(), are known by their index)"
        )

    def _field(self, name: str) -> FileColumn:
        return next(item for item in self.rules.fields if item.name == name)

    def _texts(self, frame: Any, names: Sequence[str]) -> pd.DataFrame:
        """Columns as texts, without the values that mark a missing one."""
        table = replace(
            frame_table(frame), markers=frozenset(self.rules.source.markers)
        )
        texts = table.frame(names, _ROW, self.rules.notations)
        if -1 not in self.table.index.get_indexer_for(frame.index):
            texts.index = frame.index
        return texts

    def _edited(self, frame: Any, name: str) -> pd.Series:
        """The texts of a raw column after the column's rules; NaN for missing values."""
        return edited(self.rules, self._field(name), self._texts(frame, [name])[name])


def _as_levels(attribute: Protected) -> Protected:
    """The attribute of a column that has its levels."""
    return attribute.model_copy(update={"mapping": {}, "above": None})


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
        twice = frame.columns[frame.columns.duplicated()]
        if len(twice):
            raise FwcError(f"the frame has the column {twice[0]!r} twice: rename one")
        return frame
    table = frame_table(frame)
    return table.frame(table.titles, _ROW).reset_index(drop=True)


def _read(cells: pd.Series, rule: Callable[[Any], Any]) -> pd.Series:
    """Apply a rule to cells (n,); `FwcError` for a missing one."""
    _refuse(cells.isna(), cells, "has no value")
    return applied(cells.astype(object), rule, object)


def _refuse(wrong: pd.Series, texts: pd.Series, reason: str) -> None:
    """Raise `FwcError` for the first wrong cell."""
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        (cell,) = texts.iloc[row : row + 1].tolist()
        cell = "the cell" if pd.isna(cell) else repr(cell)
        raise FwcError(f"{texts.index[row]}, column {texts.name!r}: {cell} {reason}")
