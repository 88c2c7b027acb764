"""Prediction tasks on tables: built-in ones, those of task files and data frames."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup

from fwc_llm import cell_rules
from fwc_llm.cell_rules import Domain, FrozenTask, TaskRow, title_of
from fwc_llm.errors import FwcError, checked, did_you_mean, require
from fwc_llm.files import (
    failing_as,
    home_expanded,
    in_shell,
    json_text,
    new_path,
    read_text,
    resource_dir,
    write_whole,
)
from fwc_llm.meaning import values_of
from fwc_llm.notebook import MOST_ROWS, figure, note, table
from fwc_llm.notices import LOG, DataWarning, tell
from fwc_llm.number_format import percent
from fwc_llm.sanitize import Fields, Json, Texts, kind_of, listed, parse_json
from fwc_llm.taskfile import (
    FRAME,
    TEXT_OF_FRAME,
    About,
    Column,
    Source,
    TaskFile,
    checks_of,
    choose,
    parse_taskfile,
    read_taskfile,
)
from fwc_llm.validation import check
from fwc_llm.words import ANSWERS, is_known, named, spellings

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from narwhals.typing import IntoFrame

    from fwc_llm.data.clean_table import CleanTables, RowCount
    from fwc_llm.data.given_frames import FrameReader
    from fwc_llm.data.table_checks import TableChecks

_FEWEST_TO_NAME, _NAMES_LEVEL = (
    30,
    0.99,
)  # a value reveals a level: its rows, and the level's share in them


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """A yes/no prediction task: data, protected attributes, outcome, wording.

    The table is read on first use; the table of a built-in task is downloaded if this machine lacks
    it. `rules` is the task file: how cells are read, purpose and data (`rules.citation`), defaults.
    `simulated` means that the rows are drawn from a model; every output must say so.
    """

    rules: TaskFile
    _load: "Callable[[], CleanTables]"
    _locate: Callable[[], tuple[Path, ...] | None] = tuple
    simulated: bool = False
    _frozen: FrozenTask | None = None
    _frame: "tuple[Any, pd.Index] | None" = None

    def __getstate__(self) -> Json:
        """The fields, and the tables if they are read; not what is computed from them."""
        kept = {item.name for item in fields(self)} | {"_tables"}
        return {name: value for name, value in vars(self).items() if name in kept}

    @property
    def name(self) -> str:
        """The task's name."""
        return self.rules.name

    @property
    def title(self) -> str:
        """The name in outputs."""
        return self.rules.title

    @property
    def question(self) -> str:
        """What prompts ask."""
        return self.rules.question

    @property
    def text(self) -> str:
        """The text of the task file; "" for simulated rows."""
        return "" if self.simulated else self.rules.text

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of `pool()` and `test()` in file order."""
        return self.rules.columns

    @cached_property
    def protected(self) -> Texts:
        """The protected attributes in use."""
        return tuple(attribute.name for attribute in self.rules.protected)

    @property
    def offered(self) -> Texts:
        """The attributes that `load_task(…, protected=…)` can choose."""
        return tuple(attribute.name for attribute in self.rules.offered)

    @property
    def outcome(self) -> str:
        """The column of the outcome."""
        return self.rules.outcome.source

    @property
    def features(self) -> tuple[Column, ...]:
        """The feature columns X: without protected attributes, extras and outcome."""
        excluded = {*self.protected, self.outcome}
        return tuple(
            column
            for column in self.columns
            if column.role == "feature" and column.name not in excluded
        )

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns that prompts may show: all but the outcome."""
        return tuple(column for column in self.columns if column.name != self.outcome)

    @property
    def refers(self) -> bool:
        """Whether a third answer, refer, is among the outcomes and the answers."""
        return bool(self.rules.outcome.refer)

    @property
    def example_labels(self) -> Texts:
        """The labels, by code, of rows that may be examples."""
        return ANSWERS[: 2 + self.rules.outcome.examples_refer]

    @property
    def spellings(self) -> dict[str, list[str]]:
        """The words for "yes" and "no" (and "refer") in replies; prompts ask for the first one."""
        outcome = self.rules.outcome
        values: dict[str, Texts] | None = None
        if outcome.positive and outcome.negative:
            values = {"yes": outcome.positive, "no": outcome.negative}
            if self.refers:
                values["refer"] = outcome.refer
        return spellings(self.question, self.rules.words, values)

    def column(self, name: str) -> Column:
        """The column called `name`; `FwcError` if the task has none."""
        by_name = {column.name: column for column in self.columns}
        name = title_of(name)
        if name not in by_name:
            raise self._no_column(name, by_name)
        return by_name[name]

    def _no_column(self, name: str, by_name: Mapping[str, Column]) -> FwcError:
        for item in self.rules.fields:
            if item.name == name and item.use != "column":
                return FwcError(
                    f'column {name!r} is in the table, but left out (role = "{item.role}" in '
                    f"{self.rules.place}): leave its role out to make it a feature, or write "
                    f'role = "extra" to use it without being shown (for a weight, '
                    f"{_as_weight(self.rules, name)})"
                )
        return FwcError(
            f"task {self.name!r} has no column {name!r}{did_you_mean(name, by_name)}"
        )

    def pool(self) -> "pd.DataFrame":
        """The rows to choose examples from; the whole table if the task has one file.

        The index has row ids ("adult.data:17": file and 1-based line). The columns are `columns`:
        numeric values as int64 if all are whole, else float64; categories as str, unmapped;
        protected attributes as their level; the outcome as "yes" or "no", which are the table's own
        words where it has them (`labels` tells which means yes). Do not modify the frame: it is
        read once and shared.
        """
        return self._tables.pool

    def test(self) -> "pd.DataFrame":
        """The rows from which test rows are drawn, with the index and columns of `pool`."""
        return self._tables.test

    def record(self, raw: "TaskRow | Mapping[Any, Any] | pd.Series") -> TaskRow:
        """Clean one raw row of the table's file.

        `raw` has the file's columns, typed or as text. Its outcome and unknown columns are ignored.
        An unchanged row (Series) of `pool()` or `test()` keeps its values; a record is returned
        unchanged.

        Raises `FwcError`, naming column and value, for rows that no evaluation covers: a level or
        category that no row of the table has, text instead of a number, a negative number in a
        column without negative numbers, a missing value that becomes no category. A number outside
        the table's range gives a sentence in `TaskRow.notes`.
        """
        if isinstance(raw, TaskRow):
            if raw.task != self.name:
                raise FwcError(
                    f"the record is of task {raw.task!r}, not of {self.name!r}"
                )
            if raw.fingerprint not in ("", self.fingerprint):
                raise FwcError(
                    f"the record is of another table of the task {self.name!r}: clean the raw row "
                    f"with this task's record(…)"
                )
            return raw
        if not (
            isinstance(raw, Mapping)
            or (getattr(raw, "ndim", 0) == 1 and hasattr(raw, "items"))
        ):
            raise FwcError(
                f"a row is a mapping or Series by column names, not {type(raw).__name__}"
            )
        cells = {title_of(name): cell for name, cell in raw.items()}
        if not isinstance(raw, Mapping) and has_row(self, raw.name, cells):
            values = {column.name: cells[column.name] for column in self.shown}
            return TaskRow(self.name, values, fingerprint=self.fingerprint)
        for name in {item.name for item in self.rules.fields} - cells.keys():
            base = cell_rules.base_of(name, cells)
            if base:
                cells[name] = cell_rules.at(cells[base], name[len(base) :])
        cleaned = cell_rules.clean_record(self.rules, self.name, self._domains, cells)
        return replace(cleaned, fingerprint=self.fingerprint)

    @cached_property
    def _domains(self) -> Mapping[str, Domain]:
        """The range or the values of each column of the whole table."""
        if self._frozen is not None:
            return self._frozen.domains
        from fwc_llm.data.clean_table import domain_of

        return {
            column.name: domain_of(column, self.table[column.name])
            for column in self.columns
        }

    @checked
    def freeze(self, path: str | Path, force: bool = False) -> None:
        """Save the task without its rows, as JSON for a service without the table.

        `load_task` reads the file. `FwcError` if the file cannot be written, or exists and `force`
        is False.
        """
        path = new_path(path, force)
        frozen = FrozenTask(
            name=self.name,
            simulated=self.simulated,
            text=self.rules.text,
            fingerprint=self.fingerprint,
            domains=self._domains,
        )
        write_whole(json_text(frozen.model_dump(mode="json")), path, "the frozen task ")

    @property
    def notes(self) -> Texts:
        """Notes on rows and columns that were kept or dropped."""
        return self._tables.notes

    @property
    def rows(self) -> "RowCount | None":
        """Numbers of rows read, kept and lost, by group; None if no row can be lost."""
        return self._tables.rows

    @cached_property
    def checks(self) -> "TableChecks":
        """Possible problems of the whole table (for a table on disk, of its sample)."""
        from fwc_llm.data.table_checks import TableChecks, check_table

        if self.simulated:
            return TableChecks()
        return check_table(self.table, self.columns, self.outcome, self.protected)

    def sensitive(self, frame: "IntoFrame") -> "np.ndarray":
        """Protected levels (n,) as str; levels of several attributes are joined by " & ".

        The rows are those of `pool()` or `test()`, or raw rows of the table, which are read as the
        task reads its table. `FwcError` for a level that the table lacks.
        """
        from fwc_llm.data.clean_table import crossed

        groups = {name: self._reader.groups(frame, name) for name in self.protected}
        return crossed(groups, self.protected)

    def labels(self, frame: "IntoFrame") -> "np.ndarray":
        """Outcomes (n,) as int8: 1 is yes, 0 is no, 2 is refer (`task.refers`).

        The rows are those of `pool()` or `test()`, or raw rows of the table, whose outcomes have
        the task's meaning. `FwcError` for an outcome without a meaning.
        """
        return self._reader.outcomes(frame)

    def cleaned(self, frame: "IntoFrame") -> "tuple[pd.DataFrame, np.ndarray]":
        """The frame with cells as in `pool()`, and a mask (n,) of the rows that are kept.

        A frame of raw rows is cleaned as the task's table was. `FwcError` for a cell that the task
        does not know.
        """
        return self._reader.cleaned(frame)

    def __repr__(self) -> str:
        roles = f"protected {', '.join(self.protected)}, outcome {self.outcome}"
        title = f"{self.name}: {self.title}{' (SIMULATED)' * self.simulated}"
        return f"<Task {title}; {len(self.columns)} columns, {roles}>"

    def _repr_html_(self) -> str:
        """The question, and numbers of rows by group and outcome; downloads nothing."""
        names = [column.name for column in self.shown]
        columns = f"{len(names)} columns to show: {', '.join(names[:MOST_ROWS])}"
        parts = [
            note(self.question),
            note(columns + (", …" if len(names) > MOST_ROWS else "")),
        ]
        return figure(
            f"{self.name}: {self.title}",
            *parts,
            self._counts(),
            simulated=self.simulated,
        )

    def _counts(self) -> Markup:
        """Numbers of rows by group and outcome, or the reason why they are not available."""
        if "_tables" not in vars(self) and self._locate() is None:
            return note(
                "the table is not on this machine: task.pool() fetches it, or says what is missing"
            )
        try:
            cells = self.cells_of(self.table)
        except FwcError as error:
            return note(str(error))
        rows = []
        for name, counts in zip(self.groups, cells.tolist(), strict=True):
            numbers = [f"{n:,}" for n in (sum(counts), *counts)]
            rows.append([name, *numbers, percent(counts[1] / sum(counts))])
        answers = ANSWERS[: 2 + self.refers]
        headings = " & ".join(self.protected), "rows", *answers, "share of yes"
        return table(headings, rows)

    @cached_property
    def _reader(self) -> "FrameReader":
        from fwc_llm.data.given_frames import FrameReader

        features = [column.name for column in self.features]
        meaning = self._tables.meaning
        return FrameReader(self.rules, self.table, self._domains, features, meaning)

    @cached_property
    def groups(self) -> Texts:
        """The groups, sorted by their base rate in the whole table, lowest first."""
        import pandas as pd

        rates = (
            pd.Series(self.labels(self.table) == 1)
            .groupby(self.sensitive(self.table))
            .mean()
        )
        return tuple(rates.sort_values(kind="stable").index.tolist())

    def cells_of(self, frame: "IntoFrame") -> "np.ndarray":
        """Numbers of rows (G, L) of `frame` by group and outcome: no, yes and, in a task that
        `refers`, refer.
        """
        import pandas as pd

        counts = pd.crosstab(self.sensitive(frame), self.labels(frame))
        return counts.reindex(
            index=self.groups, columns=range(2 + self.refers), fill_value=0
        ).to_numpy()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the cleaned table, equal on every platform."""
        if self._frozen is not None:
            return self._frozen.fingerprint
        import numpy as np

        from fwc_llm.data.clean_table import fingerprint

        # Where "yes" and "no" mean the opposite, the table keeps them: see `Meaning.answers`.
        answers = np.array(ANSWERS)[self.labels(self.table)]
        return fingerprint(self.columns, self.table.assign(**{self.outcome: answers}))

    @cached_property
    def table(self) -> "pd.DataFrame":
        """The whole table, pool before test."""
        import pandas as pd

        pool = self.pool()
        test = self.test()
        if test is pool:
            return pool
        return pd.concat([pool, test])

    @cached_property
    def _tables(self) -> "CleanTables":
        tables = self._load()
        for line in tables.notes:
            LOG.info("%s: %s", self.name, line)
        return tables


# --- What a task is to the rest of the package


def table_files(task: Task) -> tuple[Path, ...] | None:
    """The files of the table; None if this machine lacks them."""
    return task._locate()


def has_row(task: Task, row: Any, cells: Fields) -> bool:
    """Whether the table has a row with this id and exactly these `cells` to show.

    False for a frozen task, which has no table.
    """
    names = [column.name for column in task.shown]
    if task._frozen is not None or not cells.keys() >= {*names}:
        return False
    if row not in task.table.index:
        return False
    values = task.table.loc[row]
    return all(
        not cell_rules.is_null(cells[name]) and cells[name] == values[name]
        for name in names
    )


def ids_of(task: Task, row: Any, record: TaskRow) -> list[Any]:
    """The ids in the table of a row (Series) that was cleaned to this record; [] for others."""
    name = getattr(row, "name", None)
    names = name, f"row:{name}"
    return [one for one in names if has_row(task, one, record.values)]


def is_queried(
    task: Task, row: Any, record: TaskRow, table: "pd.DataFrame"
) -> "np.ndarray":
    """Mark the rows (n,) of a table that are the row of this record: by id, else by all cells."""
    ids = ids_of(task, row, record)
    if ids:
        return table.index.isin(ids)
    alike = table
    for name, value in record.values.items():
        alike = alike[alike[name] == value]
    return table.index.isin(alike.index)


@lru_cache(maxsize=1)
def revealing_columns(task: Task) -> Texts:
    """The protected columns, and categorical columns that reveal a level.

    A column reveals a level if one of its values has at least 30 rows in the pool, and at least
    99 % of these rows have the same level (in Adult, relationship: Husband, Wife).
    """
    import pandas as pd

    pool = task.pool()
    names = list(task.protected)
    for column in task.columns:
        if column.kind == "numeric" or column.name in (*names, task.outcome):
            continue
        for attribute in task.protected:
            counts = pd.crosstab(pool[column.name], pool[attribute]).to_numpy()
            rows = counts.sum(axis=1)
            if (
                (rows >= _FEWEST_TO_NAME) & (counts.max(axis=1) >= _NAMES_LEVEL * rows)
            ).any():
                names.append(column.name)
                break
    return tuple(names)


def known_groups(task: Task) -> Texts:
    """The groups without "unknown", in the same order: those of which examples are shown."""
    return tuple(filter(is_known, task.groups))


def given_rows(task: Task) -> "tuple[Any, pd.Index]":
    """The frame that `load_task` got, as it was, and the ids of its rows; else `table`."""
    return task._frame or (task.table, task.table.index)


def reverses(task: Task) -> bool:
    """Whether a value that usually means yes means no in the task's table."""
    return task._tables.meaning.reverses


