"""Checks a table for columns that reveal outcome or groups, and for repeated rows.

The class shares of each value are cross-fitted, so that rare values and identifiers reveal nothing
by chance.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fwc_llm.taskfile import UNKNOWN, Column

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Keys = npt.NDArray[np.uint64]

_FOLDS = 5
_BINS, _LEAST_BIN = 50, 5  # most bins of a numeric column, least rows in each
_NUMBERED = (
    20  # in a table with at most 20 rows, a column of distinct values is no identifier
)
_AUC = 0.99
# a column reveals classes if its errors are at most this share of the errors by chance
_FEWER_ERRORS = 0.1
_PURE, _COVERED = (
    0.02,
    0.5,
)  # pure values: most errors (share of those by chance), least share of the class
_LEAST_ERRORS = 15  # least errors by chance: with fewer expected, no error may be luck
_MOST_CLASSES = 20
_MOST_ROWS = 50_000  # rows that are checked, at most
# a finest column in which a larger share of row pairs agrees is too coarse to decide
_COARSE = 0.02
_EXCESS = 2.5  # equal pairs of rows up to this multiple of the expected number may be coincidence
_MATERIAL = 0.005  # least share of repeated rows that is worth a note on intervals


@dataclass(frozen=True)
class TableChecks:
    """Warnings about a table, by column, and on repeated rows; "" for no warning."""

    columns: Mapping[str, str] = field(default_factory=dict)
    repeated: str = ""
    material: bool = (
        False  # repeated rows are frequent enough to make intervals too narrow
    )

    @property
    def sentences(self) -> list[str]:
        """All warnings."""
        of_columns = [
            f"column {name}: {sentence}" for name, sentence in self.columns.items()
        ]
        return [*of_columns, *filter(None, [self.repeated])]

    def as_json(self, cluster: str = "") -> dict[str, str]:
        """The warnings for run.json by column; the key "" has that on repeated rows."""
        return {
            **self.columns,
            **({"": self.repeated} if self.material and not cluster else {}),
        }


def check_table(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    outcome: str,
    protected: Sequence[str],
) -> TableChecks:
    """Check the features among the columns of a clean table."""
    rows = np.arange(len(frame))
    if len(rows) > _MOST_ROWS:
        rows = np.sort(
            np.random.default_rng(0).choice(len(frame), _MOST_ROWS, replace=False)
        )
    fold = np.random.default_rng(0).permutation(np.arange(len(rows)) % _FOLDS)
    sample = frame.iloc[rows]
    targets = {name: pd.factorize(sample[name])[0] for name in (outcome, *protected)}
    sentences = {}
    for name in (column.name for column in columns if column.role == "feature"):
        if name in targets:
            continue
        if _numbers_rows(frame[name]):
            sentences[name] = (
                'every value differs, as in an identifier; role = "id" hides the column'
            )
            continue
        ways = {"": _coded(sample[name])}
        ways["where it is unknown, "] = np.asarray(sample[name] == UNKNOWN, np.int64)
        found = []
        for target, classes in targets.items():
            is_outcome = target == outcome
            told = [
                how + _told(codes, classes, fold, is_outcome)
                for how, codes in ways.items()
            ]
            told = [finding for finding in told if finding not in ways]
            found += [_sentence(target, is_outcome, finding) for finding in told[:1]]
        if found:
            sentences[name] = "; ".join(found)
    repeated, material = repeated_rows(frame[name] for name in frame)
    return TableChecks(sentences, repeated, material)


def _numbers_rows(cells: pd.Series) -> bool:
    """Whether a column looks like row ids: distinct texts or increasing integers."""
    if len(cells) <= _NUMBERED or not cells.is_unique:
        return False
    integral = pd.api.types.is_integer_dtype(cells)
    if integral:
        return bool(cells.is_monotonic_increasing)
    return not pd.api.types.is_numeric_dtype(cells)


def _sentence(target: str, is_outcome: bool, finding: str) -> str:
    if is_outcome:
        return (
            f"reveals the outcome {target} ({finding}); drop it unless it is known before the "
            f"decision"
        )
    return (
        f"reveals the protected attribute {target} ({finding}), contradicts its counterfactual and "
        f"counts "
        "twice in distances; drop it"
    )


def _coded(cells: pd.Series) -> Codes:
    """Encode values (n,) from 0; many numbers by quantile."""
    bins = min(_BINS, len(cells) // _LEAST_BIN)
    if pd.api.types.is_numeric_dtype(cells) and cells.nunique() > bins > 1:
        return pd.qcut(cells, bins, labels=False, duplicates="drop").to_numpy()
    return pd.factorize(cells)[0]


def _told(codes: Codes, classes: Codes, fold: Codes, one_sided: bool) -> str:
    """A phrase on how surely values (n,) reveal `classes` (n,), or one class; "" if not."""
    sizes = np.bincount(classes)
    if not 1 < len(sizes) <= _MOST_CLASSES:
        return ""
    n = len(codes)
    kinds = len(sizes)
    width = int(codes.max()) + 1
    shape = _FOLDS, width, kinds
    counts = np.bincount(
        (fold * width + codes) * kinds + classes, minlength=np.prod(shape)
    ).reshape(shape)
    others = counts.sum(0) - counts
    share = (others + sizes / n) / (
        others.sum(2, keepdims=True) + 1
    )  # (F, K, C), from the other folds
    guess = share.argmax(2)[..., None]
    right = np.take_along_axis(counts, guess, 2).sum()
    by_chance = n - sizes.max()
    if by_chance >= _LEAST_ERRORS and n - right <= _FEWER_ERRORS * by_chance:
        return f"alone it is right in {100 * right / n:.3g} % of the rows"
    for kind in range(kinds):
        in_class = counts[..., kind]
        if _LEAST_ERRORS <= sizes[kind] <= n - _LEAST_ERRORS:
            auc = _auc(
                share[..., kind].ravel(),
                in_class.ravel(),
                (counts.sum(2) - in_class).ravel(),
            )
            if auc > _AUC:
                return f"alone it has an AUC of {auc:.3f}"
        pure = (guess[..., 0] == kind) & (share[..., kind] > 1 - _PURE)
        rows = counts[pure].sum()
        wrong = counts[pure].sum() - in_class[pure].sum()
        chance = rows * (1 - sizes[kind] / n)
        covered = (rows - wrong) / sizes[kind]
        if (
            one_sided
            and chance >= _LEAST_ERRORS
            and wrong <= _PURE * chance
            and covered >= _COVERED
        ):
            return f"some values determine it, in {100 * rows / n:.0f} % of the rows"
    return ""


def _auc(scores: Floats, yes: npt.NDArray[Any], no: npt.NDArray[Any]) -> float:
    """The AUC of scores (k,) with row counts `yes` and `no` (k,); ties count half."""
    values, index = np.unique(scores, return_inverse=True)
    above = np.bincount(index, yes, len(values))
    below = np.bincount(index, no, len(values))
    return float(
        (above * (np.cumsum(below) - below / 2)).sum()
        / max(above.sum() * below.sum(), 1.0)
    )


def repeated_rows(columns: Iterable[Any]) -> tuple[str, bool]:
    """A warning about repeated rows of columns (n,), and whether they are material; ("", False).

    The number of row pairs that are equal in all columns is compared with the number expected by
    chance. For the expectation, take the pairs that are equal in all columns except the finest, and
    multiply their number by the share of all pairs that agree in the finest column. Up to `_EXCESS`
    times this number may be coincidence. A table with only coarse columns gets no warning.
    """
    rng = np.random.default_rng(0)
    total: Any = np.uint64(0)
    found = list[tuple[float, int, Keys]]()
    n = 0
    for cells in columns:
        column: Any = pd.Series(
            cells, dtype=object if isinstance(cells, list) else None
        )
        try:
            codes = column.factorize(use_na_sentinel=False)[0]
        except TypeError:  # lists have no hash
            codes = column.astype(str).factorize(use_na_sentinel=False)[0]
        sizes = np.bincount(codes)
        n = len(codes)
        if len(sizes) < n:  # skips ids, in which a copied row differs
            keys = rng.integers(0, 1 << 63, len(sizes), dtype=np.uint64)[codes]
            found.append((float((sizes / n) @ (sizes / n)), len(sizes), keys))
            total = total + keys
    repeated = n - len(np.unique(total))
    if not found or not repeated:
        return "", False
    found.sort(key=lambda column: column[0])
    finest = next(
        (column for column in found if not _determined(column, found)), found[0]
    )
    by_chance = _pairs(total - finest[2]) * finest[0]
    usual = 1 + _EXCESS * by_chance + 3 * np.sqrt(by_chance)
    if finest[0] > _COARSE or _pairs(total) <= usual:
        return "", False
    sentence = (
        f"{repeated:,} of {n:,} rows repeat another row exactly, and each counts as a person: "
        "remove them, or name the column of people as `cluster`"
    )
    return sentence, repeated >= _MATERIAL * n


def _determined(
    column: tuple[float, int, Keys], columns: Sequence[tuple[float, int, Keys]]
) -> bool:
    """Whether another column of equal resolution determines this one."""
    _, many, keys = column
    return any(
        other is not keys and values >= many and len(np.unique(keys + other)) == values
        for _, values, other in columns
    )


def _pairs(keys: Keys) -> float:
    """The number of pairs of equal keys."""
    times = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float((times * (times - 1) / 2).sum())
