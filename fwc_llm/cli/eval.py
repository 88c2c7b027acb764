"""`fwc-llm eval`: query a model over test rows; report accuracy and parity.

Experiment files have the options in TOML, named like their flags.
"""

import json
from collections.abc import Collection
from inspect import signature
from os.path import isdir
from pathlib import Path
from typing import Any

import typer
from typer.models import OptionInfo

from fwc_llm.cli import console, flags
from fwc_llm.cli.eval_output import ask_all, eval_json, print_forecast
from fwc_llm.cli.flags import read_pairs, words
from fwc_llm.cli.gate import FAIL_IF, JUNIT, UNDECIDED, Gates, Undecided, settle_runs
from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.evaluation.experiment_file import with_paths
from fwc_llm.files import read_text, reason, resource_dir
from fwc_llm.models import Client
from fwc_llm.options import EXPERIMENT, SERVICE
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import Json, parse_toml

_LARGEST = 1 << 20  # bytes
_OF_A_TASK = {"protected", "outcome", "columns", "source", "question"}


def read_experiment(path: Path, names: Collection[str]) -> Json:
    """A file's options, of these names; paths are relative to the file."""
    try:
        content = parse_toml(read_text(path, _LARGEST))
    except (OSError, ValueError) as error:
        hint = "" if path.suffix == ".toml" else "; name a task with --task"
        raise FwcError(
            f"cannot read the experiment file {path}: {reason(error)}{hint}"
        ) from None
    for key, value in content.items():
        if key.replace("-", "_") not in names:
            flags = [name.replace("_", "-") for name in names]
            hint = did_you_mean(key, flags)
            if _OF_A_TASK & set(content):
                hint = "; it looks like a task file: pass it with --task"
            raise FwcError(f"{path}: unknown option {key!r}{hint}")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise FwcError(
                f"{path}: {key} holds a date, NaN or infinity, which cannot be sent: use text or a "
                "finite number"
            ) from None
    options = {key.replace("-", "_"): value for key, value in content.items()}
    folder = path.absolute().parent

    def place(name: str) -> str:
        return name if name.startswith("~") else str(folder / name)

    def is_folder(name: str) -> bool:
        return isdir(place(name))

    for name, value in options.items():
        if name in ("model", "protected") and isinstance(value, list):
            options[name] = ",".join(map(str, value))
        if name in ("shots", "template") and isinstance(value, str):
            alone = name == "template" and is_folder(value)
            options[name] = (value,) if alone else words(value)
    return with_paths(options, place, is_folder)


def read_further(pairs: list[str] | None, names: Collection[str]) -> Json:
    """The options of `--set KEY=VALUE`, which only experiment files have otherwise."""
    given = read_pairs(pairs, "--set")
    options = {key.replace("-", "_"): value for key, value in given.items()}
    for name in options:
        if name not in names:
            raise FwcError(f"--set: unknown option {name!r}{did_you_mean(name, names)}")
    return options


RECORDED = (
    "recorded"  # name of the packaged experiment with recorded replies of a real model
)
# Options of experiment files and Python that are no flags of `eval`.
FURTHER = (
    "against",
    "assist",
    "cluster",
    "counterfactual",
    "deadline",
    "epsilon",
    "given",
    "margin",
    "min_coverage",
    "min_group",
    "no_watch",
    "probe",
    "samples",
    "strategy_options",
    "unread",
    "weight",
)
_FURTHER = flags.flag_names(FURTHER, Settings, Client)
_IN_FILE = "further options of the experiment file"
_DEMONSTRATED = (
    1500  # rows, which cost nothing and show effects of examples within ±0.05
)
_EXPLANATION = """
This measures no real model: a simulated one was asked about rows of a simulated census. \
{arms}What a real model answered is shown by `fwc-llm eval recorded`."""
_SHOWN = {  # what an arm's prompts show
    "zero": "no examples",
    "balanced": "{m} examples drawn equally from all groups",
    "fwc": "{m} weighted examples in parity of groups and outcomes",
}


def _read(context: typer.Context, path: Path | None) -> Path | None:
    """Use the experiment file's options as defaults of the flags."""
    if path == Path(RECORDED) and not path.exists():
        path = resource_dir("evals/tasks") / RECORDED / "experiment.toml"
    if path is not None:
        flagged = {
            name
            for name, parameter in signature(evaluate).parameters.items()
            if isinstance(parameter.default, OptionInfo)
        }
        options = read_experiment(path, flagged - {"as_json", "further"} | _FURTHER)
        declared = evaluate.__annotations__.keys() & options.keys()
        context.default_map = {name: options.pop(name) for name in declared}
        context.meta[_IN_FILE] = options
        try:
            flags.read(Settings, {**options, "template": None})
            flags.read(Client, options)
        except FwcError as error:
            raise FwcError(f"{path}: {error}") from None
    return path