def with_columns(task: Task, weight: str, cluster: str) -> Task:
    """The task with the columns `weight` (sampling weights), `cluster` (people); "" for
    none.
    """
    for name in filter(None, (weight, cluster)):
        task.column(name)
    if weight and (task.column(weight).role, task.column(weight).kind) != (
        "extra",
        "numeric",
    ):
        raise FwcError(
            f"weight: {weight!r} is a feature, or no number; a weight needs "
            f"{_as_weight(task.rules, weight)}"
        )
    load = partial(getattr, task, "_tables")
    chosen = {"weight": weight, "cluster": cluster}
    rules = task.rules.model_copy(update=chosen)
    return replace(task, rules=rules, _load=load)


def _as_weight(rules: TaskFile, name: str) -> str:
    """How a column becomes one of weights."""
    if rules.path == FRAME:
        return f"load_task(frame, …, weight={name!r})"
    return f'kind = "numeric" and role = "extra" in {rules.place}'


def sampling_weights(task: Task, frame: "pd.DataFrame") -> "np.ndarray | None":
    """Sampling weights (n,) from the column `weight`; None without this column.

    `FwcError` for a weight that is negative or not finite.
    """
    name = task.rules.weight
    if not name:
        return None
    from fwc_llm.data.given_frames import column

    weights = column(frame, name).to_numpy(dtype=float)
    wrong = ~((weights >= 0) & (weights < float("inf")))
    if wrong.any():
        row = int(wrong.argmax())
        problem = f"row {frame.index[row]!r} has the weight {weights[row]:g} ({name!r})"
        raise FwcError(f"{problem}: weights are finite numbers of at least 0")
    return weights


