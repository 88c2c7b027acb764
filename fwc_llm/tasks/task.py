"""`Task`: what the columns mean, which is protected, which answer is positive, the question, the table."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fwc_llm.errors import FwcError
from fwc_llm.notebook import MOST_ROWS, Markup, bar, figure, note, table
from fwc_llm.taskfile import Column

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fwc_llm.data.disk_table import DiskTable
    from fwc_llm.data.row_filters import RowCount
    from fwc_llm.data.table import Tables

_FEWEST_TO_NAME, _NAMES_LEVEL = 30, 0.99  # rows of a value that names a level, and their share of that level


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """A table with a protected attribute and a yes/no outcome, and the words for both.

    `columns` are those of `pool()` and `test()` in file order, protected and outcome included. The table is
    read on first use; if no local copy exists, a built-in task's table is downloaded then. `load` reads it;
    `locate` returns the files that hold it, or none if they are not on this machine.
    `simulated` is true where the rows are drawn from a model; every output must then say so. `text` is the
    task file's content and `folder` the place of a task file of one's own, where a task comes from a file;
    `about` is what it says of the purpose and the data (evals/tasks/README.md, "About"). `offered` names the
    attributes that can be protected, of which `protected` are, and `usual` would be if nobody chose. `weight`
    is the column that says for how many a row stands where examples are chosen; empty: all count the same.
    `data` are the files that take the place of those that the task file names; empty: none do. `base_parity`
    is by how much the groups' base rates differ in test rows by default; None: rows as they fall.
    """

    name: str
    title: str
    question: str
    columns: tuple[Column, ...]
    protected: tuple[str, ...]
    outcome: str
    load: "Callable[[], Tables]" = field(repr=False)
    locate: Callable[[], tuple[Path, ...] | None] = field(repr=False, default=lambda: ())
    simulated: bool = False
    licence: str = ""
    citation: str = ""
    note: str = ""
    text: str = field(repr=False, default="")
    folder: Path | None = None
    about: Mapping[str, str] = field(repr=False, default_factory=dict)
    offered: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()
    weight: str = ""
    data: str = ""
    base_parity: float | None = None

    @property
    def features(self) -> tuple[Column, ...]:
        """What the solver uses as X: the features, without protected attributes, extras and outcome."""
        apart = {*self.protected, self.outcome}
        return tuple(
            column for column in self.columns if column.role == "feature" and column.name not in apart
        )

    @property
    def shown(self) -> tuple[Column, ...]:
        """What a prompt may show, in file order: everything but the outcome."""
        return tuple(column for column in self.columns if column.name != self.outcome)

    def column(self, name: str) -> Column:
        """The column called `name`; `FwcError` when there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise FwcError(
            f"task {self.name!r} has no column {name!r}; it has {', '.join(c.name for c in self.columns)}"
        )

    def pool(self) -> "pd.DataFrame":
        """The rows that examples come from (the whole table where the task is one file).

        Indexed by row id ("adult.data:17": file and 1-based line), one column per entry of `columns`: numeric
        int64 when whole, else float64; categorical the raw values as str; protected attributes their level;
        the outcome "yes" or "no". Treat it as read-only: it is read once and shared. Of a table that is too
        large for memory (Parquet files of more than 400,000 rows) it is a sample.
        """
        return self._tables.pool

    def test(self) -> "pd.DataFrame":
        """The rows that test rows are drawn from, as `pool` describes them."""
        return self._tables.test

    @property
    def notes(self) -> tuple[str, ...]:
        """What was kept and dropped when the table was read."""
        return self._tables.notes

    @property
    def rows(self) -> "RowCount | None":
        """The rows that were read and kept, by group, and why others were lost; None where none could be."""
        return self._tables.rows

    @cached_property
    def naming(self) -> tuple[str, ...]:
        """The columns that name a row's protected level: the protected ones, and those that give it away.

        A categorical column gives it away if one of its values stands in at least 30 rows of the pool, and
        99 % of them or more are of one level (Adult's relationship: Husband, Wife).
        """
        import pandas as pd

        pool = self.pool()
        names = list(self.protected)
        for column in self.columns:
            if column.kind == "numeric" or column.name in (*names, self.outcome):
                continue
            for attribute in self.protected:
                counts = pd.crosstab(pool[column.name], pool[attribute]).to_numpy()
                rows = counts.sum(axis=1)
                if ((rows >= _FEWEST_TO_NAME) & (counts.max(axis=1) >= _NAMES_LEVEL * rows)).any():
                    names.append(column.name)
                    break
        return tuple(names)

    def sensitive(self, frame: "pd.DataFrame") -> "np.ndarray":
        """The protected level (n,) of every row as str; several attributes are crossed with " & "."""
        from fwc_llm.data.table import crossed

        return crossed(frame, self.protected)

    def labels(self, frame: "pd.DataFrame") -> "np.ndarray":
        """The outcome (n,) of every row as int8: 1 is yes."""
        return (frame[self.outcome] == "yes").to_numpy(dtype="int8")

    def weights(self, frame: "pd.DataFrame") -> "np.ndarray | None":
        """For how many every row stands (n,), by the column `weight`; None where the task has none."""
        if not self.weight:
            return None
        weights = frame[self.weight].to_numpy(dtype=float)
        wrong = ~((weights >= 0) & (weights < float("inf")))
        if wrong.any():
            row = int(wrong.argmax())
            raise FwcError(
                f"row {frame.index[row]!r} has the weight {weights[row]:g} ({self.weight!r}): weights are "
                "finite numbers of at least 0"
            )
        return weights

    def __repr__(self) -> str:
        protected = ", ".join(self.protected)
        simulated = " (SIMULATED)" if self.simulated else ""
        columns = f"{len(self.columns)} columns, protected {protected}, outcome {self.outcome}"
        return f"<Task {self.name}: {self.title}{simulated}; {columns}>"

    def _repr_html_(self) -> str:
        """The question, and the rows of each group and answer; never starts a download."""
        names = [column.name for column in self.shown]
        columns = f"{len(names)} columns to show: {', '.join(names[:MOST_ROWS])}"
        parts = [note(self.question), note(columns + (", …" if len(names) > MOST_ROWS else ""))]
        return figure(f"{self.name}: {self.title}", *parts, self._counts(), simulated=self.simulated)

    def _counts(self) -> Markup:
        """Groups × answers of the whole table, or why it cannot be shown."""
        if "_tables" not in vars(self) and self.locate() is None:
            return note("the table is not on this machine: task.pool() fetches it, or says what is missing")
        try:
            cells = self.cells_of(self.table)
        except FwcError as error:
            return note(str(error))
        rows = []
        for name, (no, yes) in zip(self.groups, cells.tolist(), strict=True):
            share = yes / (no + yes)
            rows.append([name, f"{no + yes:,}", f"{no:,}", f"{yes:,}", bar(share, f"{share:.1%}")])
        return table((" & ".join(self.protected), "rows", "no", "yes", "share of yes"), rows)

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The protected levels in the order of their base rates in the whole table, lowest first."""
        import numpy as np

        if self.whole is not None:
            names, cells = np.array(self.whole.levels), self.whole.counts
            return tuple(names[np.argsort(cells[:, 1] / cells.sum(1), kind="stable")].tolist())
        table = self.table
        levels, codes = np.unique(self.sensitive(table), return_inverse=True)
        rates = np.bincount(codes, weights=self.labels(table)) / np.bincount(codes)
        return tuple(str(level) for level in levels[np.argsort(rates, kind="stable")])

    def cells_of(self, frame: "pd.DataFrame") -> "np.ndarray":
        """The frame's rows by group and answer (G, 2), "no" before "yes"; of a sample those of its table."""
        import numpy as np

        if self.whole is not None:
            return self.whole.counts[[self.whole.levels.index(group) for group in self.groups]]
        places = {group: place for place, group in enumerate(self.groups)}
        codes = np.array([places[level] for level in self.sensitive(frame).tolist()], dtype=np.intp)
        return np.bincount(2 * codes + self.labels(frame), minlength=2 * len(places)).reshape(-1, 2)

    @cached_property
    def fingerprint(self) -> str:
        """The cleaned table's sha256 in hex: ids, columns and values; the same on every platform."""
        import hashlib

        if self.whole is not None:
            return self.whole.fingerprint
        table, digest = self.table, hashlib.sha256()
        digest.update("\x1f".join(table.index.tolist()).encode())
        for column in self.columns:
            digest.update(f"\x1d{column.name}\x1f{column.kind}\x1e".encode())
            values = table[column.name]
            if column.kind == "numeric":
                digest.update(values.to_numpy(dtype="<f8").tobytes())
            else:
                digest.update("\x1f".join(values.tolist()).encode())
        return digest.hexdigest()

    @property
    def whole(self) -> "DiskTable | None":
        """The table on disk where it is too large for memory: pool and test are then a sample of it."""
        return self._tables.whole

    def including(self, ids: "Collection[str]") -> "pd.DataFrame":
        """The whole table; of one on disk the sample, then those of the rows with these ids it lacks."""
        import pandas as pd

        if self.whole is None:
            return self.table
        lacking = set(ids) - set(self.table.index)
        return pd.concat([self.table, self.whole.take(self.whole.find(lacking))])

    @cached_property
    def table(self) -> "pd.DataFrame":
        """The whole table: pool, then test; of one on disk the sample."""
        import pandas as pd

        pool, test = self.pool(), self.test()
        return pool if test is pool else pd.concat([pool, test])

    @cached_property
    def _tables(self) -> "Tables":
        return self.load()
