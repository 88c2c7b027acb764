"""What predictions of a model's answers are worth: on recorded answers of GPT models, and
simulated.

    python -m evals.cost --record

Recorded: 200 answers a file about rows of Adult's test file (published with DecodingTrust); the
predictor learns from them and predicts all 15,060 rows. Rows' worth is how many rows the plain
estimate would need for the same variance. Simulated: answers drawn from a regression fitted to
GPT-4's zero-shot answers, so that the truth is known: how often intervals hold it, their width
against the plain ones, and bias.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from evals.frames import from_frame
from evals.paper.recorded import FOLDER, read_recordings
from evals.record import RESULTS, command_line, markdown, write
from fwc_llm.errors import FwcError
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.prediction_powered import (
    FeatureTable,
    assisted_answers,
    effective_sample_size,
)
from fwc_llm.metrics.run_answers import RunAnswers
from fwc_llm.runs.splits import table_of
from fwc_llm.tasks import Task, load_task

METRICS = ("dp_gap", "dp_ratio", "eo_gap", "accuracy")
DESIGNED = (
    0.375,
    0.125,
    0.125,
    0.375,
)  # of each group and label at a base parity of 0.5
FITTED = ""
PREDICTABLE = "predictable"
UNPREDICTABLE = "unpredictable"
WRONG = "wrong predictor"
TINY = "tiny"
WORLDS = (  # rows, designed, repeats, share that is unparsed, how answers come about
    (200, True, 1, 0.0, FITTED),
    (200, False, 1, 0.0, FITTED),
    (100, True, 1, 0.0, FITTED),
    (60, False, 1, 0.0, FITTED),
    (1000, False, 1, 0.0, FITTED),
    (2000, True, 1, 0.0, FITTED),
    (200, True, 5, 0.0, FITTED),
    (200, True, 1, 0.15, FITTED),
    (200, True, 1, 0.0, PREDICTABLE),
    (200, True, 1, 0.0, UNPREDICTABLE),
    (200, False, 1, 0.0, WRONG),
    (400, False, 1, 0.0, TINY),
    (1000, False, 1, 0.0, TINY),
)


def recorded(task: Task, folder: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each file's model and examples, and its answers about rows of the table."""
    for model, arm, m, answers in read_recordings(task, folder):
        yield (
            f"{model}, {f'{m} examples' if m else arm + '-shot'}",
            _frame(task, dict(answers)),
        )


def _frame(task: Task, answers: Mapping[str, str | None]) -> pd.DataFrame:
    rows = task.test().loc[list(answers)]
    labels = np.where(task.labels(rows) == 1, "yes", "no")
    columns = {
        "group": task.sensitive(rows),
        "label": labels,
        "answer": list(answers.values()),
    }
    return pd.DataFrame({"row": rows.index, **columns})


def worth_of(frame: pd.DataFrame, table: FeatureTable, design: str) -> dict[str, Any]:
    """Return values, intervals and rows' worth of one arm's answers, plain and assisted; else
    why not.
    """
    try:
        plain, assisted = _both(from_frame(frame, design), table)
    except FwcError as error:
        return {"refused": str(error).partition(":")[0]}
    return {
        metric: {
            "plain": [plain[metric].value, plain[metric].low, plain[metric].high],
            "assisted": [
                assisted[metric].value,
                assisted[metric].low,
                assisted[metric].high,
            ],
            "worth": (effective_sample_size(plain, assisted, metric) or np.nan)
            / plain.sample.rows,
        }
        for metric in METRICS
    }


def _both(run: RunAnswers, table: FeatureTable) -> list[Any]:
    return [
        ArmEstimates(one.samples["answers"])
        for one in (run, assisted_answers(run, table))
    ]


