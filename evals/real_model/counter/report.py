"""Score what was asked, by the plan, and write evals/results/fairer-examples.{json,md,svg}."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from evals.real_model.counter.ask import ANSWERS, REPEATED, SECOND, units
from evals.real_model.counter.draw import ARMS, EACH, ROUNDS, SETS, ZERO, read_rows
from evals.real_model.counter.replay import job_of
from evals.real_model.counter.scores import (
    CELLS,
    complete_steps,
    contrasts,
    difference,
    estimate,
    measure,
)
from fwc_llm.models.surrogate.model import FORMS
from fwc_llm.plotting import COLOURS, MARKERS, SOFT, name_lines, panels, save
from fwc_llm.runs.folder import RunFolder

RESULTS = Path(__file__).resolve().parents[2] / "results"
NAME = "fairer-examples"
NAMES = {ZERO: "zero-shot", **ARMS}
PLANNED = sum(len(unit.rounds) for unit in units()) * CELLS * EACH
_ABOUT = """\
Made by `{command}` from the replies in `evals/real_model/counter/answers.csv`, by
[a plan that was committed before the first question](../real_model/counter/plan.md). The model is
Qwen2.5-Coder-1.5B-Instruct, the table is Adult, with 16 examples and as many rows of each sex and label.
{questions} questions were asked, in {hours:.1f} hours; the complete steps hold {scored} per arm.

