"""Shots as a JSON file: what was chosen, from which table, with which weights and certificate."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from fwc_llm.errors import FwcError
from fwc_llm.files import json_text, read_text, write_whole
from fwc_llm.schema import check
from fwc_llm.shots.base import Example, Shots
from fwc_llm.shots.select import check_examples
from fwc_llm.untrusted import parse_json

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

FORMAT = "fwc-llm-shots/1"
_LARGEST = 1 << 26  # bytes


def save_shots(shots: Shots, path: str | Path) -> None:
    """Write `shots` to `path`, completely or not at all. Errors: `FwcError` when it cannot be written."""
    path = Path(path)
    text = json_text(shots_json(shots))
    with suppress(OSError):  # the write below reports the error
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(text, path, "the shots to ")


def load_shots(path: str | Path, task: "Task | None" = None, allow_changed_data: bool = False) -> Shots:
    """Read shots that `save_shots` wrote to `path`.

    With a `task` the file must be of this task and, unless `allow_changed_data`, of the same table.

    Errors: `FwcError` for a file that cannot be read or is not a shots file (naming the key), for duplicate
    rows, another task, and a changed table.
    """
    where = f"shots file {path}"
    try:
        text = read_text(Path(path), _LARGEST)
    except OSError as error:
        raise FwcError(f"{where} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise FwcError(f"{where} is not JSON: {error}") from None
    shots = parse_shots(text, where)
    if task is not None:
        _check_task(shots, task, allow_changed_data, where)
    return shots


class _ExampleInFile(BaseModel):
    model_config = ConfigDict(strict=True)
    row: str
    values: dict[str, str | int | float]
    label: Literal["yes", "no"]
    weight: float | None = None
    altered: str = ""


class _ShotsFile(BaseModel):
    model_config = ConfigDict(strict=True)
    task: str
    fingerprint: str
    protected: list[str] = []
    strategy: str
    seed: int
    options: dict[str, Any]
    certificate: dict[str, Any] | None = None
    examples: list[_ExampleInFile]


def parse_shots(text: str, where: str) -> Shots:
    """Return the shots of a file's content. Errors: as `load_shots`, which name the file as `where`."""
    try:
        content = parse_json(text, strict=True)
    except (ValueError, RecursionError) as error:
        raise FwcError(f"{where} is not JSON: {error}") from None
    if not isinstance(content, dict) or "format" not in content:
        raise FwcError(f'{where} was not written by `fwc-llm shots`: it has no "format"')
    if content["format"] != FORMAT:
        raise FwcError(f"{where} has the format {content['format']!r}; this version reads {FORMAT!r}")
    fields = check(_ShotsFile, content, where).model_dump()
    examples = tuple(Example(**example) for example in fields.pop("examples"))
    check_examples(examples, where)
    return Shots(**fields | {"protected": tuple(fields["protected"]), "examples": examples})


def shots_json(shots: Shots) -> dict[str, Any]:
    """The content of a shots file."""
    displayed = {example.row: weight for example, weight in shots.shown()}
    return {
        "format": FORMAT,
        "task": shots.task,
        "fingerprint": shots.fingerprint,
        **({"protected": list(shots.protected)} if shots.protected else {}),
        "strategy": shots.strategy,
        "seed": shots.seed,
        "options": dict(shots.options),
        "certificate": None if shots.certificate is None else dict(shots.certificate),
        "examples": [
            {
                "row": example.row,
                "label": example.label,
                "weight": example.weight,
                "displayed": displayed.get(example.row),
                "values": dict(example.values),
            }
            | ({"altered": example.altered} if example.altered else {})
            for example in shots.examples
        ],
    }


def _check_task(shots: Shots, task: "Task", allow_changed_data: bool, where: str) -> None:
    if shots.task != task.name:
        raise FwcError(f"{where} is for the task {shots.task!r}, not {task.name!r}: choose its examples anew")
    chosen_for = set(shots.protected or task.usual or task.protected)
    if chosen_for != set(task.protected):
        raise FwcError(
            f"{where} was chosen for parity by {' & '.join(sorted(chosen_for))}, not by "
            f"{' & '.join(sorted(task.protected))}: choose its examples anew with that --protected, or "
            f"ask with --protected {','.join(sorted(chosen_for))}"
        )
    if shots.fingerprint != task.fingerprint and not allow_changed_data:
        raise FwcError(
            f"{where} was chosen from another version of the table of {task.name!r} (fingerprint "
            f"{shots.fingerprint[:12]}…, now {task.fingerprint[:12]}…): choose its examples anew, or pass "
            "--allow-changed-data"
        )
    needed = {column.name for column in task.shown}
    for example in shots.examples:
        if lacking := sorted(needed - set(example.values)):
            raise FwcError(f"{where}: row {example.row!r} has no value for the column {lacking[0]!r}")
