"""Imports a log of Inspect as a run's folder, and scores its replies."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from fwc_llm.errors import FwcError
from fwc_llm.evaluation.result import Result
from fwc_llm.files import failing_as, is_file
from fwc_llm.models.base import is_simulation
from fwc_llm.models.client import STATED, Client
from fwc_llm.models.inspect import from_chat, read_log, sample_reply
from fwc_llm.models.openai.chat import request_parameters
from fwc_llm.runs import folder as layout
from fwc_llm.runs.journal import Journal, PlannedCall, make_record, request_id
from fwc_llm.sanitize import Fields, Json, parse_json
from fwc_llm.validation import check
from fwc_llm.words import YES_NO

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample

FORMAT = "fwc-llm-inspect/1"
KEY = "fwc_llm"  # key of this package's content in a log's metadata
# Options of a model that may hold a key, or do not change a reply.
_LEFT_OUT = {
    "extra_headers",
    "extra_body",
    "max_connections",
    "max_retries",
    "timeout",
    "attempt_timeout",
}


class _Choice(BaseModel):
    """The examples of an arm in a repeat; `shots` is validated later."""

    arm: str
    repeat: int
    shots: Json


class _Content(BaseModel):
    """The part of a log that this package's tasks write."""

    format: Literal["fwc-llm-inspect/1"]
    run: Json
    shots: list[_Choice] = []
    logprobs: bool = False