The *gap at equal labels* is the rate of *yes* of men minus that of women, among people with the same true
label. 0 is fair, and perfect answers have 0. *Counter slots* are examples against the stereotype: women 6
*yes* and 2 *no*, men 2 *yes* and 6 *no*; FWC's own slots have 4 *yes* and 12 *no*. Every set says *yes*
above its median on 20 other rows; zero-shot has 200 rows, and one median of 200 others. The last 2,400
answers are of a second build of the engine ([the plan's log](../real_model/counter/plan.md#log)).
(…): 95 % t interval over sets.

Few rows see large effects only: by the plan's simulation, ten sets find a drop of the gap by 0.20 in 50 % of
all experiments in one round, in 75 % in two and in 93 % in five; one by 0.10 in 11 %, 18 % and 30 % (after
Holm's correction). A round has 20 rows of each set."""
_SURROGATE = """\
The surrogate is a SIMULATION of GPT-4's recorded answers, asked about the same rows with the same sets and
scored alike. Where its difference lies outside the model's interval, it errs, and nothing follows from it."""
_SECOND = """\
Qwen2.5-Coder-0.5B-Instruct was asked {questions} questions in {hours:.1f} hours, by
[the plan's second part](../real_model/counter/plan.md#a-second-model): the same sets and rows, two arms.
The complete steps hold {sets} sets and {rows} rows per arm. One test, so its p is not corrected.
**The first model's verdict is *{first}*, this one's *{second}*.**"""
_METRICS = (
    *(
        "gap",
        "accuracy",
        "yes",
        "gap as answered",
        "accuracy as answered",
        "yes as answered",
    ),
    *("gap at the median", "accuracy at the median", "gap without a threshold", "auc"),
)


def report(folder: Path = RESULTS) -> None:
    """Write the page, its picture and its numbers."""
    answers = pd.read_csv(ANSWERS["1.5b"])
    content = summary(answers)
    if ANSWERS[SECOND].exists():
        content["second"] = second_model(pd.read_csv(ANSWERS[SECOND]))
    (folder / f"{NAME}.json").write_text(
        json.dumps(content, indent=1) + "\n", encoding="utf-8"
    )
    (folder / f"{NAME}.md").write_text(page(content), encoding="utf-8")
    picture(content, measure(answers), folder / f"{NAME}.svg")


def summary(answers: pd.DataFrame) -> dict[str, Any]:
    """All numbers of the page."""
    scores = measure(answers)
    steps = sorted(complete_steps(answers))
    present = [arm for arm in NAMES if arm in scores.index.get_level_values("arm")]
    return {
        "command": "python -m evals.real_model.counter report",
        "questions": len(answers),
        "planned": PLANNED,
        "seconds": round(float(answers["seconds"].sum())),
        "sets": len({number for number, _ in steps}),
        "steps": [list(step) for step in steps],
        "rows": len(steps) * CELLS * EACH,
        "arms": {
            arm: {metric: asdict(estimate(scores[metric][arm])) for metric in _METRICS}
            for arm in present
        },
        "contrasts": contrasts(scores),
        "against": [
            {"first": arm, "second": other}
            | {
                metric: asdict(difference(scores, arm, other, metric))
                for metric in ("gap", "accuracy", "auc")
            }
            for other in (ZERO, "balanced")
            for arm in present
            if arm not in (ZERO, other) and other in present
        ],
        "surrogate": {
            form: contrasts(measure(simulated(form, steps))) for form in FORMS
        },
    }


def second_model(answers: pd.DataFrame) -> dict[str, Any]:
    """The contrast that mattered with the second model: one test, so p needs no correction."""
    scores = measure(answers, REPEATED)
    steps = complete_steps(answers, REPEATED)
    counter, fwc = REPEATED
    (contrast,) = contrasts(scores, [(fwc, counter)])
    return {
        "questions": len(answers),
        "planned": sum(len(unit.rounds) for unit in units(SECOND)) * CELLS * EACH,
        "seconds": round(float(answers["seconds"].sum())),
        "sets": len({number for number, _ in steps}),
        "rows": len(steps) * CELLS * EACH,
        "arms": {
            arm: {metric: asdict(estimate(scores[metric][arm])) for metric in _METRICS}
            for arm in REPEATED
        },
        "contrast": contrast,
    }


def simulated(form: str, steps: Sequence[tuple[int, int]]) -> pd.DataFrame:
    """The answers of a form of the surrogate (SIMULATED) to the questions of the complete steps."""
    rows = read_rows()
    tables = []
    for number in sorted({number for number, _ in steps}):
        rounds = [0, *(turn for step, turn in steps if step == number)]
        of_set = rows[(rows["set"] == number) & rows["round"].isin(rounds)].set_index(
            "row"
        )
        with tempfile.TemporaryDirectory() as scratch:
            result = job_of(f"surrogate:{form}", number, list(of_set.index)).run(
                Path(scratch) / "run"
            )
            answers = pd.DataFrame(RunFolder(result.folder).read_answers())
        answers["arm"] = answers["arm"].str.removesuffix(f"-{number}")
        answers["set"], answers["round"] = number, answers["row"].map(of_set["round"])
        tables.append(answers.astype({"p_yes": float}))
    return pd.concat(tables)


def page(content: Mapping[str, Any]) -> str:
    """The page: picture, sentence, contrasts, arms, and the surrogate beside them."""
    return (
        "\n\n".join(
            [
                "# Which examples make a real model fairer?",
                f"![Gap at equal labels and accuracy by arm]({NAME}.svg)",
                f"**{_sentence(content)}**",
                _about(content),
                "## The planned contrasts",
                _contrasts(content["contrasts"]),
                "## The arms",
                _arms(content["arms"]),
                "## Against zero-shot (on a fifth of the rows) and balanced examples: described, not tested",
                _against(content),
                *_second(content),
                "## Does the surrogate react as the model does?",
                _SURROGATE,
                _surrogate(content),
            ]
        )
        + "\n"
    )


def _sentence(content: Mapping[str, Any]) -> str:
    """What the contrasts say, in one sentence."""
    by_verdict: dict[str, list[str]] = {}
    for each in content["contrasts"]:
        by_verdict.setdefault(each["verdict"], []).append(f"“{_difference(each)}”")
    parts = [f"{verdict}: {', '.join(names)}" for verdict, names in by_verdict.items()]
    if len(parts) == 1:
        parts = [f"the verdict on each planned contrast is “{next(iter(by_verdict))}”"]
    whole = len(content["steps"]) == SETS * ROUNDS
    asked = f"After {content['questions']:,} of {content['planned']:,} questions"
    said = f"{'All questions are asked' if whole else asked}: {'; '.join(parts)}."
    if "second" in content:
        said += f" A second model, asked the last of these: {content['second']['contrast']['verdict']}."
    return said


def _about(content: Mapping[str, Any]) -> str:
    rows = SETS * ROUNDS * CELLS * EACH
    return _ABOUT.format(
        command=content["command"],
        questions=f"{content['questions']:,} of {content['planned']:,}",
        hours=content["seconds"] / 3600,
        scored=f"{content['sets']} of {SETS} sets and {content['rows']:,} of {rows:,} rows",
    )


def _contrasts(found: Sequence[Mapping[str, Any]], p: str = "Holm p") -> str:
    lines = [
        [
            _difference(each),
            _cell(each["gap"]),
            "–" if each["holm"] is None else f"{each['holm']:.2g}",
            _cell(each["accuracy"]),
            each["verdict"],
        ]
        for each in found
    ]
    return _markdown(["", "gap at equal labels", p, "accuracy", "verdict"], lines)


def _arms(arms: Mapping[str, Any]) -> str:
    columns = {
        "gap at equal labels": "gap",
        "accuracy": "accuracy",
        "AUC": "auc",
        "as answered: yes": "yes as answered",
        "as answered: gap": "gap as answered",
        "as answered: accuracy": "accuracy as answered",
        "gap at the median": "gap at the median",
        "gap without a threshold": "gap without a threshold",
    }
    lines = [
        [
            NAMES[arm],
            *(
                _cell(found[metric], signed="gap" in metric)
                for metric in columns.values()
            ),
        ]
        for arm, found in arms.items()
    ]
    return _markdown(["", *columns], lines)


def _second(content: Mapping[str, Any]) -> list[str]:
    """The section on the second model, where it was asked."""
    if "second" not in content:
        return []
    second = content["second"]
    contrast = second["contrast"]
    first = next(
        each
        for each in content["contrasts"]
        if (each["first"], each["second"]) == (contrast["first"], contrast["second"])
    )
    coins = [
        NAMES[arm]
        for arm, found in second["arms"].items()
        if found["auc"]["low"] is not None and found["auc"]["low"] <= 0.5
    ]
    text = _SECOND.format(
        questions=f"{second['questions']:,} of {second['planned']:,}",
        hours=second["seconds"] / 3600,
        sets=second["sets"],
        rows=second["rows"],
        first=first["verdict"],
        second=contrast["verdict"],
    )
    if coins:
        text += f" Ranks rows no better than a coin, so its gap tells little: {', '.join(coins)}."
    return [
        "## The last of these contrasts, with a second model",
        text,
        _contrasts([contrast], "p"),
        _arms(second["arms"]),
    ]


def _against(content: Mapping[str, Any]) -> str:
    lines = [
        [
            _difference(each),
            *(_cell(each[metric]) for metric in ("gap", "accuracy", "auc")),
        ]
        for each in content["against"]
    ]
    return _markdown(["", "gap at equal labels", "accuracy", "AUC"], lines)


def _surrogate(content: Mapping[str, Any]) -> str:
    forms = content["surrogate"]
    lines = []
    for place, each in enumerate(content["contrasts"]):
        for metric in ("gap", "accuracy"):
            others = [_cell(found[place][metric]) for found in forms.values()]
            lines.append(
                [f"{metric}, {_difference(each)}", _cell(each[metric]), *others]
            )
    return _markdown(["", "1.5B", *(f"{form}, simulated" for form in forms)], lines)


def _difference(contrast: Mapping[str, Any]) -> str:
    return f"{NAMES[contrast['first']]} − {NAMES[contrast['second']]}"


def _cell(found: Mapping[str, Any], signed: bool = True) -> str:
    form = "+.2f" if signed else ".2f"
    text = format(found["value"], form)
    if found["low"] is not None:
        text += f" ({format(found['low'], form)} to {format(found['high'], form)})"
    return text.replace("-", "−")


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    table = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def picture(content: Mapping[str, Any], scores: pd.DataFrame, path: Path) -> None:
    """Draw the gap at equal labels and the accuracy of each arm: sets, mean, interval."""
    sets = f"{content['sets']} sets per arm, {content['rows']} rows"
    title = f"Qwen2.5-Coder-1.5B on Adult: {sets}; mean, 95 % interval"
    with panels([title], [4.2, 3.6], [2.6]) as (figure, drawn):
        for panel, metric in zip(drawn, ("gap", "accuracy"), strict=True):
            for line, (arm, found) in enumerate(content["arms"].items()):
                colour = COLOURS[line]
                entry = found[metric]
                values = scores[metric][arm]
                panel.plot(values, [line] * len(values), "|", color=colour, alpha=0.5)
                panel.plot(
                    [entry["value"]], [line], MARKERS[line % len(MARKERS)], color=colour
                )
                if entry["low"] is not None:
                    panel.plot(
                        [entry["low"], entry["high"]],
                        [line, line],
                        color=colour,
                        linewidth=2,
                    )
            name_lines(panel, [NAMES[arm] for arm in content["arms"]])
        drawn[0].axvline(0.0, color=SOFT, linestyle="--", linewidth=1)
        drawn[0].set_xlabel("gap at equal labels, men − women (0 is fair)")
        drawn[1].set_xlabel("accuracy")
        save(figure, path)