# --- Where the tables of tasks come from: functions, so that a task can be sent to another process


def _files(rules: TaskFile, folders: Sequence[Path]) -> "CleanTables":
    """Read the files of a task file."""
    from fwc_llm.data.load import load_tables

    return load_tables(rules, folders)


def _located(rules: TaskFile, folders: Sequence[Path]) -> tuple[Path, ...] | None:
    """Find the files of a task file."""
    from fwc_llm.data.locate import find_files

    tables = find_files(rules, folders)
    return None if tables is None else tuple(chain(*tables))


def _given(tables: "CleanTables") -> "CleanTables":
    """A frame, already cleaned."""
    return tables


def _simulated(adult: TaskFile, *sizes: int, **options: int) -> "CleanTables":
    from fwc_llm.data.census import census_tables

    return census_tables(adult, *sizes, **options)


def _no_table(path: Path) -> "CleanTables":
    raise FwcError(
        f"{path} is a frozen task, which has no rows: name the task that was frozen"
    )


def _no_files() -> None:
    """A frozen task has no rows."""


def task_names() -> Texts:
    """The names of the built-in tasks; the simulated census is the last."""
    return (
        *sorted(path.stem for path in resource_dir("evals/tasks").glob("*.toml")),
        "census",
    )


def layout_names() -> Texts:
    """Names of task files for tables that users obtain (docs/own-data.md)."""
    return tuple(
        sorted(path.stem for path in resource_dir("evals/tasks/layouts").glob("*.toml"))
    )


