"""The paper's GPT table: zero-shot, balanced examples and FWC's, at 16, 8 and 4 examples, five
repeats.

The surrogate answers on Adult, in each of its forms, without key or network; its numbers are
simulated. Any other model answers on all four tables (`--model`, `--base-url`, `--api-key-env`),
and an interrupted run continues where it stopped. If the files of published GPT answers are
available, they are scored too.
"""

import re
import tempfile
from pathlib import Path
from typing import Any

from evals.paper.experiment import DATASETS, Cell, Experiment, Options, Row
from evals.paper.llm_report import report
from evals.paper.recorded import FOLDER, score_recordings
from fwc_llm.models.surrogate.model import FORMS

ARMS = ("zero", "balanced", "fwc")
SIZES = (16, 8, 4)
REPEATS = 5
N_TEST = 200
BASE_PARITY = 0.5
RECORDED = "recorded answers"


def plan(options: Options) -> list[Cell]:
    """A run per data set, form of the surrogate and number of examples, and the recordings."""
    simulated = options.model == "surrogate"
    if simulated:
        datasets = ["adult"]
        forms = FORMS[:1] if options.quick else FORMS
        sources = [f"surrogate:{form}" for form in forms]
    else:
        datasets = [d for d in DATASETS if d in options.datasets]
        sources = [options.model]
    sizes = (8,) if options.quick else SIZES
    cells: list[Cell] = [
        {"dataset": d, "source": source, "m": m}
        for d in datasets
        for source in sources
        for m in sizes
    ]
    if _recordings(options) is not None:
        cells.append({"dataset": "adult", "source": RECORDED, "m": 0})
    return cells


def measure(cell: Cell, options: Options) -> list[Row]:
    """One row per arm and repeat."""
    if cell["source"] == RECORDED:
        folder = _recordings(options)
        if folder is None:
            return []
        return score_recordings(folder, options.data_dir)
    if options.runs_dir is None:
        with tempfile.TemporaryDirectory() as folder_name:
            return _ask(cell, options, Path(folder_name))
    name = re.sub(r"[^\w.-]+", "-", f"{cell['dataset']}-{cell['source']}-{cell['m']}")
    return _ask(cell, options, Path(options.runs_dir) / name)


def _ask(cell: Cell, options: Options, folder: Path) -> list[Row]:
    from fwc_llm.evaluation.evaluate import evaluate

    others: dict[str, Any] = dict(options.model_options or {})
    result = evaluate(
        cell["dataset"],
        cell["source"],
        ARMS,
        n_test=40 if options.quick else N_TEST,
        base_parity=BASE_PARITY,
        repeats=options.runs if options.quick else REPEATS,
        m=cell["m"],
        out=folder,
        data_dir=options.data_dir,
        **others,
    )
    answers = result.answers()
    answered = (
        answers["answer"].notna().groupby([answers["arm"], answers["repeat"]]).mean()
    )
    return [
        {
            "model": cell["source"],
            "arm": arm,
            "examples": 0 if arm == "zero" else cell["m"],
            "repeat": repeat,
            "n": (result.records.of("accuracy", arm).n or 0) // result.data["repeats"],
            "coverage": float(answered.loc[(arm, repeat)]),
            "accuracy": result.records.per_repeat("accuracy", arm)[repeat],
            "dp": result.records.per_repeat("dp_gap", arm)[repeat],
            "odds": result.records.per_repeat("eo_gap", arm)[repeat],
            "base_parity": BASE_PARITY,
            "simulated": "yes" if result.data["simulated"] else "no",
        }
        for arm in result.arms
        for repeat in range(result.data["repeats"])
    ]


def _recordings(options: Options) -> Path | None:
    """The folder with the recorded answers, or None."""
    from fwc_llm.data.locate import data_folders

    folders = data_folders(options.data_dir)
    return next(
        (folder / FOLDER for folder in folders if (folder / FOLDER).is_dir()), None
    )


EXPERIMENT = Experiment(
    name="llm",
    title="Language models with FWC's examples",
    keys=("dataset", "source", "m"),
    values=(
        *(
            "model",
            "arm",
            "examples",
            "repeat",
            "n",
            "coverage",
            "accuracy",
            "dp",
            "odds",
        ),
        *("base_parity", "simulated"),
    ),
    plan=plan,
    measure=measure,
    report=report,
    threads=True,
)
