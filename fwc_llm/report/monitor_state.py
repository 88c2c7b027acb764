"""The state of `fwc-llm monitor`: one SQLite file; each call is one transaction.

A decision is identified by a salted hash of its key. All other content is counts, and a summary in JSON.
Their checksums are compared at every opening, and a truncated or edited file is refused.
"""

import hashlib
import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.metrics.counts import Codes

if TYPE_CHECKING:
    import pandas as pd

WAIT = 60.0  # seconds for another call to end
_APPLICATION, _VERSION = 0x46574D4F, 2  # "FWMO"; version 1 was a JSON file
_TABLES = (
    "CREATE TABLE decisions (key INTEGER PRIMARY KEY, cell INTEGER, version INTEGER, time REAL)",
    "CREATE TABLE counts (period INTEGER, version INTEGER, cell INTEGER, n INTEGER, "
    "PRIMARY KEY (period, version, cell))",
    "CREATE TABLE summary (name TEXT PRIMARY KEY, value TEXT)",
    "CREATE TABLE checksums (name TEXT PRIMARY KEY, sha256 TEXT)",
)
_LISTS = "groups", "versions", "periods", "alarms"
_PRAGMAS = (
    "trusted_schema = OFF", "secure_delete = ON", "temp_store = MEMORY", "cache_size = -65536",
    "journal_mode = DELETE",
)  # fmt: skip


@dataclass(frozen=True)
class State:
    """An open state; `summary` has everything except decisions and counts, by name."""

    database: sqlite3.Connection
    path: Path
    summary: dict[str, Any]

    def add(self, decisions: "pd.DataFrame", where: Path) -> Codes:
        """Add the new decisions; return their positions. `where` is the file, for errors."""
        keys, execute = decisions["key"], self.database.execute
        columns = [self._hashes(keys), self._hashes(keys, "forgotten")]
        columns += [decisions[name].to_numpy() for name in ("cell", "version", "time")]
        execute("CREATE TEMP TABLE given (place INTEGER PRIMARY KEY, key, gone, cell, version, time REAL)")
        rows = zip(range(len(keys)), *(column.tolist() for column in columns), strict=True)
        self.database.executemany("INSERT INTO given VALUES (?, ?, ?, ?, ?, ?)", rows)
        changed = execute(
            "SELECT place FROM given JOIN decisions AS old USING (key) WHERE old.cell != given.cell "
            "OR old.version != given.version OR old.time IS NOT given.time ORDER BY place LIMIT 1"
        ).fetchone()
        if changed is not None:
            raise FwcError(
                f"{where}: the row {keys.iloc[changed[0]]!r:.80} was seen before and has changed: decisions "
                "stay as they were made; restore it, or begin a new state with --state"
            )
        for key in ("key", "gone"):
            execute(f"DELETE FROM given WHERE {key} IN (SELECT key FROM decisions)")
        execute("INSERT INTO decisions SELECT key, cell, version, time FROM given ORDER BY key")
        places = execute("SELECT place FROM given ORDER BY place").fetchall()
        execute("DROP TABLE given")
        return np.array(places, np.int64).reshape(-1)

    def count(self, period: Codes, version: Codes, cell: Codes) -> None:
        """Add decisions, given by period, version and cell (n,), to the counts."""
        counts = Counter(zip(period.tolist(), version.tolist(), cell.tolist(), strict=True))
        self.database.executemany(
            "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
            ((*where, n) for where, n in counts.items()),
        )

    def counts(self, by: Literal["period", "version"]) -> Codes:
        """The counts (P, G, 2, 3) by period or version, group, label and answer."""
        counts = np.zeros((len(self.summary[f"{by}s"]), 6 * len(self.summary["groups"])), np.int64)
        rows = self.database.execute(f"SELECT {by}, cell, sum(n) FROM counts GROUP BY 1, 2").fetchall()
        level, cell, n = np.array(rows, np.int64).reshape(-1, 3).T
        counts[level, cell] = n
        return counts.reshape(len(counts), -1, 2, 3)

    def forget(self, keys: Sequence[str]) -> None:
        """Replace hashes of decisions: counts stay, and they never count again."""
        import pandas as pd

        texts = plain_keys(pd.Series([*keys], dtype=object))
        for key, old, new in zip(keys, self._hashes(texts), self._hashes(texts, "forgotten"), strict=True):
            changed = "UPDATE decisions SET key = ?, cell = NULL, version = NULL, time = NULL WHERE key = ?"
            if not self.database.execute(changed, (int(new), int(old))).rowcount:
                raise FwcError(f"{self.path}: there is no decision {key!r:.80} to forget")

    def save(self) -> None:
        """Write the summary and the checksums."""
        values = [(name, json.dumps(value)) for name, value in self.summary.items()]
        self.database.executemany("INSERT OR REPLACE INTO summary VALUES (?, ?)", values)
        self.database.executemany("INSERT OR REPLACE INTO checksums VALUES (?, ?)", _checksums(self.database))

    def _hashes(self, keys: "pd.Series[str]", kind: str = "") -> Codes:
        import pandas as pd

        salt = hashlib.sha256(f"{self.summary['salt']} {kind}".encode()).hexdigest()[:16]
        return pd.util.hash_pandas_object(keys, index=False, hash_key=salt).to_numpy().view(np.int64)


