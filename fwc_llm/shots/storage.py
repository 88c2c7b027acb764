"""Shots files (JSON): the examples, their table, weights and certificate."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from fwc_llm.errors import FwcError, checked, require
from fwc_llm.files import failing_as, json_text, new_path, read_text, write_whole
from fwc_llm.sanitize import Json, parse_json
from fwc_llm.shots.base import Example, Shots
from fwc_llm.shots.select import check_examples
from fwc_llm.validation import check

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

FORMAT = "fwc-llm-shots/1"
_LARGEST = 1 << 26  # bytes


@checked
def save_shots(shots: Shots, path: str | Path, force: bool = False) -> None:
    """Write `shots` to `path` atomically.

    Raises `FwcError` if the file cannot be written, or exists and `force` is False.
    """
    require(shots, Shots, "the first argument", "give Shots, as select_shots returns")
    path = new_path(path, force)
    text = json_text(shots_json(shots))
    with suppress(OSError):  # the write below reports the error
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(text, path, "the shots to ")


@checked
def load_shots(
    path: str | Path,
    task: "str | Path | Task | None" = None,
    allow_changed_data: bool = False,
) -> Shots:
    """Read the shots file at `path`, written by `save_shots`.

    With a `task` the file must belong to it and, unless `allow_changed_data`, to the same table.

    Errors: `FwcError` for an unreadable file, an invalid file (the error names the key), duplicate
    rows, another task, and a changed table.
    """
    from fwc_llm.tasks import as_task

    require(path, (str, Path), "the shots file", "give its path")
    where = f"shots file {path}"
    with failing_as(FwcError, f"{where} cannot be read: "):
        content = parse_json(read_text(Path(path), _LARGEST), strict=True)
    fields = check(_ShotsFile, content, where).model_dump(exclude={"format"})
    fields["protected"] = tuple(fields["protected"])
    fields["examples"] = tuple(Example(**one) for one in fields["examples"])
    shots = Shots(**fields)
    check_examples(shots.examples, where)
    if task is not None:
        task = as_task(task)
        check_task(shots, task, allow_changed_data, where)
    return shots


class _ExampleInFile(BaseModel, strict=True):
    row: str
    values: dict[str, str | int | float]
    label: Literal["yes", "no", "refer"]
    weight: float | None = None


class _ShotsFile(BaseModel, strict=True):
    format: Literal["fwc-llm-shots/1"]
    task: str
    fingerprint: str
    protected: list[str] = []
    strategy: str
    seed: int
    options: Json
    certificate: Json | None = None
    examples: list[_ExampleInFile]


def shots_json(shots: Shots) -> Json:
    """The content of a shots file."""
    displayed = {example.row: weight for example, weight in shots.shown()}
    content = {"format": FORMAT, **vars(shots), "options": dict(shots.options)}
    if not shots.protected:
        del content["protected"]
    content["examples"] = [
        vars(example)
        | {"displayed": displayed.get(example.row), "values": dict(example.values)}
        for example in shots.examples
    ]
    return content


def check_task(
    shots: Shots, task: "Task", allow_changed_data: bool, where: str
) -> None:
    """`FwcError` for shots of another task or, unless allowed, of another table."""
    if shots.task != task.name:
        raise FwcError(
            f"{where} is for the task {shots.task!r}, not {task.name!r}: choose examples of "
            f"{task.name!r}, for instance by its strategy {shots.strategy!r}"
        )
    chosen_for = set(shots.protected or task.rules.usual or task.protected)
    if chosen_for != set(task.protected):
        raise FwcError(
            f"{where} was chosen for parity by {' & '.join(sorted(chosen_for))}, not by "
            f"{' & '.join(sorted(task.protected))}: choose its examples anew with that "
            f"--protected, or "
            f"ask with --protected {','.join(sorted(chosen_for))}"
        )
    if shots.fingerprint != task.fingerprint:
        answers, others = _changes(shots, task)
        if answers or not allow_changed_data:
            accept = "" if answers else ", or pass --allow-changed-data"
            usual = "rows that are not among the examples have changed"
            change, *_ = [*answers, *others, usual]
            raise FwcError(
                f"{where} was chosen from another frame, or another version of the table of "
                f"{task.name!r} ({change}): choose its examples anew{accept}"
            )
    needed = {column.name for column in task.shown}
    for example in shots.examples:
        lacking = sorted(needed - set(example.values))
        if lacking:
            raise FwcError(
                f"{where}: row {example.row!r} has no value for the column {lacking[0]!r}"
            )


def _changes(shots: Shots, task: "Task") -> tuple[list[str], list[str]]:
    """How the table differs from saved examples: in their answers, and otherwise."""
    from fwc_llm.shots.examples import make_examples

    try:
        table = task.table
    except FwcError:
        return [], ["its rows are not here"]
    answers = []
    others = []
    for had in shots.examples:
        if had.row not in table.index:
            others.append(f"row {had.row!r} is gone")
            continue
        (now,) = make_examples(task, table.loc[[had.row]])
        if now.label != had.label:
            answers.append(f"row {had.row!r} is {now.label} now, and was {had.label}")
        changed = dict({*had.values.items()} ^ {*now.values.items()})
        if changed:
            names = ", ".join(sorted(changed))
            others.append(f"row {had.row!r} differs in {names}")
    return answers, others
