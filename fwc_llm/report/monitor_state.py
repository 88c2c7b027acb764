"""The file of `fwc-llm monitor`: every decision, and what earlier calls fixed.

An SQLite database counts decisions by cell (period, group, label and answer), and knows the cell of
each by a salted hash of its key. Each call is one transaction.

The summary has a sum over all decisions, and beside it the SHA-256 of summary and cells. Each call
compares both, so a file in which any row was edited, added or deleted is refused.
"""

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.sanitize import Json

if TYPE_CHECKING:
    import pandas as pd

WAIT = 60.0  # seconds for another call to end
_TABLES = (
    "CREATE TABLE cells (id INTEGER PRIMARY KEY, period TEXT, people TEXT, label INTEGER, "
    "answer INTEGER CHECK (answer < 4), n INTEGER DEFAULT 0, call INTEGER, "
    "UNIQUE (period, people, label, answer))",
    "CREATE TABLE decisions (key INTEGER PRIMARY KEY, cell INTEGER NOT NULL "
    "CHECK (typeof(cell) = 'integer'))",
    "CREATE TABLE summary (json TEXT NOT NULL, sha256 TEXT NOT NULL)",
)
_NEW = (
    "CREATE TEMP TABLE new (key INTEGER, name TEXT, period TEXT, people TEXT, "
    "label INTEGER, answer INTEGER)"
)
# Without dates, a row that comes again in a later call is of its first call.
_CHANGED = (
    "SELECT name FROM new JOIN decisions USING (key) JOIN cells ON id = cell WHERE "
    "(new.people, new.label, new.answer) <> (cells.people, cells.label, cells.answer) OR "
    "(new.period <> cells.period AND new.period NOT LIKE 'call %')"
)
_TWICE = "SELECT name FROM new GROUP BY key HAVING count(*) > 1"
_ADD = (
    "DELETE FROM new WHERE key IN (SELECT key FROM decisions)",
    "INSERT OR IGNORE INTO cells (period, people, label, answer, call) "
    "SELECT DISTINCT period, people, label, answer, :call FROM new",
    "INSERT INTO decisions SELECT key, id FROM new "
    "JOIN cells USING (period, people, label, answer)",
    "UPDATE cells SET n = n + added FROM (SELECT cell, count(*) AS added FROM new "
    "JOIN decisions USING (key) GROUP BY cell) WHERE id = cell",
)
# Number and sum of decisions, in any order. A decision's product has 62 bits; modulo a prime,
# another cell always changes it, and another key but for one in 2**32; the sum has room for 2**31.
_SUM = (
    "SELECT count(*), ifnull(sum((key % 2147483647 + cell) * (key >> 33 | 1) % 4294967291), 0) "
    "FROM decisions"
)
# Of the only row; another one changes both.
_SUMMARY = "SELECT group_concat(json), group_concat(sha256) FROM summary"


@dataclass
class State:
    """An open file of decisions; `summary` has what calls have to agree on."""

    database: sqlite3.Connection
    path: Path
    summary: Json

    def add(self, decisions: Iterable[tuple[Any, ...]], where: Path) -> None:
        """Add the decisions of the file `where` that are new.

        They are hash of the key, key, period, people, label and answer, as in `cells`.
        """
        self.database.execute(_NEW)
        self.database.executemany(
            "INSERT INTO new VALUES (?, ?, ?, ?, ?, ?)", decisions
        )
        problems = {
            _TWICE: "comes twice: each decision needs a key of its own",
            _CHANGED: "was seen before and has changed: decisions stay as they were made; restore "
            "it, or begin a new file with --state",
        }
        for query, problem in problems.items():
            for (key,) in self.database.execute(query):
                raise FwcError(f"{where}: the row {key!r:.80} {problem}")
        for statement in _ADD:
            self.database.execute(statement, {"call": self.summary["calls"]})
        added = self.database.execute(f"{_SUM} WHERE key IN (SELECT key FROM new)")
        sums = zip(self.summary["decisions"], *added, strict=True)
        self.summary["decisions"] = [*map(sum, sums)]

    def cells(self) -> "pd.DataFrame":
        """All cells, in order of time; answers are 0, 1 or 2: no, yes, unread."""
        import pandas as pd

        by_time = (
            "SELECT * FROM cells ORDER BY length(period), period"  # call 9, then 10
        )
        return pd.read_sql(by_time, self.database)


@contextmanager
def open_state(path: Path) -> Iterator[State]:
    """Open or create a file of decisions as one transaction; an error rolls it back."""
    try:
        with closing(sqlite3.connect(path, WAIT, isolation_level=None)) as database:
            database.execute("PRAGMA temp_store = MEMORY")
            database.execute("BEGIN IMMEDIATE")
            state = State(database, path, _summary(database, path))
            yield state
            text = json.dumps(state.summary)
            values = [text, _sha256(database, text)]
            database.execute("UPDATE summary SET json = ?, sha256 = ?", values)
            database.execute("COMMIT")
    except sqlite3.Error as error:
        raise FwcError(
            f"cannot use the state {path}: {error}; name a file of `fwc-llm monitor`"
        ) from None


def _summary(database: sqlite3.Connection, path: Path) -> Json:
    """The summary of a file, new where it is empty; `FwcError` for another one, or part of one."""
    schema = "SELECT sql FROM sqlite_master WHERE sql NOT NULL"
    tables = tuple(sql for (sql,) in database.execute(schema))
    if not tables:
        for statement in _TABLES:
            database.execute(statement)
        database.execute("INSERT INTO summary VALUES ('', '')")
        salt = secrets.token_hex(8)
        return {
            "values": {},
            "since": [],
            "calls": 1,
            "salt": salt,
            "decisions": [0, 0],
        }
    if tables != _TABLES:
        raise FwcError(
            f"{path} is not a file of this version's `fwc-llm monitor`: begin a new one with "
            "another --state and all decisions"
        )
    text, sha256 = database.execute(_SUMMARY).fetchone()
    if sha256 == _sha256(database, text):
        summary: Json = json.loads(text)
        if summary["decisions"] == [*database.execute(_SUM).fetchone()]:
            summary["calls"] += 1
            return summary
    raise FwcError(
        f"{path} is not as `fwc-llm monitor` wrote it: the file was cut, or rows in it were "
        "edited, added or deleted; go on from a copy, or begin a new file with --state and all "
        "decisions"
    )


def _sha256(database: sqlite3.Connection, text: str) -> str:
    """The SHA-256 of the summary's text and all cells."""
    cells = database.execute("SELECT * FROM cells ORDER BY id").fetchall()
    return hashlib.sha256(f"{text} {cells}".encode()).hexdigest()
