"""All columns of a table in blocks, from which its encoding follows: as `Encoder.fit` finds it in memory."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.coreset.problem.encoding import ColumnCode, Encoder
from fwc_llm.coreset.problem.entry import ArrayScaler, Encoding
from fwc_llm.coreset.problem.frames import column_kind, is_frame, plain_array
from fwc_llm.coreset.streaming.blocks import Block
from fwc_llm.coreset.streaming.columns.categories import Appeared, Ranked
from fwc_llm.coreset.streaming.columns.factors import factorize
from fwc_llm.coreset.streaming.columns.moments import Moments, merged
from fwc_llm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def numbers_of(series: "pd.Series[Any]") -> np.ndarray:
    """A numeric column as an array (n,) of numbers, NaN where one is missing."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf":
        return series.to_numpy()
    return series.to_numpy(dtype=float, na_value=np.nan)


@dataclass
class Features:
    """What the blocks read so far tell of the columns.

    `names` and `kinds` are those of a DataFrame, in its order; for an array `kinds` is empty and `names` are
    the numbers of its columns. `where` is the block that told so.
    """

    names: tuple[Any, ...]
    kinds: tuple[str, ...]
    where: str
    dtype: Any
    moments: dict[int, Moments]  # of the numeric columns, by block
    appeared: dict[Any, Appeared]
    ranked: dict[Any, Ranked]

    @classmethod
    def of(cls, block: Block, used: np.ndarray | None, weights: np.ndarray | None) -> "Features":
        """Those of a block with rows; where weights count, of its rows `used` (n,), which `weights` weigh."""
        if is_frame(block.rows):
            return cls._of_frame(block, used, weights)
        array = plain_array(block.rows)
        if array.ndim != 2 or not array.shape[1]:
            raise InputError(
                f"X has shape {array.shape} in {block.where}: give rows with at least one column"
            )
        found = cls(tuple(range(array.shape[1])), (), block.where, array.dtype, {}, {}, {})
        whole = Moments.of(array, len(array))
        for k in np.flatnonzero(~np.isfinite(whole.low) | ~np.isfinite(whole.high)).tolist():
            _refuse_number(array[:, k], f"column {k} of X", block)
        chosen = array if used is None else array[used]
        if len(chosen):
            found.moments[block.index] = whole if used is None else Moments.of(chosen, len(chosen), weights)
        return found

    @classmethod
    def _of_frame(cls, block: Block, used: np.ndarray | None, weights: np.ndarray | None) -> "Features":
        frame = block.rows
        if frame.columns.duplicated().any():
            twice = frame.columns[frame.columns.duplicated()][0]
            raise InputError(f"column {twice!r} occurs twice: name every column once")
        if not len(frame.columns):
            raise InputError("X has no columns besides y, sensitive and weights: pass at least one feature")
        kinds = tuple(_kind(frame[name], block) for name in frame.columns)
        found = cls(tuple(frame.columns), kinds, block.where, None, {}, {}, {})
        numeric: list[np.ndarray] = []
        for name, kind in zip(frame.columns, kinds, strict=True):
            if kind == "numeric":
                numeric.append(numbers_of(frame[name]))
                block.read[name] = numeric[-1]
            elif kind == "ordinal":
                codes = frame[name].cat.codes.to_numpy()
                _check_known(codes, name, block)
                chosen = codes if used is None else codes[used]
                found.ranked[name] = Ranked.of(
                    block.index, frame[name].cat.categories, chosen, weights, block.where
                )
            else:
                codes, values = block.read[name] = factorize(frame[name])
                _check_known(codes, name, block)
                found.appeared[name] = Appeared.of(block.index, values)
        if numeric:
            whole = Moments.of(numeric, len(frame))
            names = [name for name, kind in zip(frame.columns, kinds, strict=True) if kind == "numeric"]
            for k in np.flatnonzero(~np.isfinite(whole.low) | ~np.isfinite(whole.high)).tolist():
                _refuse_number(numeric[k], f"column {names[k]!r}", block)
            if used is not None:
                numeric = [column[used] for column in numeric]
                if len(used):
                    found.moments[block.index] = Moments.of(numeric, len(used), weights)
            else:
                found.moments[block.index] = whole
        return found

    def add(self, other: "Features") -> None:
        """What other blocks tell."""
        if bool(self.kinds) != bool(other.kinds):
            raise InputError(
                f"X is a DataFrame in one block and an array in another ({self.where}, {other.where}): "
                "give blocks of one form"
            )
        if self.names != other.names:
            if not self.kinds:
                raise InputError(
                    f"X has {len(self.names)} columns in {self.where} and {len(other.names)} in {other.where}"
                )
            apart = sorted(set(self.names) ^ set(other.names), key=str)
            what = f"the column {apart[0]!r} is in one alone" if apart else "their order differs"
            raise InputError(
                f"the columns of {self.where} and {other.where} differ: {what}; give every block the same"
            )
        for name, one, two in zip(self.names, self.kinds, other.kinds, strict=bool(self.kinds)):
            if one != two:
                raise InputError(
                    f"column {name!r} is {one} in {self.where} and {two} in {other.where}: make it one"
                )
        if self.dtype != other.dtype:
            self.dtype = np.dtype(np.float64)
        self.moments |= other.moments
        for name, values in self.appeared.items():
            values.add(other.appeared[name], name)
        for name, ranks in self.ranked.items():
            ranks.add(other.ranked[name], name)

    def encoding(self, scale: bool | str) -> tuple[Encoding, np.ndarray, np.ndarray, np.ndarray]:
        """How the table is encoded; ends (k,) of its numbers, in its units, and their powers of two."""
        order = sorted(self.moments)
        found = merged([self.moments[index] for index in order]) if order else None
        places = iter(range(len(self.names)))
        if not self.kinds:
            if found is None:
                raise InputError("X has no rows of positive weight: pass at least one")
            columns = tuple(_number(name, found, k, True) for k, name in enumerate(self.names))
            encoding = ArrayScaler(columns, self.dtype) if scale is True else None
            return encoding, found.low, found.high, found.power
        scaled: list[ColumnCode] = []
        coded: list[ColumnCode] = []
        ends: list[tuple[float, float]] = []
        powers: list[int] = []
        for name, kind in zip(self.names, self.kinds, strict=True):
            if kind == "categorical":
                coded.append(ColumnCode(name, kind, self.appeared[name].values))
            elif kind == "ordinal":
                ranks = self.ranked[name]
                low, high, mean, spread = ranks.moments()
                values = np.empty(len(ranks.values), object)
                values[:] = ranks.values
                terms = (mean, spread) if low < high else (low, np.inf)
                scaled.append(ColumnCode(name, kind, values, *(terms if scale else ())))
                ends.append((low, high))
                powers.append(0)
            elif found is not None:
                k = next(places)
                scaled.append(_number(name, found, k, bool(scale)))
                ends.append((float(found.low[k]), float(found.high[k])))
                powers.append(int(found.power[k]))
        low_ends, high_ends = np.array(ends, dtype=float).reshape(-1, 2).T
        return Encoder((*scaled, *coded), self.names), low_ends, high_ends, np.array(powers, int)


