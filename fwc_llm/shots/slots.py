"""Slots as people write them: `women:no=1,women:yes=7,men:no=7,men:yes=1`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Request
from fwc_llm.shots.examples import LABELS

RULES = ("balanced-positive", "proportional", "equal")
_EXAMPLE = "slots=Female:no=1,Female:yes=7,Male:no=7,Male:yes=1"


def read_slots(slots: Any, request: Request) -> dict[tuple[str, str], int]:
    """The number of examples of every (protected level, "no" or "yes") that `slots` names.

    `slots` is a text LEVEL:ANSWER=COUNT,… or a mapping of (level, answer) to counts. A level is written as in
    the table or as prompts write it, in capitals or not; crossed levels as "Female & White". A rule by which
    `fwc` fills its slots ("balanced-positive", "proportional", "equal") gives the same numbers here.

    Errors: `FwcError` for a text that does not read so, an unknown level or answer, a cell named twice,
    counts that are not whole, and counts that do not sum to m.
    """
    if isinstance(slots, str) and slots in RULES:
        return _by_rule(slots, request)
    pairs = slots.items() if isinstance(slots, Mapping) else _parsed(str(slots))
    levels = _levels(request)
    wanted: dict[tuple[str, str], int] = {}
    for (level, answer), count in pairs:
        known = levels.get(str(level).strip().lower())
        if known is None:
            raise FwcError(f"slots: no protected level {level!r}; there are {', '.join(request.task.groups)}")
        label = LABELS[answer] if answer in (0, 1) else str(answer).strip().lower()
        if label not in LABELS:
            raise FwcError(f"slots: the answer {answer!r} is neither no nor yes")
        if (known, label) in wanted:
            raise FwcError(f"slots: the cell {known}:{label} is named twice")
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise FwcError(f"slots: {known}:{label} is {count!r}: counts are whole and not negative")
        wanted[known, label] = count
    if sum(wanted.values()) != request.m:
        raise FwcError(f"slots sum to {sum(wanted.values())}, but m={request.m}: they must agree")
    return wanted


def _by_rule(rule: str, request: Request) -> dict[tuple[str, str], int]:
    from fwc_llm.coreset.problem.cells import find_cells
    from fwc_llm.coreset.problem.slots import count_slots
    from fwc_llm.coreset.weights import read_weights

    task, pool = request.task, request.pool
    masses = read_weights(request.weights, len(pool))
    cells = find_cells(task.labels(pool), task.sensitive(pool), len(pool), masses)
    rows = slice(None) if masses is None or masses.positive is None else masses.positive
    available = np.bincount(cells.cell[request.candidates[rows]], minlength=cells.n_cells)
    counts = count_slots(rule, request.m, cells, available, constrained=False)
    return {
        (cells.level_name(place // cells.n_outcomes), LABELS[cells.outcomes[place % cells.n_outcomes]]): int(
            count
        )
        for place, count in enumerate(counts)
    }


def is_table(slots: Any) -> bool:
    """Whether `slots` names cells in the readable form."""
    return isinstance(slots, str) and ":" in slots


def _parsed(text: str) -> list[tuple[tuple[str, str], Any]]:
    pairs = []
    for part in text.split(","):
        cell, separator, count = part.rpartition("=")
        level, colon, answer = cell.rpartition(":")
        if not (separator and colon and level.strip()):
            raise FwcError(
                f"slots: {part.strip()!r} is not LEVEL:ANSWER=COUNT; write, for example, {_EXAMPLE}"
            )
        number: Any = count.strip()
        if number.isascii() and number.isdigit():
            number = int(number)
        pairs.append(((level, answer), number))
    return pairs


def _levels(request: Request) -> dict[str, str]:
    """Every protected level by the ways to write it, in small letters."""
    task = request.task
    found = {level.lower(): level for level in task.groups}
    if len(task.protected) == 1:
        words = dict(task.column(task.protected[0]).values)
        found |= {words[level].lower(): level for level in task.groups if level in words}
    return found