def task_text(name: str) -> str:
    """The text of a file in `task_names` or `layout_names`, else `FwcError`."""
    names = [*task_names()[:-1], *layout_names()]
    if name not in names:
        raise FwcError(f"no task file {name!r}{did_you_mean(name, names)}")
    folder = "evals/tasks/layouts" if name in layout_names() else "evals/tasks"
    return (resource_dir(folder) / f"{name}.toml").read_text(encoding="utf-8")


@checked
def load_task(
    name: "str | Path | IntoFrame",
    data_dir: str | Path | None = None,
    *,
    protected: Hashable | Sequence[Hashable] | None = None,
    outcome: Hashable | None = None,
    positive: object = None,
    negative: object = None,
    refer: object = None,
    above: float | None = None,
    others: Literal["no", "drop"] | None = None,
    words: Mapping[str, str] | Literal["values"] | None = None,
    question: str | None = None,
    weight: Hashable | None = None,
) -> Task:
    """Load a built-in task, a task file or a frozen task, or make a task of a frame.

    The table is looked for in the folder of a TOML file, in `data_dir`, in the folder that
    FWC_LLM_DATA names, and in the user's cache folder. If none of these has the table and the task
    file has a `url`, the table is downloaded on first use. `protected` chooses among the attributes
    that a task offers (`Task.offered`).

    For a data frame, `protected` names one or more columns, and `outcome` one column. `positive` is
    the value, or the list of values, that means yes, `negative` those that mean no; with `above`,
    larger numbers mean yes. All may be left out if the values are words such as yes and no. `refer`
    are the values of a third answer, by which a person decides. Any other values mean no
    (`others="no"`), or their rows are dropped (`others="drop"`). `words` are the words for yes and
    no (and refer) in prompts and replies; "values" takes the values of the outcome column.
    `question` replaces the drafted question. Everything else is inferred as by `fwc-llm task init`;
    `task.text` is the resulting task file. A row's id is "row:" and its index label: "row:17".

    `weight` is the column of sampling weights for choosing examples
    (docs/own-data.md, "Weights"); "" means no weights; the default is the task file's
    `weight`.

    Raises `FwcError` for an unknown name or an invalid task file; `Task.pool` raises it for faulty
    data.
    """
    if not isinstance(name, str | Path):
        return _of_frame(
            name,
            protected,
            outcome,
            weight,
            question,
            words,
            positive=values_of(positive),
            negative=values_of(negative),
            refer=values_of(refer),
            others=others,
            threshold=None if above is None else {"above": above},
        )
    of_frames = outcome, positive, negative, refer, above, others, words, question
    if any(option is not None for option in of_frames):
        raise FwcError(
            "outcome, positive, negative, refer, above, others, words and question are only for a "
            "data frame"
        )
    text = str(name)
    folder = None
    if text.endswith(".json"):
        if any(option is not None for option in (protected, weight)):
            raise FwcError(
                f"{text} is a frozen task: choose protected and weight when you freeze it"
            )
        return _thawed(home_expanded(text))
    if text.endswith(".toml"):
        path = home_expanded(text)
        taskfile = read_taskfile(path)
        folder = path.resolve().parent
    elif text in task_names():
        file = "adult" if text == "census" else text
        taskfile = read_taskfile(resource_dir("evals/tasks") / f"{file}.toml")
    else:
        raise FwcError(_no_task(text))
    if text == "census":
        census = census_task()
        if protected is not None and _names(protected) != list(census.protected):
            raise FwcError(
                f"the simulated census offers {', '.join(census.offered)} alone as protected"
            )
        weighted = {"weight": _chosen(taskfile, None, weight).weight}
        return replace(census, rules=census.rules.model_copy(update=weighted))
    return _of_file(_chosen(taskfile, protected, weight), data_dir, folder)


