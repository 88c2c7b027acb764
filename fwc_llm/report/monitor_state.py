"""The file of `fwc-llm monitor`: every decision, and what earlier calls fixed; each call is one
transaction.

SQLite keeps one block of decisions a call, and one summary with the SHA-256 of all blocks and of
itself. They are compared at every opening, so a file that was cut or changed is refused.
"""

import copy
import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fwc_llm.errors import FwcError
from fwc_llm.metrics.counts import Codes

if TYPE_CHECKING:
    import pandas as pd

WAIT = 60.0  # seconds for another call to end
# Salted hash of the key; numbers of period and cell (6 · group + 3 · label + answer).
DECISION = np.dtype([("key", "<i8"), ("period", "<i4"), ("cell", "<i2")])
_TABLES = (
    "CREATE TABLE calls (number INTEGER PRIMARY KEY, decisions BLOB NOT NULL)",
    "CREATE TABLE summary (json TEXT NOT NULL, sha256 TEXT NOT NULL)",
)
_EMPTY: dict[str, Any] = {
    "asked": {},
    "values": {},
    "groups": [],
    "periods": [],
    "since": [],
    "calls": 0,
}


@dataclass
class State:
    """An open file of decisions; `summary` has everything but the decisions."""

    database: sqlite3.Connection
    path: Path
    summary: dict[str, Any]
    decisions: npt.NDArray[np.void]  # (n,) of DECISION

    def hashes(self, keys: "pd.Series[str]") -> Codes:
        """Salted hashes (n,) of keys."""
        import pandas as pd

        salt = self.summary["salt"]
        return (
            pd.util.hash_pandas_object(keys, index=False, hash_key=salt)
            .to_numpy()
            .view(np.int64)
        )

    def add(
        self, decisions: npt.NDArray[np.void], names: Sequence[str], where: Path
    ) -> int:
        """Add the decisions (n,) that are new; return how many.

        `names` (n,) are their keys, for errors about the file `where`.
        """
        order = np.argsort(decisions["key"])
        given = decisions[order]
        position = np.searchsorted(given["key"], self.decisions["key"]) % len(given)
        repeated = np.flatnonzero(given["key"][position] == self.decisions["key"])
        again = position[repeated]
        changed = given["cell"][again] != self.decisions["cell"][repeated]
        if (
            self.summary["asked"]["period"] != "call"
        ):  # else a row that comes again is of its first call
            changed |= given["period"][again] != self.decisions["period"][repeated]
        if changed.any():
            key = names[order[again[np.argmax(changed)]]]
            raise FwcError(
                f"{where}: the row {key!r:.80} was seen before and has changed: decisions stay as "
                f"they "
                "were made; restore it, or begin a new file with --state"
            )
        is_new = np.ones(len(given), np.bool_)
        is_new[again] = False
        if is_new.any():
            self.database.execute(
                "INSERT INTO calls (decisions) VALUES (?)", (given[is_new].tobytes(),)
            )
            self.decisions = np.concatenate([self.decisions, given[is_new]])
        return int(is_new.sum())

    def counts(self) -> Codes:
        """The counts (P, G, 2, 3) by period, group, label and answer (no, yes, unread)."""
        periods = len(self.summary["periods"])
        cells = 6 * len(self.summary["groups"])
        index = (
            self.decisions["period"].astype(np.int64) * cells + self.decisions["cell"]
        )
        return np.bincount(index, minlength=periods * cells).reshape(periods, -1, 2, 3)

    def save(self) -> None:
        """Write the summary, and the SHA-256 of everything."""
        content = json.dumps(self.summary)
        self.database.execute("DELETE FROM summary")
        self.database.execute(
            "INSERT INTO summary VALUES (?, ?)",
            (content, _sha256(self.database, content)),
        )


def _sha256(database: sqlite3.Connection, content: str) -> str:
    digest = hashlib.sha256(content.encode())
    for number, block in database.execute(
        "SELECT number, decisions FROM calls ORDER BY number"
    ):
        digest.update(f"{number} {len(block)} ".encode())
        digest.update(block)
    return digest.hexdigest()


def _read(database: sqlite3.Connection, path: Path) -> State:
    """Read a file, new where it is empty; `FwcError` if it is another one or was changed."""
    schema = [
        row[0]
        for row in database.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")
    ]
    if not schema:
        for statement in _TABLES:
            database.execute(statement)
        summary = {**copy.deepcopy(_EMPTY), "salt": secrets.token_hex(8)}
        return State(database, path, summary, np.zeros(0, DECISION))
    if schema != list(_TABLES):
        raise FwcError(
            f"{path} is not a file of this version's `fwc-llm monitor`: begin a new one with "
            f"another "
            "--state and all decisions"
        )
    rows = database.execute("SELECT json, sha256 FROM summary").fetchall()
    if len(rows) != 1 or _sha256(database, rows[0][0]) != rows[0][1]:
        raise FwcError(
            f"{path} is not as `fwc-llm monitor` wrote it: the file was cut or changed; go on from "
            f"a copy, "
            "or begin a new file with --state"
        )
    blocks = database.execute("SELECT decisions FROM calls ORDER BY number").fetchall()
    decisions = [np.frombuffer(block, DECISION) for (block,) in blocks]
    return State(database, path, json.loads(rows[0][0]), np.concatenate(decisions))


@contextmanager
def open_state(path: Path) -> Iterator[State]:
    """Open or create a file of decisions as one transaction; an error rolls it back."""
    database = None
    try:
        database = sqlite3.connect(path, WAIT, isolation_level=None)
        for pragma in (
            "trusted_schema = OFF",
            "secure_delete = ON",
            "journal_mode = DELETE",
        ):
            database.execute(f"PRAGMA {pragma}")
        database.execute("BEGIN IMMEDIATE")
        state = _read(database, path)
        yield state
        state.save()
        database.execute("COMMIT")
    except sqlite3.Error as error:
        raise FwcError(
            f"cannot use the state {path}: {error}; name a file of `fwc-llm monitor`"
        ) from None
    finally:
        if database is not None:
            database.close()
