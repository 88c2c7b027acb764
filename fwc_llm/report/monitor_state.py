"""The state of `fwc-llm monitor`: one SQLite file, in which a call is one transaction.

Decisions are known by a salted hash of their key. Everything else is counts and a summary in JSON, whose
checksums are compared at every opening: a file that was cut or changed by hand is refused by name.
"""

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Base64Bytes, Field

from fwc_llm.errors import FwcError
from fwc_llm.files import failing_as, open_binary, read_text, write_whole
from fwc_llm.metrics.counts import Codes
from fwc_llm.sanitize import parse_json
from fwc_llm.validation import Checked, check

if TYPE_CHECKING:
    import pandas as pd

WAIT = 60.0  # seconds for another call to end
_APPLICATION, _VERSION = 0x46574D4F, 2  # "FWMO"; version 1 was a JSON file
_TABLES = (
    "CREATE TABLE decisions (key INTEGER PRIMARY KEY, cell INTEGER, version INTEGER, time REAL)",
    "CREATE TABLE forgotten (key INTEGER PRIMARY KEY)",
    "CREATE TABLE counts (period INTEGER, version INTEGER, cell INTEGER, n INTEGER, "
    "PRIMARY KEY (period, version, cell))",
    "CREATE TABLE summary (name TEXT PRIMARY KEY, value TEXT)",
    "CREATE TABLE checksums (name TEXT PRIMARY KEY, sha256 TEXT)",
)
BEFORE = ""  # the period of all that a JSON state has
_SQLITE = b"SQLite format 3\0"
_PRAGMAS = (
    "trusted_schema = OFF", "secure_delete = ON", "temp_store = MEMORY", "cache_size = -65536",
    "journal_mode = DELETE",
)  # fmt: skip
_ByAnswer = Annotated[list[int], Field(min_length=3, max_length=3)]  # no, yes and unparsed


class FirstState(Checked):
    """The JSON state of version 1: counts by version and group, and hashes of the keys and contents."""

    format: Literal["fwc-llm-monitor/1"]
    asked: dict[str, Any]
    salt: str = Field(pattern="^[0-9a-f]{16}$")
    seen: Base64Bytes
    counts: dict[str, dict[str, Annotated[list[_ByAnswer], Field(min_length=2, max_length=2)]]]
    evidence: dict[str, Any]
    history: list[dict[str, Any]]

    @property
    def keys(self) -> npt.NDArray[np.int64]:
        """The hashes of the keys."""
        return np.asarray(np.frombuffer(self.seen, np.int64).reshape(2, -1)[0])


