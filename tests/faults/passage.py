"""Faults of one kind through everything: eval, the same again, rescore, report; what came out of
it, as complaints.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from typing import Any

from rich.console import Console

from fwc_llm.cli.console import SafeConsole
from fwc_llm.errors import FwcError
from fwc_llm.evaluation.evaluate import Job
from fwc_llm.evaluation.result import Result
from fwc_llm.models import Client, Model
from fwc_llm.models.decisions import DecisionModel
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.report.formats import render
from fwc_llm.report.terminal import runs_table
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.journal import Journal
from fwc_llm.runs.plan import Plan, make_plan
from fwc_llm.runs.recorded_run import score_run as score
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import replace_invisible
from fwc_llm.tasks import census_task
from tests.faults.loopback import (
    HttpReply,
    HttpRequest,
    answered,
    asked,
    serve_in_thread,
)
from tests.faults.table import KEY, Fault
from tests.people import named

FORMATS = (
    "html",
    "md",
    "json",
    "csv",
)  # Local Law 144's table is not made of designed rows
N = 8
KEY_VARIABLE = "PLANTED_KEY"
_TELLING = 14  # letters and digits of the key that nobody may read in a row
SLOWEST = 60.0  # seconds for one passage
_STEERING = [
    chr(code) for code in (*range(9), *range(11, 32), *range(127, 160), 0x202E, 0x2066)
]


class Service:
    """Answers by content; the first requests meet a fault each (`lasting`: every request does).
    Counts the answered.
    """

    def __init__(self, faults: Sequence[Fault] = (), lasting: bool = False) -> None:
        self.faults: Iterator[Fault] = cycle(faults) if lasting else iter(faults)
        self.answered: Counter[str] = Counter()

    def __call__(self, request: HttpRequest) -> HttpReply:
        content = json.dumps(asked(request)) if request.body else ""
        fault = next(self.faults, None)
        if fault is None or fault.kind == "harmless":
            self.answered[content] += 1
        if fault is not None:
            return fault.reply
        return HttpReply(answered(request, bool(len(content) % 2)))


@cache
def plan(api: Any = "chat") -> Plan:
    """A small run: eight rows of a small census, without examples."""
    # A report would read the whole of its own task.
    task = named(census_task(60, 60), "small-census")
    return make_plan(task, ["zero"], Settings(n_test=N, api=api))


def run_plan(plan: Plan, model: Model, folder: Path, concurrency: int = 8) -> Result:
    """Ask what the folder does not answer, then score."""
    return Job(plan, model, Client(concurrency=concurrency)).run(folder)


def client(
    url: str,
    said: list[str],
    faults: Sequence[Fault] = (),
    lasting: bool = False,
    api: str = "chat",
) -> Model:
    """A client that waits no longer than it must; `said` collects its notices."""
    stalls = any(fault.reply.delay > 0.0 for fault in faults)
    hopeless = lasting and faults[0].kind in {"attempt", "unclear"}
    kind: Any = ChatModel if api == "chat" else partial(DecisionModel, api=api)
    model: Model = kind(
        "test-model",
        base_url=f"{url}/v1",
        api_key_env=KEY_VARIABLE,
        concurrency=4,
        timeout=0.5 if stalls else 60.0,
        deadline=3.0 if hopeless else 60.0,
        backoff=0.001,
        breaker=6,
        notice=said.append,
    )
    return model


def passage(
    faults: Sequence[Fault],
    lasting: bool,
    folder: Path,
    formats: Sequence[str] = FORMATS,
    api: str = "chat",
) -> list[str]:
    """Take faults of one kind, at most as many as requests, through everything in `folder`; the
    environment holds `KEY`. Says what is wrong. Without formats nothing is scored again and shown.
    """
    kind, codes = faults[0].kind, faults[0].exit_codes(lasting)
    plan(api)
    began = time.monotonic()
    wrong = []
    said = list[str]()
    service = Service(faults, lasting)
    with serve_in_thread(service) as url:
        code = _evaluate(client(url, said, faults, lasting, api), folder, said, api)
    if kind == "harmless" and (asked := service.answered.total()) != N:
        wrong.append(f"{N} requests were answered {asked} times")
    if code not in codes:
        wrong.append(f"eval ended with {code}, not {codes}: {said[-1:]}")
    again = Service()
    with serve_in_thread(again) as url:
        code = _evaluate(client(url, said, api=api), folder, said, api)
        if code != 0:
            wrong.append(f"the second eval ended with {code}: {said[-1:]}")
    twice = sum((service.answered & again.answered).values())
    if twice:
        wrong.append(f"{twice} answered requests were asked again")
    with Journal(folder) as journal:
        records = list(journal.records())
    answered = Counter(
        record["request"] for record in records if record["text"] is not None
    )
    if len(answered) != N or set(answered.values()) != {1}:
        wrong.append(
            f"{len(answered)} of {N} answers are journaled, {answered.most_common(1)}"
        )
    shown = {name: replace_invisible(render([folder], name)) for name in formats}
    if formats:
        shown["table"] = _printed(folder)
    steering = [name for name, text in shown.items() if any(map(text.count, _STEERING))]
    wrong += [f"the {name} steers a terminal" for name in steering]
    wrong += _leaks(folder, [*said, *shown.values()])
    seconds = time.monotonic() - began
    if seconds > SLOWEST:
        wrong.append(f"it took {seconds:.1f} s")
    return wrong


def _evaluate(model: Model, folder: Path, said: list[str], api: str) -> int:
    """The exit code that the command line would end with; what it would say goes into `said`."""
    try:
        result = run_plan(plan(api), model, folder, concurrency=4)
    except FwcError as error:
        said.append(str(error))
        return error.exit_code
    said += [str(reason) for reason in result.data["no_reply"]]
    return 4 if result.unanswered else 0


def _printed(folder: Path) -> str:
    """The table of a run that is scored again."""
    with Journal(folder) as journal:
        result = Result(folder, score(RunFolder(folder), journal)[0])
    console: Console = SafeConsole(width=120, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(runs_table([result.run]))
    return captured.get()


def _leaks(folder: Path, said: list[str]) -> list[str]:
    """Where the key, or a part of it that says enough, can be read."""
    files: dict[str, Any] = {
        str(path.relative_to(folder)): path.read_text("utf-8", "replace")
        for path in folder.rglob("*")
        if path.is_file()
    }
    texts = {**files, **{f"said: {text[:40]!r}": text for text in said}}
    key = _letters(KEY)
    pieces = [key[at : at + _TELLING] for at in range(len(key) - _TELLING + 1)]
    return [
        f"the key is in {where}"
        for where, text in texts.items()
        if any(map(_letters(text.replace("\\n", "\n")).count, pieces))
    ]


def _letters(text: str) -> str:
    """`text` without what may stand between the pieces of a key."""
    return re.sub("[^0-9a-z]+", "", text.lower())