def plain_keys(keys: "pd.Series[Any]") -> "pd.Series[str]":
    """Keys (n,) as text, with 17.0 as 17: an empty cell makes integers floats."""
    return keys.astype(str).str.replace(r"^(-?\d+)\.0$", r"\1", regex=True)


def _checksums(database: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = {"decisions": database.execute("SELECT count(*) FROM decisions").fetchall()}
    rows["counts"] = database.execute("SELECT * FROM counts ORDER BY 1, 2, 3").fetchall()
    rows |= {row[0]: [row] for row in database.execute("SELECT * FROM summary")}
    return sorted((name, hashlib.sha256(repr(of).encode()).hexdigest()) for name, of in rows.items())


def _summary(database: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """The summary of a state, new for an empty file; `FwcError` if changed."""
    application, version = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    schema = [row[0] for row in database.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")]
    if not schema:
        marks = f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {_VERSION}"
        for statement in (*_TABLES, *marks):
            database.execute(statement)
        lists: dict[str, Any] = {name: [] for name in _LISTS}
        return {"salt": secrets.token_hex(8), "asked": {}, "values": {}, "detectors": {}} | lists
    if application == _APPLICATION and version > _VERSION:
        raise FwcError(f"{path} is a state of a later version ({version}): update fwc-llm")
    if application != _APPLICATION or schema != list(_TABLES):
        raise FwcError(f"{path} is not a state of `fwc-llm monitor`: name another file with --state")
    saved, found = dict(database.execute("SELECT * FROM checksums")), dict(_checksums(database))
    if changed := [name for name in {**saved, **found} if saved.get(name) != found.get(name)]:
        raise FwcError(
            f"{path}: {changed[0]} is not as `fwc-llm monitor` wrote it: the file was cut or changed; go on "
            "from a copy, or begin a new state with --state"
        )
    return {name: json.loads(value) for name, value in database.execute("SELECT * FROM summary")}


@contextmanager
def open_state(path: Path) -> Iterator[State]:
    """Open a state (new without a file) as one transaction; an error rolls it back."""
    database = None
    try:
        database = sqlite3.connect(path, WAIT, isolation_level=None)
        for pragma in _PRAGMAS:
            database.execute(f"PRAGMA {pragma}")
        database.execute("BEGIN IMMEDIATE")
        state = State(database, path, _summary(database, path))
        yield state
        state.save()
        database.execute("COMMIT")
    except sqlite3.Error as error:
        words = {
            sqlite3.SQLITE_BUSY: "another call keeps it in use; try again",
            sqlite3.SQLITE_NOTADB: "it is not a state of `fwc-llm monitor`, or one of version 0.1 (JSON), "
            "which is not read: begin a new one with another --state and all decisions",
        }
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise FwcError(f"cannot use the state {path}: {words.get(code, error)}") from None
    finally:
        if database is not None:
            database.close()
