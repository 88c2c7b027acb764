"""Ask the questions of the plan in its order, and gather the replies in answers.csv."""

import asyncio
import csv
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evals.real_model.counter.draw import (
    ARMS,
    HERE,
    ROUNDS,
    SETS,
    TASK,
    THRESHOLD_ROUND,
    ZERO,
    read_rows,
    read_sets,
)
from evals.real_model.parts import FILES, fetch
from fwc_llm.models import Client
from fwc_llm.models.base import Model, Reply, Usage
from fwc_llm.models.local import LocalModel
from fwc_llm.models.recorded import FILE_NAME, read_records
from fwc_llm.prompts import Prompt
from fwc_llm.runs.journal import (
    Journal,
    PlannedCall,
    call_id,
    make_record,
    parameters_json,
    parsed,
)
from fwc_llm.runs.plan import rows_of
from fwc_llm.tasks import Task, load_task

SECOND = "0.5b"  # the model that is asked the contrast that mattered
REPEATED = ("counter", "counter-fwc")
ANSWERS = {"1.5b": HERE / "answers.csv", SECOND: HERE / "answers-0.5b.csv"}
ASKED_AGAIN = 3  # questions of different arms that are asked again before a run goes on
_SAME = (
    0.02  # largest difference of P(yes) of two askings; what the cache holds moves it
)
# The last two rounds are asked set by set, whose first question is dear (the plan's log).
_TURNS = ((THRESHOLD_ROUND, 1), (2,), (3,), (4, 5))
_TOKENS = 6  # most likely tokens that are recorded


@dataclass(frozen=True)
class Unit:
    """One set of one arm: its rows of some rounds are asked one after the other."""

    arm: str
    number: int
    rounds: tuple[int, ...]

    @property
    def name(self) -> str:
        """The arm's name in the journal."""
        return f"{self.arm}-{self.number}"


def units(model: str = "1.5b") -> Iterator[Unit]:
    """All units in the order of asking; the rows for the threshold come first, and zero-shot
    belongs to the first round alone.
    """
    numbers = range(1, SETS + 1)
    if model == SECOND:
        every = (THRESHOLD_ROUND, *range(1, ROUNDS + 1))
        for number in numbers:
            for arm in REPEATED:
                yield Unit(arm, number, every)
        return
    for rounds in _TURNS:
        for number in numbers:
            if rounds == _TURNS[0]:
                yield Unit(ZERO, number, rounds)
            for arm in ARMS:
                yield Unit(arm, number, rounds)


def calls(task: Task, asked: Iterable[Unit]) -> Iterator[PlannedCall]:
    """The questions of the units, in the order of asking."""
    sets = read_sets(task)
    rows = read_rows()
    values = dict(rows_of(task.test().loc[rows["row"]]))
    for unit in asked:
        prompt = Prompt(task, sets.get((unit.arm, unit.number)))
        of_unit = rows[(rows["set"] == unit.number) & rows["round"].isin(unit.rounds)]
        for row in of_unit["row"]:
            messages = prompt.build(values[row])
            yield PlannedCall(unit.name, 0, row, "", messages, fixed=len(prompt.prefix))


def ask(name: str, models: Path, out: Path, threads: int) -> None:
    """Ask what the journal in `out` does not hold. Stopped at any moment, it goes on where it
    was; a new journal begins with the recorded replies.
    """
    path = fetch(FILES[name], models)
    model = LocalModel(f"gguf:{path}", Client(params={"threads": threads}))
    out.mkdir(parents=True, exist_ok=True)
    planned = list(calls(load_task(TASK), units(name)))
    if ANSWERS[name].exists() and not (out / FILE_NAME).exists():
        restore(planned, parameters_json(model), ANSWERS[name], out)
    asyncio.run(ask_missing(model, planned, out))


def restore(
    planned: Iterable[PlannedCall], parameters: str, answers: Path, out: Path
) -> None:
    """Begin a journal with the replies of `answers`, as far as that file keeps them."""
    with answers.open(newline="", encoding="utf-8") as file:
        lines = {
            (f"{line['arm']}-{line['set']}", line["row"]): line
            for line in csv.DictReader(file)
        }
    with Journal(out) as journal:
        for call in planned:
            line = lines.get((call.arm, call.row))
            if line is not None:
                reply = Reply(
                    line["reply"],
                    logprobs=tuple(map(tuple, json.loads(line["top_tokens"]))),
                    usage=Usage(prompt_tokens=int(line["prompt_tokens"])),
                    latency=float(line["seconds"]),
                )
                record = make_record(call_id(parameters, call), call, reply)
                journal.append(record | {"p_yes": float(line["p_yes"])})


async def ask_missing(model: Model, planned: list[PlannedCall], out: Path) -> None:
    """Ask some recorded questions again, then those without a reply; every reply is written at
    once.
    """
    parameters = parameters_json(model)
    try:
        with Journal(out) as journal:
            await _ask_again(model, planned, parameters, journal)
            for call in planned:
                request = call_id(parameters, call)
                if not journal.answered(request):
                    reply = await model.ask(call.messages)
                    journal.append(make_record(request, call, reply))
    finally:
        await model.aclose()


async def _ask_again(
    model: Model, planned: list[PlannedCall], parameters: str, journal: Journal
) -> None:
    """Exit where a question that was answered before has another answer now."""
    known = {
        record["request"]: record
        for record in journal.records()
        if record["text"] is not None
    }
    first = {
        call.arm: call
        for call in reversed(planned)
        if call_id(parameters, call) in known
    }
    for call in list(first.values())[::-1][:ASKED_AGAIN]:
        recorded = known[call_id(parameters, call)]
        reply = await model.ask(call.messages)
        p_yes = parsed(reply)["p_yes"]
        print(
            f"{call.arm}, {call.row}: {reply.text} {p_yes}; recorded: {recorded['text']} "
            f"{recorded['p_yes']}"
        )
        if reply.text != recorded["text"] or abs(p_yes - recorded["p_yes"]) > _SAME:
            sys.exit(
                "the same question has another answer now: neither can stand beside the other"
            )


def collect(out: Path, answers: Path) -> None:
    """Write every reply of the journal, whose run may be under way, to `answers`."""
    task = load_task(TASK)
    rows = read_rows().set_index("row")
    table = task.test().loc[rows.index]
    facts = dict(
        zip(
            rows.index,
            zip(task.sensitive(table), task.labels(table), strict=True),
            strict=True,
        )
    )
    lines = []
    for record in read_records(out / FILE_NAME):
        if record["text"] is None:
            continue
        arm, _, number = record["arm"].rpartition("-")
        group, label = facts[record["row"]]
        tokens = [[token, round(p, 3)] for token, p in record["logprobs"][:_TOKENS]]
        lines.append(
            {
                "arm": arm,
                "set": number,
                "round": rows["round"][record["row"]],
                "row": record["row"],
                "group": group,
                "label": ("no", "yes")[label],
                "reply": record["text"],
                "p_yes": f"{record['p_yes']:.6g}",
                "top_tokens": json.dumps(tokens, separators=(",", ":")),
                "prompt_tokens": record["usage"]["prompt_tokens"],
                "seconds": round(record["latency"], 2),
            }
        )
    with answers.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    print(f"{answers.name} has {len(lines):,} replies")
