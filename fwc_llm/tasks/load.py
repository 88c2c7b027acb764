"""Tasks by their names, of task files, of data frames, of recorded runs, and the simulated census."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.files import home_expanded
from fwc_llm.resources import resource_dir
from fwc_llm.taskfile import ENDINGS, Source, TaskFile, choose, parse_taskfile, read_taskfile
from fwc_llm.tasks.task import Task

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.data.table import Tables

_MOST_SIMULATED = 10_000_000  # rows


def task_names() -> tuple[str, ...]:
    """The built-in tasks, the simulated census among them."""
    return (*sorted(path.stem for path in resource_dir("evals/tasks").glob("*.toml")), "census")


def layout_names() -> tuple[str, ...]:
    """Task files to copy beside a table that everybody fetches themselves (docs/data-sets.md)."""
    return tuple(sorted(path.stem for path in resource_dir("evals/tasks/layouts").glob("*.toml")))


def task_text(name: str) -> str:
    """The text of a built-in task's file, or of one to copy; `FwcError` for other names."""
    names = [*task_names()[:-1], *layout_names()]
    if name not in names:
        raise FwcError(f"no task file {name!r}{did_you_mean(name, names)}")
    folder = "evals/tasks/layouts" if name in layout_names() else "evals/tasks"
    return (resource_dir(folder) / f"{name}.toml").read_text(encoding="utf-8")


def load_task(
    name: "str | Path | pd.DataFrame",
    data_dir: str | Path | None = None,
    *,
    protected: str | Sequence[str] | None = None,
    outcome: str | None = None,
    positive: object = None,
    above: float | None = None,
    others: Literal["no"] | None = None,
    question: str | None = None,
    weight: str | None = None,
    data: str | Path | None = None,
) -> Task:
    """The built-in task called `name`, the task of a TOML file, or one for a data frame.

    The data is looked for in `data_dir`, then in the folder that FWC_LLM_DATA names, then in the user's cache
    folder; for a task file of your own, in that file's folder first. If no folder has it and the task file
    has a `url`, it is downloaded. Nothing is read before it is needed.

    `protected` chooses among the attributes that a task offers (`Task.offered`), one or several; by default
    its own choice.

    For a data frame `protected` names one column or several, and `outcome` another. Yes is the value, or list
    of values, `positive`, or a number above `above`; neither is needed where the values are yes and no or
    the like. Of more than two values `others="no"` says that all but the positive ones mean no; else drop the
    other rows first. `question` replaces the drafted one. The rest is judged as `fwc-llm task init` does:
    `task.text` is the file that it would write.

    `weight` names the column that says for how many a row stands where examples are chosen
    (docs/own-data.md, "Survey weights"), "" none; by default the task file says.

    `data` names Parquet files that take the place of the task's table: a path, a pattern or a folder.

    Raises `FwcError` for an unknown name or an invalid task file; `Task.pool` raises it for faulty data.
    """
    if not isinstance(name, str | Path):
        if not hasattr(name, "columns"):
            raise FwcError(f"a task is a name, a file or a data frame, not {type(name).__name__}")
        if data is not None:
            raise FwcError("a data frame is the table itself: leave out data")
        return _of_frame(name, protected, outcome, positive, above, others, question, weight or "")
    if any(option is not None for option in (outcome, positive, above, others, question)):
        raise FwcError("outcome, positive, above, others and question are for a data frame alone")
    text, beside = str(name), None
    if text.endswith(".toml"):
        path = home_expanded(text)
        taskfile, beside = read_taskfile(path), path.resolve().parent
    elif text in task_names():
        file = "adult" if text == "census" else text
        taskfile = read_taskfile(resource_dir("evals/tasks") / f"{file}.toml")
    else:
        raise FwcError(_no_task(text))
    if text == "census":
        if data is not None:
            raise FwcError("the simulated census has no files: name the task whose table the data is")
        census = census_task()
        if protected is not None and _names(protected) != list(census.protected):
            raise FwcError(f"the simulated census offers {', '.join(census.offered)} alone as protected")
        return replace(census, weight=_chosen(taskfile, None, weight).weight)
    return _of_file(_chosen(taskfile, protected, weight), data_dir, beside, data)


def _no_task(name: str) -> str:
    if Path(name).is_file():
        return (
            f"{name} is no task file (.toml); if it is a table, draft one: fwc-llm task init {name} "
            "--protected COLUMN --outcome COLUMN"
        )
    if name in layout_names():
        return f"{name} is a task file to copy beside a table of your own: fwc-llm task copy {name}"
    return f"unknown task {name!r}{did_you_mean(name, task_names())}; or name a task file ending in .toml"


def default_task(data_dir: str | Path | None = None) -> Task:
    """The task of every command that is not told one: adult where its data is at hand, else the census."""
    adult = load_task("adult", data_dir)
    return census_task() if adult.locate() is None else adult


def layout(name: str) -> Task:
    """The task of a file to copy, without a table."""
    return _of_file(parse_taskfile(task_text(name), Path(f"{name}.toml")))


def recorded_task(
    text: str, name: str, folder: Path | None, data_dir: str | Path | None = None, data: str = ""
) -> Task:
    """The task that a run recorded: its file's `text`, which stood in `folder` where it was no built-in one.

    Its data is looked for as `load_task` does, and never downloaded: anybody may have written the run.
    """
    taskfile = parse_taskfile(text, Path(f"{name}.toml"), name)
    offline = taskfile.source.model_copy(update={"url": ""})
    return _of_file(taskfile.model_copy(update={"source": offline}), data_dir, folder, data or None)