@flags.command("eval", Settings, Client, without=FURTHER)
def evaluate(
    context: typer.Context,
    experiment: Path | None = flags.argument(
        "Experiment file (.toml) with these options, or `recorded`; flags override it.",
        default=None,
        callback=_read,
        is_eager=True,
    ),
    task: str | None = flags.TASK,
    protected: str | None = flags.PROTECTED,
    model: str | None = flags.option(
        "Model: a name of its service, azure:DEPLOYMENT, "
        "python:MODULE:NAME, "
        "gguf:FILE, smollm2, replay:FOLDER, baseline or surrogate (docs/models.md); several with "
        "commas. "
        "[default: surrogate for adult and census, else baseline]",
        panel=SERVICE,
    ),
    shots: str = flags.option(
        "Arms, comma-separated: strategies or .json files; +removal or +instruction edits prompts. "
        f"[default: {flags.ARMS}]",
        default=flags.ARMS,
        panel=EXPERIMENT,
        show_default=False,
    ),
    out: Path | None = flags.option(
        "Folder of the run; a run already there is continued. [default: "
        "./runs/<time>-<task>-<model>]",
        *("--out", "-o"),
        panel=EXPERIMENT,
    ),
    no_rows: bool = flags.NO_ROWS,
    data_dir: Path | None = flags.DATA_DIR,
    allow_changed_data: bool = flags.ALLOW_CHANGED,
    cancel_batch: bool = flags.CANCEL_BATCH,
    dry_run: bool = flags.DRY_RUN,
    fail_if: list[str] | None = FAIL_IF,
    undecided: Undecided = UNDECIDED,
    junit: Path | None = JUNIT,
    further: list[str] | None = flags.option(
        "Key of experiment files without a flag, as samples=3; repeatable.",
        "--set",
        panel=EXPERIMENT,
    ),
    verbose: bool = flags.VERBOSE,
    as_json: bool = flags.JSON,
    **options: Any,
) -> None:
    """Query a model over test rows and report accuracy and demographic parity.

    Without options it is a demonstration: a simulated census and a simulated model.
    """
    from fwc_llm.evaluation.evaluate import prepare
    from fwc_llm.runs.plan import default_model

    gates = Gates.read(fail_if, undecided, junit, dry_run)
    # With saved examples, which belong to a task, this is a run with defaults and no demonstration.
    models = _model_names(model)
    demonstration = task is None and model is None and ".json" not in shots
    in_file = context.meta.get(_IN_FILE, {})
    given = in_file | flags.given(options) | read_further(further, _FURTHER)
    options = {"n_test": _DEMONSTRATED if demonstration else None, **given}
    wanted = _wordings(options.pop("template", None))
    settings = flags.read(Settings, options, **wanted)
    client = flags.read(Client, options)
    with console.working("reading the table") as step:
        table = flags.open_task(
            "census" if demonstration else task, data_dir, protected
        )
        if not models:
            models = (default_model(table),)
            if models == ("baseline",):
                console.notes(
                    "no --model is given: the model is baseline, a logistic regression on the rows "
                    "of "
                    f"{table.name}"
                )

        job = prepare(
            table,
            models[0],
            flags.words(shots),
            settings,
            client,
            data_dir,
            allow_changed_data,
            step,
            task,
            no_rows,
            fail_if or (),
        )
    console.notes(*job.plan.notes)
    if len(models) > 1:
        jobs = [job.with_model(name) for name in models]
    else:
        jobs = [job]
    arms = [arm.name for arm in job.plan.arms]
    gates.begin(arms)
    if dry_run:
        print_forecast(jobs, as_json)
        return
    if demonstration:
        m = job.plan.settings.m
        shown = [
            f"`{arm}` shows {_SHOWN[arm].format(m=m)}. "
            for arm in arms
            if arm in _SHOWN
        ]
        closing = _EXPLANATION.format(arms="".join(shown))
    else:
        closing = ""
    results = ask_all(jobs, out, cancel_batch, closing, as_json, verbose)
    document = eval_json(jobs, results) if as_json else None
    asked_about = results.values() if gates.conditions else ()
    settle_runs(gates, [result.run for result in asked_about], document)


def _wordings(text: str | None) -> Json:
    """The settings for --template; a folder's name may contain commas."""
    if text is None:
        return {}
    sets = (text,) if Path(text).is_dir() else flags.words(text)
    if not sets:
        raise FwcError(
            "--template names no template set: give default, paper, or a folder of your own"
        )
    return {"template": sets[0], "templates": sets if len(sets) > 1 else ()}


def _model_names(text: str | None) -> tuple[str, ...]:
    """The distinct models of --model; empty without it."""
    if text is None:
        return ()
    names = flags.words(text)
    if not names:
        raise FwcError(
            "--model names no model: give a name, or several with commas between them"
        )
    for name in names:
        if names.count(name) > 1:
            raise FwcError(f"--model names {name!r} twice: give each model once")
    return names