def as_task(task: "str | Path | Task", data_dir: str | Path | None = None) -> Task:
    """The task that is given by a name, a task file or itself; `FwcError` for anything else."""
    if isinstance(task, Task):
        return task
    if isinstance(task, str | Path):
        return load_task(task, data_dir)
    raise FwcError(
        f"the task is {kind_of(task)}: give a Task, a task file, or a name "
        f"({', '.join(task_names())}); load_task(frame, protected=…, outcome=…) makes a task of a "
        f"data frame"
    )


def _thawed(path: Path) -> Task:
    """Load the file that `Task.freeze` wrote."""
    with failing_as(FwcError, f"cannot read the frozen task {path}: "):
        frozen = check(FrozenTask, parse_json(read_text(path)), str(path))
    task = _of_file(parse_taskfile(frozen.text, path, frozen.name))
    if frozen.simulated:
        task = census_task()

    lacking = {column.name for column in task.shown} - set(frozen.domains)
    if lacking:
        raise FwcError(f"{path}: domains: column {min(lacking)!r} is missing")
    return replace(
        task, _load=partial(_no_table, path), _locate=_no_files, _frozen=frozen
    )


def _no_task(name: str) -> str:
    if Path(name).is_file():
        init = (
            f"`fwc-llm task init {in_shell(name)} --protected COLUMN --outcome COLUMN`"
        )
        return (
            f"{name} is not a task file (.toml); if it is a table, draft one with {init}, or in "
            f"Python pass its data frame"
        )
    if name in layout_names():
        return (
            f"{name} is a task file to copy beside a table of your own: `fwc-llm task copy "
            f"{name}`, or write the text of fwc_llm.tasks.task_text({name!r}) to a file"
        )
    return (
        f"unknown task {name!r}{did_you_mean(name, task_names())}; or name a task file ending in "
        f".toml"
    )


