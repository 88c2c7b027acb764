"""The arms of a run: which source, order and template each prompts with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fwc_llm.errors import FwcError, require
from fwc_llm.prompts import split_edits
from fwc_llm.runs.folder import file_name
from fwc_llm.runs.settings import Settings
from fwc_llm.shots import is_per_row, load_shots
from fwc_llm.shots.base import Shots
from fwc_llm.shots.select import ORDERS
from fwc_llm.shots.storage import check_task

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

_LIST = "give a list, for example ['zero', 'fwc']"


@dataclass(frozen=True)
class Arm:
    """One way to prompt.

    `source` is a strategy or a shots file, `edits` are those of the prompt's text ("removal",
    "instruction", "unweighted"). Without `template`, that of the settings is used. `family` is the
    name without order and template: arms of one family show the same examples.
    """

    name: str
    source: str
    order: str | None = None
    edits: tuple[str, ...] = ()
    template: str | None = None
    family: str = ""


def read_arms(
    sources: Sequence[str | Shots],
    settings: Settings,
    task: "Task",
    allow_changed_data: bool,
) -> tuple[tuple[Arm, ...], dict[str, Shots]]:
    """One arm per source and template; and the user's own examples by source."""
    if isinstance(sources, str):
        raise FwcError(f"the arms are the text {sources!r}: {_LIST}")
    require(sources, Sequence, "the value of --shots", _LIST)
    if not sources:
        raise FwcError("no arm is named: give --shots a list, for example zero and fwc")
    saved: dict[str, Shots] = {}
    arms: list[Arm] = []
    for source in sources:
        remedy = "give a strategy, a file of shots, or Shots"
        require(source, (str, Shots), "an arm", remedy)
        if isinstance(source, Shots):
            check_task(source, task, allow_changed_data, "an arm's Shots")
            arm = Arm(source.strategy, f"shots-{len(saved)}")
            saved[arm.source] = source
        else:
            arm = _named(source)
            if arm.source.endswith(".json") and arm.source not in saved:
                shots = load_shots(arm.source, task, allow_changed_data)
                saved[arm.source] = shots
        arms += _variations(arm, settings)
    _check_distinct(arms)
    return tuple(arms), saved


def short_name(template: str) -> str:
    """A template set's name; for a folder, the last part of its path."""
    return Path(template).name or template


def _named(text: str) -> Arm:
    """The arm that a text names: STRATEGY or FILE, +EDIT, @ORDER."""
    name, order = text, None
    if text.endswith(tuple(f"@{order}" for order in ORDERS)):
        name, _, order = text.rpartition("@")
    source, edits = split_edits(name)
    if source.endswith(".json"):
        name = "+".join((Path(source).stem, *edits))
    else:
        is_per_row(source)  # an unknown strategy is refused here, before any work
    return Arm(name, source, order, edits)


def _variations(arm: Arm, settings: Settings) -> Iterator[Arm]:
    """Yield an arm in each template; its name has the order, and the template if there are more."""
    for template in settings.templates or [None]:
        parts = [arm.name, arm.order]
        if len(settings.templates) > 1:
            parts.append(short_name(template or ""))
        name = "@".join(filter(None, parts))
        yield replace(arm, name=name, template=template, family=arm.name)


def _check_distinct(arms: Sequence[Arm]) -> None:
    """Raise `FwcError` for two arms whose files would have one name."""
    seen = set[str]()
    for arm in arms:
        name = file_name(arm.name)
        if name in seen:
            remedy = "give each arm once, and shots files and template folders distinct names"
            raise FwcError(f"the arm {arm.name!r} is named twice: {remedy}")
        seen.add(name)
