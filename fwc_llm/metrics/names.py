"""A column of names as numbers: a million answers name few groups, and rows that are told apart by number.

Such a column stands for an array of texts: it compares, is chosen from and is listed as one. What is asked of
each name is asked once, however often the name comes again.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]


class Different:
    """Texts that differ (k,), and their places in alphabetical order; columns of one table share it."""

    def __init__(self, texts: Sequence[str] | npt.NDArray[Any]) -> None:
        self.texts = np.empty(len(texts), dtype=object)
        self.texts[:] = texts

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def rank(self) -> Codes:
        """The place of each text among all of them in order."""
        found = np.empty(len(self), dtype=np.int64)
        found[sorted(range(len(self)), key=self.texts.tolist().__getitem__)] = np.arange(len(self))
        return found


class Names:
    """n names: `codes` (n,) are places in `different`."""

    __hash__ = None  # type: ignore[assignment]  # compared name by name, as arrays are

    def __init__(self, codes: npt.NDArray[Any], different: Different) -> None:
        self.different = different
        self.codes = codes.astype(np.min_scalar_type(-max(len(different), 1)), copy=False)

    @classmethod
    def of(cls, texts: Any) -> "Names":
        """Return texts as names; names as they are."""
        if isinstance(texts, Names):
            return texts
        values, code = np.unique(np.asarray(texts).astype(np.str_), return_inverse=True)
        return cls(code, Different(values.tolist()))

    @classmethod
    def all_one(cls, text: str, n: int) -> "Names":
        """Return `text`, n times."""
        return cls(np.zeros(n, dtype=np.int8), Different([text]))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n,), as an array of texts has."""
        return self.codes.shape

    def __getitem__(self, chosen: Any) -> Any:
        """Names at a mask or at positions; at one position the text itself."""
        codes = self.codes[chosen]
        if not np.ndim(codes):
            return self.different.texts[codes]
        return Names(codes, self.different)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, str):
            return (self.different.texts == other).astype(np.bool_)[self.codes]
        return np.asarray(self) == np.asarray(other)

    def __ne__(self, other: object) -> Any:
        return ~(self == other)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self.different.texts.astype(np.str_ if dtype is None else dtype)[self.codes])

    def tolist(self) -> list[str]:
        """Return the names as texts; equal ones are one object."""
        found: list[str] = self.different.texts[self.codes].tolist()
        return found

    def mapped(self, change: Callable[[str], str]) -> "Names":
        """Return the names with each text changed; several may become the same one.

        As in an array of texts, none ends in NUL.
        """
        known: dict[str, int] = {}
        place = [known.setdefault(change(text).rstrip("\0"), len(known)) for text in self.different.texts]
        return Names(np.array(place, dtype=np.int64)[self.codes], Different(list(known)))

    def where(self, mask: npt.NDArray[np.bool_]) -> "Names":
        """Return the names at a mask (n,), and empty texts elsewhere."""
        texts = self.different.texts.tolist()
        if "" not in texts:
            texts.append("")
        return Names(np.where(mask, self.codes.astype(np.int64), texts.index("")), Different(texts))

    def counts(self) -> dict[str, int]:
        """Return how often each name occurs, in the order in which they first come."""
        often = np.bincount(self.codes, minlength=len(self.different))
        return {self[int(place)]: int(often[self.codes[place]]) for place in _first_places(self)}

    @property
    def in_order(self) -> Codes:
        """Numbers (n,) that stand in the order of the names."""
        return np.asarray(self.different.rank[self.codes])

    def places(self, order: Sequence[str]) -> Codes:
        """Return the place (n,) of each name in `order`; names that are not there are counted on."""
        known = {name: place for place, name in enumerate(order)}
        occurs = np.bincount(self.codes, minlength=len(self.different)) > 0
        texts = zip(self.different.texts, occurs.tolist(), strict=True)
        found = [known.setdefault(text, len(known)) if here else 0 for text, here in texts]
        return np.asarray(np.array(found, dtype=np.int64)[self.codes])

    @property
    def levels(self) -> tuple[list[str], Codes]:
        """The names that occur, in order, and the place of each (n,) among them."""
        present = np.flatnonzero(np.bincount(self.codes, minlength=len(self.different)))
        texts = self.different.texts[present].tolist()
        order = sorted(range(len(texts)), key=texts.__getitem__)
        place = np.zeros(len(self.different), dtype=np.int64)
        place[present[order]] = np.arange(len(order))
        return [texts[one] for one in order], place[self.codes]


def levels_of(names: Any) -> tuple[list[str], Codes]:
    """Return the names (n,) that occur, in order, and the place of each among them: of texts or `Names`."""
    if isinstance(names, Names):
        return names.levels
    found, place = np.unique(np.asarray(names).astype(np.str_), return_inverse=True)
    return found.tolist(), place.ravel().astype(np.int64, copy=False)


def joined(columns: Sequence[Names], by: str) -> Names:
    """Return the texts of several columns, put together."""
    whole = columns[0]
    for one in columns[1:]:
        many = len(one.different)
        pairs, place = np.unique(whole.codes.astype(np.int64) * many + one.codes, return_inverse=True)
        texts = [
            f"{whole.different.texts[pair // many]}{by}{one.different.texts[pair % many]}" for pair in pairs
        ]
        whole = Names(place, Different(texts)).mapped(str)
    return whole


def numbered(columns: Sequence[Names]) -> list[Codes]:
    """Return numbers for names, in the order in which they first come; alike in all of the columns."""
    columns = _together(columns)
    number = np.full(len(columns[0].different) if columns else 0, -1, dtype=np.int64)
    known = 0
    for one in columns:
        new = _first_places(one)
        new = new[number[one.codes[new]] < 0]
        number[one.codes[new]] = known + np.arange(len(new))
        known += len(new)
    return [number[one.codes] for one in columns]


def _together(columns: Sequence[Names]) -> Sequence[Names]:
    """The same columns, all with the same names to choose from."""
    if all(one.different is columns[0].different for one in columns):
        return columns
    known: dict[str, int] = {}
    places = [
        np.array([known.setdefault(text, len(known)) for text in one.different.texts], dtype=np.int64)
        for one in columns
    ]
    different = Different(list(known))
    return [Names(place[one.codes], different) for one, place in zip(columns, places, strict=True)]


def _first_places(one: Names) -> Codes:
    """Where each name that occurs comes first, in the order of these places."""
    first = np.full(len(one.different), -1, dtype=np.int64)
    first[one.codes[::-1]] = np.arange(len(one) - 1, -1, -1)  # of equal names the last one written stays
    return np.sort(first[first >= 0])
