"""The prompts of a run, built again: no folder keeps them all.

A prompt is shown where the journal proves that it is the one that was sent: a request's name is a checksum
over its messages. Nobody's folder can so make a report show more of a table than its writer knew.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.files import is_file, open_binary
from fwc_llm.models.base import Messages
from fwc_llm.prompts import Prompt, split_edits, templates
from fwc_llm.report.read import Run
from fwc_llm.runs.calls import Call, call_id
from fwc_llm.runs.journal import FILE_NAME
from fwc_llm.runs.plan import COUNTERFACTUAL, rows_of

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

_REQUEST = re.compile(rb'\{"request":"([0-9a-f]{32})"')
_TRIES = 20  # prompts of an arm that are not those sent, before the rest is given up
_CHANGED = "the prompts that can be built here are not those that were sent: template or version changed"


class Prompts:
    """Builds the prompts of a run's questions. `missing` says per arm why it has none.

    `without` says why there is no `task`. `template` is the run's folder of templates: a run's own record
    does not choose one, because anybody may have written it.
    """

    def __init__(self, run: Run, task: "Task | None", without: str, template: str | Path | None) -> None:
        self.missing: dict[str, str] = {}
        self._run, self._task, self._template = run, task, template
        settings = run.described["settings"]
        self._shown_weights = settings.get("weights", "show") == "show"
        self._parameters = json.dumps(
            [run.described["model"], dict(run.described.get("parameters") or {})], sort_keys=True, default=str
        )
        why = self._why_none(without)
        if why:
            self.missing = dict.fromkeys(run.arms, why)
        self._sent = set() if why else _requests(run.folder)
        self._shots = {arm: run.shots(arm) for arm in run.arms}
        self._builders: dict[tuple[str, int], tuple[Prompt, Messages]] = {}
        self._wrong = dict.fromkeys(run.arms, 0)
        self._right: set[str] = set()
        self._values: Mapping[str, Mapping[str, Any]] = {}

    def prepare(self, rows: "set[str]") -> None:
        """Read the values of these rows of the table."""
        if self._task is None or len(self.missing) == len(self._run.arms):
            return
        table = self._task.including(rows)
        frame = table.loc[table.index.isin(rows)]
        self._values = dict(rows_of(frame))

    def of(self, arm: str, repeat: int, row: str, variant: str) -> tuple[Messages, Messages] | None:
        """Return system and examples, and the question; None where they are not what was sent."""
        values = self._values.get(row)
        if values is None or arm in self.missing:
            return None
        try:
            prompt, fixed = self._builder(arm, repeat)
            messages = prompt.build(self._changed(values, variant))
        except (FwcError, KeyError) as error:
            self.missing[arm] = str(error)
            return None
        call = Call(arm, repeat, row, variant, messages)
        if self._was_sent(call):
            self._right.add(arm)
            return fixed, messages[len(fixed) :]
        self._wrong[arm] += 1
        if arm not in self._right and self._wrong[arm] >= _TRIES:
            self.missing[arm] = _CHANGED
        return None

    def _why_none(self, without: str) -> str:
        described = self._run.described
        if self._task is None:
            return without
        if self._task.fingerprint != described.get("fingerprint"):
            return "the data found here is not the table that the run was made with"
        name = str(described["settings"].get("template", "default"))
        if self._template is None and name not in templates():
            return "the run has templates of its own: name their folder with --template"
        self._template = self._template or name
        return ""

    def _builder(self, arm: str, repeat: int) -> tuple[Prompt, Messages]:
        key = arm, repeat
        if key not in self._builders:
            described = self._run.described
            orders = described["settings"].get("orders") or []
            name = next((arm.removesuffix(f"@{order}") for order in orders if arm.endswith(f"@{order}")), arm)
            shots = self._shots[arm].get(repeat)
            if shots is None and (described.get("sources") or {}).get(arm, arm) != "zero":
                raise FwcError("examples were chosen anew for every row and are not kept")
            if self._task is None or self._template is None:
                raise FwcError("there is no table")
            edits = split_edits(name)[1]
            prompt = Prompt(self._task, shots, self._template, self._shown_weights, edits)
            self._builders[key] = prompt, prompt.prefix
        return self._builders[key]

    def _changed(self, values: Mapping[str, Any], variant: str) -> Mapping[str, Any]:
        """The row, told with the protected levels that the variant names."""
        if not variant or self._task is None:
            return values
        levels = variant.removeprefix(COUNTERFACTUAL).split(" & ")
        protected = self._task.protected
        return {**values, **dict(zip(protected, levels, strict=False))}

    def _was_sent(self, call: Call) -> bool:
        """By the journal; a log of Inspect names requests in its own way, and its first prompt must do."""
        if "inspect" not in self._run.described:
            return call_id(self._parameters, call) in self._sent
        return call.arm in self._right or _same(self._run.prompt(call.arm), call.messages)


def _same(kept: list[dict[str, str]], messages: Messages) -> bool:
    return [(m["role"], m["content"]) for m in kept] == [(m["role"], m["content"]) for m in messages]


def _requests(folder: Path) -> set[str]:
    """The names of all requests in a journal; empty where there is none, or it cannot be read."""
    path = folder / FILE_NAME
    if not is_file(path):
        return set()
    try:
        with open_binary(path) as file:
            return {found[1].decode() for line in file if (found := _REQUEST.match(line))}
    except OSError:
        return set()