def default_task(data_dir: str | Path | None = None) -> Task:
    """The default task: adult if its data is on this machine, else the census."""
    adult = load_task("adult", data_dir)
    if table_files(adult) is None:
        return census_task()
    return adult


def recorded_task(
    text: str, name: str, folder: Path | None, data_dir: str | Path | None = None
) -> Task:
    """The task that a run recorded; nothing is downloaded, as its folder is untrusted."""
    taskfile = parse_taskfile(text, Path(f"{name}.toml"), name)
    offline = taskfile.source.model_copy(update={"url": ""})
    return _of_file(taskfile.model_copy(update={"source": offline}), data_dir, folder)


def census_task(*sizes: int, **options: int) -> Task:
    """The simulated task "census"; arguments as of `census_tables`."""
    adult = read_taskfile(resource_dir("evals/tasks") / "adult.toml")
    citation = f"Simulated from counts over: {adult.citation}"
    about = About(
        intended_use="To show and test the tool without data. Nothing made with it is a finding.",
        population="Nobody: no row is a person.",
        source=citation,
        limits="The rows have the columns of the task adult, and only some of its dependencies.",
    )
    changes = {
        "name": "census",
        "title": "Simulated census: income above $50k",
        "offered": adult.protected,
        "citation": citation,
        "note": "Simulated rows: no real person, and no measurement.",
        "about_entries": about,
        "weight": "",
        "base_parity": None,
    }
    return Task(
        rules=adult.model_copy(update=changes),
        _load=partial(_simulated, adult, *sizes, **options),
        simulated=True,
    )