@dataclass(frozen=True)
class State:
    """An open state: `summary` has everything but decisions and counts, by name; `save` keeps it."""

    database: sqlite3.Connection
    path: Path
    summary: dict[str, Any]

    def known(self, keys: "pd.Series[str]") -> tuple[Codes, dict[int, tuple[Any, ...]], set[int]]:
        """Return the hashes of keys (n,), what is kept of those that were counted (cell, version and time),
        and the hashes of those that were forgotten.
        """
        hashed = self._hashes(keys)
        self.database.execute("CREATE TEMP TABLE asked (key INTEGER PRIMARY KEY)")
        rows = ((key,) for key in hashed.tolist())
        self.database.executemany("INSERT OR IGNORE INTO asked VALUES (?)", rows)
        found = self.database.execute("SELECT decisions.* FROM asked JOIN decisions USING (key)")
        counted = {row[0]: row[1:] for row in found}
        self.database.execute("DROP TABLE asked")
        forgotten = {row[0] for row in self.database.execute("SELECT key FROM forgotten")}
        if forgotten:
            lost = np.isin(self._hashes(keys, "forgotten"), list(forgotten))
            forgotten = set(hashed[lost].tolist())
        return hashed, counted, forgotten

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add new decisions: key, cell, version and time."""
        self.database.executemany("INSERT INTO decisions VALUES (?, ?, ?, ?)", rows)

    def count(self, rows: Iterable[tuple[int, ...]]) -> None:
        """Add to the counts: period, version, cell and n."""
        self.database.executemany(
            "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n", rows
        )

    def counts(self, by: Literal["period", "version"]) -> Codes:
        """Return the counts (P, G, 2, 3) by period or version, group, label and answer."""
        groups, levels = len(self.summary["groups"]), len(self.summary[f"{by}s"])
        counts = np.zeros((levels, 6 * groups), np.int64)
        rows = self.database.execute(f"SELECT {by}, cell, sum(n) FROM counts GROUP BY 1, 2").fetchall()
        level, cell, n = np.array(rows, np.int64).reshape(-1, 3).T
        counts[level, cell] = n
        return counts.reshape(levels, groups, 2, 3)

    def forget(self, keys: Sequence[str]) -> None:
        """Delete decisions; their counts stay, and another hash of each key, so that none counts again."""
        import pandas as pd

        texts = plain_keys(pd.Series(list(keys), dtype=object))
        for key, *hashes in zip(keys, self._hashes(texts), self._hashes(texts, "forgotten"), strict=True):
            old, new = map(int, hashes)
            if not self.database.execute("DELETE FROM decisions WHERE key = ?", (old,)).rowcount:
                raise FwcError(f"{self.path}: there is no decision {key!r:.80} to forget")
            self.database.execute("INSERT INTO forgotten VALUES (?)", (new,))

    def save(self) -> None:
        """Keep the summary and the checksums."""
        values = [(name, json.dumps(value)) for name, value in self.summary.items()]
        self.database.executemany("INSERT OR REPLACE INTO summary VALUES (?, ?)", values)
        self.database.executemany("INSERT OR REPLACE INTO checksums VALUES (?, ?)", _checksums(self.database))

    def _hashes(self, keys: "pd.Series[str]", kind: str = "") -> Codes:
        import pandas as pd

        salt = self.summary["salt"]
        if kind:
            salt = hashlib.sha256(f"{salt} {kind}".encode()).hexdigest()[:16]
        return pd.util.hash_pandas_object(keys, index=False, hash_key=salt).to_numpy().view(np.int64)


def plain_keys(keys: "pd.Series[Any]") -> "pd.Series[str]":
    """Return keys (n,) as text, and 17.0 as 17: a whole column is written so where one cell is empty."""
    return keys.astype(str).str.replace(r"^(-?\d+)\.0$", r"\1", regex=True)


def _checksums(database: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = {"decisions": database.execute("SELECT count(*) FROM decisions").fetchall()}
    rows["counts"] = database.execute("SELECT * FROM counts ORDER BY 1, 2, 3").fetchall()
    rows["forgotten"] = database.execute("SELECT key FROM forgotten ORDER BY key").fetchall()
    rows |= {row[0]: [row] for row in database.execute("SELECT * FROM summary")}
    return sorted((name, hashlib.sha256(repr(of).encode()).hexdigest()) for name, of in rows.items())


def _summary(database: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """The summary of a state; `FwcError` where it is none, or was changed."""
    application, version = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application == _APPLICATION and version > _VERSION:
        raise FwcError(f"{path} is a state of a later version ({version}): update fwc-llm")
    schema = [row[0] for row in database.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")]
    if application != _APPLICATION or schema != list(_TABLES):
        raise FwcError(f"{path} is no state of `fwc-llm monitor`: name another file with --state")
    saved = dict(database.execute("SELECT * FROM checksums").fetchall())
    found = dict(_checksums(database))
    if changed := [name for name in {**saved, **found} if saved.get(name) != found.get(name)]:
        raise FwcError(
            f"{path}: {changed[0]} is not as `fwc-llm monitor` wrote it: the file was cut or changed; go on "
            "from a copy, or begin a new state with --state"
        )
    return {name: json.loads(value) for name, value in database.execute("SELECT * FROM summary")}


def _begin(state: State, first: FirstState | None) -> None:
    """Make the tables of a new state, with all that a JSON state knows."""
    for pragma in (f"application_id = {_APPLICATION}", f"user_version = {_VERSION}"):
        state.database.execute(f"PRAGMA {pragma}")
    for table in _TABLES:
        state.database.execute(table)
    if first is None:
        return
    versions, groups = list(first.counts), list(dict.fromkeys(g for of in first.counts.values() for g in of))
    state.summary.update(
        salt=first.salt, asked=first.asked, versions=versions, groups=groups, earlier=first.history,
        periods=[{"period": BEFORE, "at": first.history[-1]["at"], "evidence": {}}] * bool(first.history),
        marks=[[1, 0]],
    )  # fmt: skip
    state.add((key, None, None, None) for key in first.keys.tolist())
    for version, counts in first.counts.items():
        for group, of_group in counts.items():
            cells = enumerate(np.ravel(of_group).tolist(), 6 * groups.index(group))
            state.count((0, versions.index(version), cell, n) for cell, n in cells if n)


def _connected(path: Path) -> tuple[sqlite3.Connection, FirstState | None]:
    """A connection that has begun to write, and the JSON state whose place it takes."""
    while True:
        first, begins, moved = None, b"", path.with_name(f"{path.name}.moving")
        if path.exists():
            with open_binary(path) as file:
                begins = file.read(len(_SQLITE))
        if begins not in (b"", _SQLITE):
            first = check(FirstState, parse_json(read_text(path)), f"{path} is no state of `fwc-llm monitor`")
        database = sqlite3.connect(path if first is None else moved, WAIT, isolation_level=None)
        for pragma in _PRAGMAS:
            database.execute(f"PRAGMA {pragma}")
        database.execute("BEGIN IMMEDIATE")
        if first is None or not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return database, first
        database.close()  # another call has moved the state, or was killed just before that
        with suppress(FileNotFoundError):
            moved.replace(path)


@contextmanager
def open_state(path: Path) -> Iterator[tuple[State, FirstState | None]]:
    """Open a state as one transaction, which ends with the block: whole, or after an error not at all.

    A file that is not there or empty is a new state. One of version 1 (JSON) is taken over, and given too; it
    is replaced when the block ends, a copy beside it. Raises `FwcError` for any other file, a state that is
    damaged, changed or of a later version, and one that other calls keep in use.
    """
    database = None
    try:
        with failing_as(FwcError, f"{path} is no state of `fwc-llm monitor`: "):
            database, first = _connected(path)
        new = {"salt": secrets.token_hex(8), "asked": {}, "values": {}, "detectors": {}}
        new |= {name: [] for name in ("groups", "versions", "periods", "marks", "alarms", "earlier")}
        empty = not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        state = State(database, path, new if empty else _summary(database, path))
        if empty:
            _begin(state, first)
        yield state, first
        state.save()
        if first is not None:
            write_whole(path.read_bytes(), path.with_name(f"{path.name}.old"))
        database.execute("COMMIT")
    except sqlite3.Error as error:
        busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
        words = "another call keeps it in use; try again" if busy else str(error)
        raise FwcError(f"cannot use the state {path}: {words}") from None
    finally:
        if database is not None:
            database.close()
    if first is not None:
        path.with_name(f"{path.name}.moving").replace(path)