@contextmanager
def run_folders(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield the paths, with logs of Inspect as temporary run folders."""
    logs = [path.resolve() for path in paths if is_file(path)]
    twice = [log for log in logs if logs.count(log) > 1]
    if twice:
        raise FwcError(f"the log {twice[0]} is named twice")
    with ExitStack() as stack:
        folders = []
        for path in paths:
            if path.suffix == ".eval" and not path.exists():
                raise FwcError(f"there is no log {path}")
            if is_file(path):
                temporary = Path(
                    stack.enter_context(tempfile.TemporaryDirectory(prefix="fwc-llm-"))
                )
                folders.append(import_log(path, temporary / path.stem).folder)
            else:
                folders.append(path)
        yield folders


def import_log(log: str | Path, out: str | Path) -> Result:
    """Create a run's folder `out` from an Inspect `log` of this package's tasks.

    The replies are parsed and scored again. The folder is then like that of any run. Raises
    `FwcError` for a log that cannot be read, that is about another task, or that is not complete.
    """
    path = Path(log)
    out = Path(out)
    record = read_log(path)
    content = _content(record, path)
    epochs = record.eval.config.epochs or 1
    order = {
        str(name): number
        for number, name in enumerate(record.eval.dataset.sample_ids or ())
    }
    arms = content["run"]["arms"]
    samples = [
        (_question(sample, arms, epochs, path), sample)
        for sample in record.samples or ()
    ]
    planned = int(content["run"]["calls"]) * epochs
    if len(samples) < planned:
        raise FwcError(
            f"{path} holds {len(samples):,} of {planned:,} questions (status: {record.status}): "
            f"complete it with `inspect eval-retry`, or without --limit"
        )
    samples.sort(
        key=lambda pair: (
            pair[0]["repeat"],
            arms.index(pair[0]["arm"]),
            order.get(str(pair[1].id), 0),
        )
    )
    described = _described(record, content, len(samples), epochs)
    layout.check_described(described, path)
    folder = layout.RunFolder(out)
    if folder.begun:
        raise FwcError(f"{out} holds a run already: name a new folder")
    folder.create()
    from fwc_llm.runs.recorded_run import score_run

    words = described.get("words", YES_NO)
    stated = described["settings"].get("answer_format") == STATED
    with Journal(folder.path, words, stated) as journal:
        for question, sample in samples:
            arm, repeat, row, variant = (
                question[name] for name in ("arm", "repeat", "row", "variant")
            )
            call = PlannedCall(arm, repeat, row, variant, from_chat(sample.input))
            request = request_id(path.name, str(sample.id), sample.epoch)
            journal.append(
                make_record(request, call, sample_reply(sample), words, stated)
            )
        folder.write_questions([question for question, _ in samples])
        _write_examples(folder, content["shots"], described["arms"], samples, epochs)
        folder.begin(described)
        results, run = score_run(folder, journal)
        return Result(folder.path, results, scored=run)


def _content(log: "EvalLog", path: Path) -> Json:
    content = (log.eval.metadata or {}).get(KEY)
    if not isinstance(content, dict):
        raise FwcError(
            f"{path} is about the task {log.eval.task!r}, which is not one of fwc-llm's "
            f"(fwc_llm/adult, …): audit reads a log whose samples have a group in their "
            f"metadata, with --answer 'decision', --label 'target' and the group's column as "
            f"--protected"
        )
    with failing_as(FwcError, f"{path} is damaged: "):
        plain = parse_json(json.dumps(content))  # NaN and infinities become None
    fields = check(_Content, plain, f"{path} is damaged").model_dump()
    layout.check_described(fields["run"], path)
    return fields


def _question(
    sample: "EvalSample", arms: Sequence[str], epochs: int, path: Path
) -> Json:
    """The question of a sample. An epoch becomes a repeat with the same rows."""
    question = {name: sample.metadata.get(name) for name in layout.QUESTION_COLUMNS}
    if (
        not layout.is_question(question)
        or question["arm"] not in arms
        or not 1 <= sample.epoch <= epochs
    ):
        raise FwcError(
            f"{path} is damaged: sample {str(sample.id)[:80]!r} is no question of a fwc-llm task"
        )
    question["repeat"] = int(question["repeat"]) * epochs + sample.epoch - 1
    columns = [name for name in layout.ROW_COLUMNS if name in sample.metadata]
    return question | {name: str(sample.metadata[name]) for name in columns}


_Asked = list[tuple[Json, "EvalSample"]]


def _described(log: "EvalLog", content: Fields, questions: int, epochs: int) -> Json:
    """The content of run.json: the task's plan with Inspect's model and samples."""
    run: Json = content["run"]
    spec = log.eval
    simulated = any(
        is_simulation(sample.output.model)
        for sample in log.samples or ()
        if sample.output.choices
    )
    settings = dict(run["settings"])
    settings["repeats"] = settings["repeats"] * epochs
    return run | {
        "model": spec.model,
        "parameters": _parameters(log, bool(content.get("logprobs"))),
        "simulated": simulated or bool(run["simulated"]),
        "simulated_answers": simulated,
        "settings": settings,
        "epochs": epochs,
        "calls": questions,
        "created": str(spec.created),
        "versions": {
            **run.get("versions", {}),
            **{k: str(v) for k, v in spec.packages.items()},
        },
        "command": f"inspect eval {spec.task}",
        "inspect": {
            "log": Path(log.location).name,
            "status": log.status,
            "solver": spec.solver,
        },
    }


def default_options(model: str, config: Any, logprobs: bool) -> Json:
    """The default options of requests, without those that the user's `config` sets."""
    sent = request_parameters(model.rpartition("/")[2], Client(logprobs=logprobs))
    if "max_completion_tokens" in sent:  # Inspect has one name for both
        sent["max_tokens"] = sent.pop("max_completion_tokens")
    return {name: sent[name] for name in sent if getattr(config, name) is None}


def _parameters(log: "EvalLog", logprobs: bool) -> Json:
    chosen = log.eval.model_generate_config.merge(log.plan.config)
    sent: Json = chosen.model_dump(exclude_none=True, mode="json")
    sent |= default_options(log.eval.model, chosen, logprobs)
    return {
        name: value for name, value in sorted(sent.items()) if name not in _LEFT_OUT
    }


def _write_examples(
    folder: layout.RunFolder,
    shots: Sequence[Any],
    arms: Sequence[str],
    samples: _Asked,
    epochs: int,
) -> None:
    """Write the examples of every arm and repeat, and one full prompt per arm."""
    for chosen in shots:
        for epoch in range(epochs):
            repeat = chosen["repeat"] * epochs + epoch
            folder.write_json(
                f"shots/{layout.file_name(chosen['arm'])}-{repeat}.json",
                chosen["shots"],
            )
    for arm in arms:
        first = next(sample for question, sample in samples if question["arm"] == arm)
        folder.write_json(
            f"prompts/{layout.file_name(arm)}.json", from_chat(first.input)
        )