def _of_frame(
    frame: Any,
    protected: Any,
    outcome: Any,
    weight: Any,
    question: str | None,
    words: Any,
    **answer: Any,
) -> Task:
    """Draft a task for a frame; `words` and `answer` are keys of [outcome], or None."""
    from fwc_llm.data.clean_table import clean_tables
    from fwc_llm.data.raw_table import frame_table, titles_of
    from fwc_llm.data.task_inference import Drafting

    table = frame_table(frame)
    attributes = [] if protected is None else titles_of(frame, protected)
    if not attributes or outcome is None:
        raise FwcError(
            f"a data frame needs names of columns: load_task(frame, protected=…, outcome=…); "
            f"there are {listed(table.titles, 20)}"
        )
    if isinstance(words, Mapping):
        for key, word in words.items():
            require(word, str, f"words[{key!r}]", "give a text")
    source = Source(file="table", format="parquet")
    names = title_of(outcome), "row", "" if weight is None else title_of(weight)
    given = {key: value for key, value in {**answer, "words": words}.items() if value}
    drafting = Drafting(Path("table"), source, table, attributes, *names, answer=given)
    taskfile = parse_taskfile(drafting.draft(Path()), FRAME, "table")
    if question is not None:
        taskfile = choose(taskfile, "question", question)
    _tell_guesses(checks_of(taskfile.text))
    raw = table.frame(drafting.raw.columns.tolist(), "row", taskfile.notations)
    tables = clean_tables(taskfile, [raw])
    return replace(
        _of_file(taskfile),
        _load=partial(_given, tables),
        _locate=tuple,
        _frame=(_kept(frame), raw.index),
    )


def _kept(frame: Any) -> Any:
    """The frame, which later changes of the caller's do not reach."""
    import pandas as pd

    return frame.copy(deep=False) if isinstance(frame, pd.DataFrame) else frame


def _tell_guesses(checks: Sequence[str]) -> None:
    """Warn of guesses about a frame."""
    if checks:
        guesses = "".join(f"\n* {line}" for line in checks)
        tell(
            f"the data frame was read by guesses, as in {TEXT_OF_FRAME}:{guesses}",
            DataWarning,
        )


def _of_file(
    taskfile: TaskFile, data_dir: str | Path | None = None, folder: Path | None = None
) -> Task:
    from fwc_llm.data.locate import data_folders

    folders = data_folders(data_dir, folder)
    return Task(
        rules=taskfile.model_copy(update={"folder": folder}),
        _load=partial(_files, taskfile, folders),
        _locate=partial(_located, taskfile, folders),
    )


def _chosen(taskfile: TaskFile, protected: Any, weight: Any) -> TaskFile:
    """The task file with other protected attributes and weight; None keeps them."""
    if protected is None:
        chosen = taskfile
    else:
        offered = [attribute.name for attribute in taskfile.offered]
        names = named(_names(protected), offered)
        chosen = choose(taskfile, "use_protected", names)
    if weight is None:
        return chosen
    require(weight, str, "weight", 'name a column, or give ""')
    return choose(chosen, "weight", weight)


def _names(protected: Any) -> list[str]:
    """The names in a list, or in a comma-separated text."""
    require(
        protected, (str, list, tuple), "protected", "give a name, or a list of names"
    )
    names = protected.split(",") if isinstance(protected, str) else protected
    return [title_of(name).strip() for name in names]