def simulate(
    table: FeatureTable, chance: np.ndarray, world: tuple[Any, ...], runs: int
) -> dict[str, Any]:
    """Return coverage, width, bias and rows' worth over runs; `chance` (N,) is each row's
    P(yes).
    """
    n, designed, repeats, lost, kind = world
    groups = sorted(set(table.group))
    cell = 2 * np.searchsorted(groups, table.group) + table.label
    rng = np.random.default_rng([n, repeats, int(designed), len(kind)])
    weight = np.ones(len(chance))
    if designed:
        weight = (np.array(DESIGNED) / np.bincount(cell))[cell]
    weight = weight * (
        1 - lost * (1 + (cell == 0))
    )  # shares are those of parsed answers
    truth = _truth(table, chance, weight)
    held = np.zeros((2, 4))
    widths = np.zeros((2, 4))
    off = list[Any]()
    worths = list[float]()
    defined = np.zeros((2, 4))
    for _ in range(runs):
        asked = [_draw(rng, cell, n, designed) for _ in range(repeats)]
        row = np.concatenate(asked)
        answer = np.where(rng.random(len(row)) < chance[row], "yes", "no").astype(
            object
        )
        answer[rng.random(len(row)) < lost * (1 + (cell[row] == 0))] = None
        repeat = np.repeat(np.arange(repeats), n)
        labels = np.where(table.label[row] == 1, "yes", "no")
        frame = {
            "row": table.rows[row],
            "repeat": repeat,
            "group": table.group[row],
            "label": labels,
        }
        run = from_frame(
            pd.DataFrame({**frame, "answer": answer}),
            "group and label" if designed else "group",
        )
        try:
            both = _both(run, table)
        except FwcError:  # one draw in a thousand looks as if it were none at random
            continue
        worths.append(
            (effective_sample_size(both[0], both[1], METRICS[0]) or np.nan)
            / both[0].sample.rows
        )
        for place, one in enumerate(both):
            ends = np.array([(one[metric].low, one[metric].high) for metric in METRICS])
            held[place] += (ends[:, 0] - 1e-9 <= truth) & (truth <= ends[:, 1] + 1e-9)
            widths[place] += np.nan_to_num(ends[:, 1] - ends[:, 0])
            defined[place] += ~np.isnan(
                ends[:, 0]
            )  # a group may have no row with the label yes
        if run.groups == tuple(groups):
            signed = 1
        else:
            signed = -1
        off.append(
            [
                signed * np.diff(one.counted("selection_rate").values).item()
                for one in both
            ]
        )
    gaps = np.array(off)
    rates = [
        np.average(chance[table.group == group], weights=weight[table.group == group])
        for group in groups
    ]
    with np.errstate(invalid="ignore"):
        coverage = held / defined
        width = widths[1] / widths[0]
    return {
        "coverage": coverage.round(3).tolist(),
        "width": width.round(3).tolist(),
        "defined": (defined[0] / runs).tolist(),
        "bias": (gaps.mean(0) - (rates[1] - rates[0])).round(4).tolist(),
        "worth": float(np.nanmedian(worths)),
        "variance_ratio": float(gaps[:, 0].var() / gaps[:, 1].var()),
    }


def _draw(
    rng: np.random.Generator, cell: np.ndarray, n: int, designed: bool
) -> np.ndarray:
    if not designed:
        return rng.choice(len(cell), n, replace=False)
    counts = (np.array(DESIGNED) * n).round().astype(int)
    return np.concatenate(
        [
            rng.choice(np.flatnonzero(cell == k), m, replace=False)
            for k, m in enumerate(counts)
        ]
    )


def _truth(table: FeatureTable, chance: np.ndarray, weight: np.ndarray) -> np.ndarray:
    rates = []
    odds = []
    for group in sorted(set(table.group)):
        here = table.group == group
        rates.append(np.average(chance[here], weights=weight[here]))
        odds.append([chance[here & (table.label == label)].mean() for label in (0, 1)])
    right = np.where(table.label == 1, chance, 1 - chance)
    gaps = np.abs(np.diff(odds, axis=0)).max()
    accuracy = np.average(right, weights=weight)
    return np.array([abs(rates[1] - rates[0]), min(rates) / max(rates), gaps, accuracy])


def goals(result: dict[str, Any]) -> Iterator[str]:
    """Yield what was aimed at, what was measured, and whether that is enough."""
    for design, least in (("group and label", 1.7), ("group", 2.2)):
        of_design = [one[design] for one in result["recorded"].values()]
        worths = [one[METRICS[0]]["worth"] for one in of_design if "refused" not in one]
        if worths:
            yield (
                f"Rows' worth of the DP gap on recorded answers, strata by {design}, at least "
                f"{least}: "
                + (f"lowest {min(worths):.2f}, {_met(min(worths) >= least)}")
            )
        refused = [one["refused"] for one in of_design if "refused" in one]
        if refused:
            yield (
                f"Strata by {design}: refused for {len(refused)} of {len(of_design)} files "
                f"({refused[0]})"
            )
    if not result["simulated"]:
        return
    worlds = list(result["simulated"].values())
    for place, kind in enumerate(("plain", "assisted")):
        own = np.array([one["coverage"][place] for one in worlds])
        off = 2 * np.sqrt(0.93 * 0.07 / result["runs"])
        below = (own < 0.93).sum(), (own < 0.93 - off).sum()
        yield (
            f"Coverage from 0.93 to 1.00 of {own.size} {kind} intervals: {own.min():.3f} to "
            f"{own.max():.3f}, "
            f"mean {own.mean():.3f}; {below[0]} below, {_met(below[0] == 0)}; {below[1]} by more "
            f"than chance "
            f"(by {off:.3f}, two standard errors)"
        )
    longest = max(max(one["width"]) for one in worlds)
    yield (
        f"Mean width at most 1.03 times the plain one: at most {longest:.2f}, "
        f"{_met(longest <= 1.03)}"
    )


def _met(enough: bool) -> str:
    return "**met**" if enough else "**missed**"