def census_task(n_pool: int | None = None, n_test: int | None = None, seed: int | None = None) -> Task:
    """The task "census": `n_pool` simulated rows to choose examples from, `n_test` to draw test rows from.

    By default both sizes equal Adult's. Columns, words, protected attribute, outcome and question are those
    of the task "adult". `FwcError` for sizes below 2 or above ten million.
    """
    named = {"n_pool": n_pool, "n_test": n_test, "seed": seed}
    options = {name: value for name, value in named.items() if value is not None}
    for name in ("n_pool", "n_test"):
        if not 2 <= options.get(name, 2) <= _MOST_SIMULATED:
            raise FwcError(
                f"the census can be simulated with 2 to {_MOST_SIMULATED:,} rows, not {options[name]:,}"
            )
    adult = read_taskfile(resource_dir("evals/tasks") / "adult.toml")

    def load() -> "Tables":
        from fwc_llm.data.census import census_tables

        return census_tables(adult, **options)

    protected = tuple(attribute.name for attribute in adult.protected)
    return Task(
        name="census",
        title="Simulated census: income above $50k",
        question=adult.question,
        columns=adult.columns,
        protected=protected,
        outcome=adult.outcome.source,
        offered=protected,
        usual=protected,
        load=load,
        simulated=True,
        licence=adult.licence,
        citation=f"Simulated from counts over: {adult.citation}",
        note="Simulated rows: no real person, and no measurement.",
        about={
            "intended_use": "To show and test the tool without data. Nothing made with it is a finding.",
            "population": "Nobody: no row is a person.",
            "source": f"Simulated from counts over: {adult.citation}",
            "limits": "The rows have the columns of the task adult, and only some of its dependencies.",
        },
    )


def _of_frame(
    frame: "pd.DataFrame",
    protected: str | Sequence[str] | None,
    outcome: str | None,
    positive: object,
    above: float | None,
    others: str | None,
    question: str | None,
    weight: str,
) -> Task:
    from fwc_llm.data.reading import as_text, table_of
    from fwc_llm.data.task_draft import draft_frame

    if not protected or not outcome:
        raise FwcError("a data frame needs names of columns: load_task(frame, protected=…, outcome=…)")
    if not len(frame):
        raise FwcError("the data frame has no rows")
    here, names = Path("the data frame"), [str(title).strip() for title in frame.columns]
    attributes = [protected] if isinstance(protected, str) else list(protected)
    wanted = [] if positive is None else positive if isinstance(positive, list | tuple | set) else [positive]
    raw = table_of(frame, here, Source(file="table"), names, "row")
    answer = [f"positive = {json.dumps([as_text(value) for value in wanted])}"] if wanted else []
    answer += [f'others = "{others}"'] if others else []
    answer = [f"threshold = {{ above = {above} }}"] if above is not None else answer
    drafted = draft_frame(raw, attributes, outcome, answer, weight)
    taskfile = parse_taskfile(drafted.text, here, "table")
    raw = table_of(frame, here, taskfile.source, names, "row")

    def load() -> "Tables":
        from fwc_llm.data.table import build_tables

        return build_tables(taskfile, [raw])

    task = _of_file(taskfile)
    return replace(task, question=question or task.question, load=load, locate=lambda: ())


def _of_file(
    taskfile: TaskFile,
    data_dir: str | Path | None = None,
    beside: Path | None = None,
    data: str | Path | None = None,
) -> Task:
    from fwc_llm.data.locate import find_files, places_from_environment

    if data is not None:
        taskfile = taskfile.model_copy(update={"source": _elsewhere(taskfile.source, str(data))})
    places = places_from_environment(data_dir, beside)

    def load() -> "Tables":
        from fwc_llm.data.load import load_tables

        return load_tables(taskfile, places)

    return Task(
        name=taskfile.name,
        title=taskfile.title,
        question=taskfile.question,
        columns=taskfile.columns,
        protected=tuple(attribute.name for attribute in taskfile.protected),
        outcome=taskfile.outcome.source,
        load=load,
        locate=lambda: find_files(taskfile, places),
        licence=taskfile.licence,
        citation=taskfile.citation,
        note=taskfile.note,
        text=taskfile.text,
        folder=beside,
        about=taskfile.about,
        offered=tuple(attribute.name for attribute in taskfile.offered),
        usual=tuple(attribute.name for attribute in taskfile.offered if not attribute.optional),
        weight=taskfile.weight,
        data=taskfile.source.files[0] if data is not None else "",
        base_parity=None if taskfile.base_parity == "none" else taskfile.base_parity,
    )


def _elsewhere(source: Source, data: str) -> Source:
    """The source of Parquet files in the place of those that a task file names."""
    from fwc_llm.data.locate import check_named

    check_named(data)
    endings = {".csv": "csv", ".tsv": "csv", ".txt": "csv", **ENDINGS}
    if endings.get(Path(data).suffix.lower(), "parquet") != "parquet":
        raise FwcError(f"{data} is no Parquet file, which --data takes: write the table as such")
    file = str(home_expanded(data).absolute())
    return Source(file=file, format="parquet", missing_marker=source.markers)


def _chosen(taskfile: TaskFile, protected: str | Sequence[str] | None, weight: str | None) -> TaskFile:
    """The task file with another choice of protected attributes and weight, where there is one."""
    chosen = taskfile if protected is None else choose(taskfile, "use_protected", _names(protected))
    return chosen if weight is None else choose(chosen, "weight", weight)


def _names(protected: str | Sequence[str]) -> list[str]:
    """One name, several, or a text with commas between them."""
    names = protected.split(",") if isinstance(protected, str) else protected
    return [name.strip() for name in names]
