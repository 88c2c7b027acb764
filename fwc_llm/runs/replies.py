"""The replies of a journal by the questions they answer: where each stands, not what it says."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from fwc_llm.runs.journal import Journal

_BLOCK = 4096  # questions looked up at once

Key = tuple[str, int, str, str]  # arm, repeat, row, variant


class Replies:
    """What a journal holds for each question: of several records the last one.

    Held are 16 bytes a record. `models` are the names that services returned, `others` by arm the answers to
    the same question in other words: the P(yes) of the first, and those of the others by name.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        hashes, places, models = array("q"), array("q"), array("i")
        names: dict[str, int] = {}
        others: dict[str, dict[Key, tuple[float | None, Mapping[str, float | None]]]] = {}
        for place, record in journal.located():
            key = key_of(record)
            hashes.append(hash(key))
            places.append(place)
            model = record.get("model")
            models.append(names.setdefault(str(model), len(names)) if model else -1)
            if record.get("others") and not key[3]:
                others.setdefault(key[0], {})[key] = record.get("p_yes"), record["others"]
            elif others and key[0] in others:
                others[key[0]].pop(key, None)
        self.others = {arm: list(asked.values()) for arm, asked in others.items()}
        found = np.frombuffer(hashes, dtype=np.int64) if len(hashes) else np.zeros(0, dtype=np.int64)
        order = np.argsort(found, kind="stable")  # of equal ones the last one written stands last
        self._hashes = found[order]
        self._places = np.array(places, dtype=np.int64)[order]
        last = np.append(self._hashes[1:] != self._hashes[:-1], True)[: len(order)]
        returned = np.unique(np.array(models, dtype=np.int32)[order][last])
        listed = list(names)
        self.models = sorted(listed[number] for number in returned.tolist() if number >= 0)

    def of(
        self, questions: Iterable[Mapping[str, Any]]
    ) -> Iterator[tuple[Mapping[str, Any], dict[str, Any] | None]]:
        """Every question with its record, if there is one; read when it is asked for."""
        questions = iter(questions)
        with self._journal.reading() as read:
            while block := list(islice(questions, _BLOCK)):
                keys = [key_of(question) for question in block]
                wanted = np.array([hash(key) for key in keys], dtype=np.int64)
                low = np.searchsorted(self._hashes, wanted, "left").tolist()
                high = np.searchsorted(self._hashes, wanted, "right").tolist()
                for question, key, first, end in zip(block, keys, low, high, strict=True):
                    records = (read(place) for place in self._places[first:end][::-1].tolist())
                    yield question, next((record for record in records if key_of(record) == key), None)


def key_of(row: Mapping[str, Any]) -> Key:
    """What tells a question from all others of its run."""
    return row.get("arm", ""), int(row.get("repeat") or 0), row.get("row", ""), row.get("variant", "")