def _number(name: Any, found: Moments, k: int, scale: bool) -> ColumnCode:
    """The encoding of a numeric column, as `z_scored` finds it."""
    if not scale:
        return ColumnCode(name, "numeric", np.empty(0))
    spread = float(np.ldexp(np.sqrt(found.squares[k] / found.mass), found.power[k]))
    if found.low[k] == found.high[k] or spread == 0.0:
        return ColumnCode(name, "numeric", np.empty(0), float(found.low[k]), np.inf)
    return ColumnCode(name, "numeric", np.empty(0), float(np.ldexp(found.mean[k], found.power[k])), spread)


def _kind(series: "pd.Series[Any]", block: Block) -> str:
    try:
        return column_kind(series)
    except InputError as error:
        raise type(error)(f"{error} ({block.where})") from None


def _check_known(codes: np.ndarray, name: Any, block: Block) -> None:
    if len(codes) and codes.min() < 0:
        row = block.start + int((codes < 0).argmax())
        raise InputError(f"column {name!r} is missing in row {row} of {block.where}: drop or fill such rows")


def _refuse_number(values: np.ndarray, what: str, block: Block) -> None:
    """The error for a column whose lowest or highest number is none."""
    missing = np.isnan(values)
    if missing.any():
        row = block.start + int(missing.argmax())
        raise InputError(f"{what} is missing in row {row} of {block.where}: drop or fill such rows")
    row = block.start + int(np.isinf(values).argmax())
    raise InputError(f"{what} is infinite in row {row} of {block.where}: clip or drop such values")