def as_markdown(result: dict[str, Any]) -> str:
    """Return the record as a page."""
    answers = []
    worlds = []
    for name, designs in result["recorded"].items():
        for design, found in designs.items():
            if "refused" in found:
                answers.append([name, design, "refused", *[""] * 5])
                continue
            gap = found[METRICS[0]]
            ends = [
                "{:.3f} ({:.3f} to {:.3f})".format(*gap[kind])
                for kind in ("plain", "assisted")
            ]
            answers.append(
                [
                    name,
                    design,
                    *ends,
                    *(f"{found[metric]['worth']:.2f}" for metric in METRICS),
                ]
            )
    for name, found in result["simulated"].items():
        cover = [
            f"{one:.3f} / {other:.3f}"
            for one, other in zip(*found["coverage"], strict=True)
        ]
        bias = " / ".join(f"{one:+.4f}" for one in found["bias"])
        ratios = [
            f"{ratio:.2f}"
            for ratio in (found["width"][0], found["variance_ratio"], found["worth"])
        ]
        worlds.append([name, *cover, *ratios, bias])
    head = [
        "answers",
        "strata",
        "plain DP gap",
        "assisted DP gap",
        "worth: DP gap",
        "ratio",
        "EO gap",
    ]
    if "anew" in result:
        anew = f" Recorded answers anew by `{result['anew']}`."
    else:
        anew = ""
    page = f"""# What predictions of the answers are worth

Made by `{result["command"]}`, seed fixed, one core. Rows' worth: how many times the rows the plain estimate \
of the DP gap (ratio, EO gap, accuracy) would need for the same variance.{anew}

{"".join(f"* {goal}.{chr(10)}" for goal in goals(result))}
## Recorded answers of GPT models (200 rows of Adult each)

{markdown([*head, "accuracy"], answers)}"""
    if not worlds:
        return page
    head = [
        "world",
        "DP gap",
        "DP ratio",
        "EO gap",
        "accuracy",
        "width",
        "variance",
        "said",
        "bias",
    ]
    return f"""{page}
## Simulated: a world fitted to GPT-4's answers, {result["runs"]} runs each

Predictable: three times its log-odds; unpredictable: every P(yes) is 0.5; wrong predictor: two columns that \
tell only together; tiny: a group of 2.6 % of the rows. Coverage of 95 % intervals, plain / assisted. Of the \
DP gap: width, assisted over plain; variance, plain over assisted; the median of what runs say of rows' \
worth; bias.

{markdown(head, worlds)}"""


@threadpool_limits.wrap(limits=1)  # threads that wait for each other take far longer
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = command_line(__doc__)
    parser.add_argument(
        "--runs", type=int, default=200, help="runs of each simulated world"
    )
    parser.add_argument("--data", type=Path, default=None, help="the data folder")
    parser.add_argument(
        "--out", type=Path, default=None, help="folder of cost.json and cost.md"
    )
    parser.add_argument(
        "--record", action="store_true", help="write them to evals/results"
    )
    given = parser.parse_args(arguments)
    given.out = RESULTS if given.record else given.out
    folder = given.data or Path(os.environ.get("FWC_LLM_DATA", "data"))
    task = load_task("adult", folder)
    table = table_of(task)
    files = dict(recorded(task, folder / FOLDER))
    designs = ("group and label", "group")
    found = {
        name: {design: worth_of(frame, table, design) for design in designs}
        for name, frame in files.items()
    }
    answers = next(iter(files.values())).dropna()
    fitted = LogisticRegression(C=0.5, max_iter=300)
    place = table.rows.get_indexer(pd.Index(answers["row"]))
    features = table.encoded
    fitted.fit(features[place], answers["answer"] == "yes")
    odds = features @ fitted.coef_[0] + fitted.intercept_[0]
    above = np.prod(
        [np.sign(column - np.median(column)) + 0.1 for column in features.T[:2]], 0
    )
    second = table.group == max(table.group)
    log_odds = {
        PREDICTABLE: 3 * odds,
        UNPREDICTABLE: 0 * odds,
        WRONG: (1.5 + second) * above + second,
    }
    few = np.where(
        ~second & (np.arange(len(second)) % 25 > 1), max(table.group), table.group
    )
    simulated = {}
    for world in WORLDS if given.runs else ():
        n, designed, repeats, lost, kind = world
        name = f"n = {n:,}, {'base parity 0.5' if designed else 'as they fall'}, R = {repeats}"
        name += f", {kind}" * (kind != FITTED) + f", {lost:.0%} unparsed or more" * (
            lost > 0
        )
        chance = 1 / (1 + np.exp(-log_odds.get(kind, odds)))
        if kind == TINY:
            whole = replace(table, group=few)
        else:
            whole = table
        simulated[name] = simulate(whole, chance, world, given.runs)
    before = json.loads((RESULTS / "cost.json").read_text(encoding="utf-8"))
    result = {
        "command": f"python -m evals.cost --record --runs {given.runs}",
        "runs": given.runs,
        "recorded": found,
        "simulated": simulated,
    }
    if not given.runs:  # the simulations that were recorded
        kept = {name: before[name] for name in ("command", "runs", "simulated")}
        result |= kept | {"anew": "python -m evals.cost --record --runs 0"}
    if given.out:
        write("cost", result, as_markdown(result), given.out, indent=None)
    print(as_markdown(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
