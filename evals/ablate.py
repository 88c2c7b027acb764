"""What the parts of FWC do to the surrogate's answers (SIMULATED), in all its forms.

    python -m evals.ablate           # 20 repeats of 200 rows; --repeats 5 --n-test 40 for a look

Writes evals/results/ablate.{json,md}. The run itself is kept where `--out` says, else in a temporary folder.
"""

import argparse
import json
import re
import tempfile
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fwc_llm import evaluate
from fwc_llm.metrics.arm_comparison import adjust
from fwc_llm.metrics.statistics import plain, statistics
from fwc_llm.models.surrogate.model import FORMS
from fwc_llm.report.number_format import DASH, interval, p_value, signed
from fwc_llm.report.sections import COMPARED, MARKS
from fwc_llm.runs.recorded_run import read_run

RESULTS = Path(__file__).resolve().parent / "results"
COMMAND = "python -m evals.ablate"
REPEATS, N_TEST = 20, 200
# The numbers of examples in each cell by which `fwc` fills its slots, and `strata` the same.
OPTIONS = {"slots": "balanced-positive"}


class Step(NamedTuple):
    """Two arms that differ in one part alone."""

    part: str
    first: str
    second: str
    words: str


STEPS = (
    Step("slots", "balanced", "strata", "random rows in FWC's slots instead of balanced ones"),
    Step("geometry", "strata", "fwc+unweighted@alternate", "FWC's rows instead of random ones in its slots"),
    Step("weights", "fwc+unweighted@alternate", "fwc@alternate", "the weights shown"),
    Step("order", "fwc@alternate", "fwc", "by weight instead of labels in turn"),
    Step("any order", "fwc", "fwc@random", "shuffled instead of by weight"),
    Step("all of FWC", "balanced", "fwc", "FWC instead of balanced examples"),
)
ARMS = tuple(dict.fromkeys(arm for step in STEPS for arm in (step.first, step.second)))


def ablate(folder: Path, form: str, repeats: int, n_test: int) -> dict[str, Any]:
    """Run the ablation with a form of the surrogate in `folder`, or take up the one that is there."""
    result = evaluate(
        "adult",
        f"surrogate:{form}",
        ARMS,
        repeats=repeats,
        n_test=n_test,
        strategy_options=OPTIONS,
        out=folder,
    )
    measured = statistics(read_run(folder).answered)
    return {
        "form": form,
        "arms": [
            {
                "arm": arm["arm"],
                "accuracy": arm["accuracy"]["value"],
                "gap": arm["demographic_parity_difference"]["value"],
            }
            for arm in measured["arms"]
        ],
        "steps": (made := ablation_steps(measured)),
        "rows": ablation_rows(made),
        "unanswered": result.unanswered,
    }


def ablation_steps(stats: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The comparisons of the steps in a run's statistics, corrected over the steps alone."""
    tests = {(test["first"], test["second"]): test for test in stats["comparisons"]}
    compared = [deepcopy(tests[step.first, step.second]) for step in STEPS]
    for test in compared:
        for metric, *_ in COMPARED:
            for key, value in test[metric].items():
                test[metric][key] = np.nan if value is None and key != "worst_case" else value
    adjust(compared)
    made: list[dict[str, Any]] = plain(compared)
    return [{"part": step.part, "words": step.words, **test} for step, test in zip(STEPS, made, strict=True)]


def ablation_rows(steps: list[dict[str, Any]]) -> list[list[str]]:
    """One row a step: the part, what changes, and its effect on DP gap and accuracy."""
    shown = list(reversed(COMPARED))
    return [
        [step["part"], step["words"], *(_change(step[m], digits, scale) for m, digits, scale in shown)]
        for step in steps
    ]


def _change(test: Mapping[str, Any], digits: int, scale: float) -> str:
    if test["difference"] is None:
        return DASH
    shown = signed(test["difference"], digits, scale)
    if test["p_adjusted"] is None:
        return shown
    limits = interval((test["low"], test["high"]), digits, scale)
    return f"{MARKS[test['verdict']]} {shown} ({limits}; p {p_value(test['p_adjusted'])})"


def markdown(report: dict[str, Any]) -> str:
    """The figures as a page."""
    forms = report["forms"]
    names = " | ".join(form["form"] for form in forms)
    arms = []
    for each in zip(*(form["arms"] for form in forms), strict=True):
        cells = (f"{arm['gap']:.3f}, {100 * arm['accuracy']:.1f}" for arm in each)
        arms.append(f"| `{each[0]['arm']}` | {' | '.join(cells)} |")
    return f"""# What each part of FWC does to the surrogate's answers (SIMULATED: no language model)

Made by `{report["command"]}`: {report["n_test"]} rows of Adult in {report["repeats"]} repeats,
asked of each form of its reaction to examples with 16 examples,
base parity 0.5, rows and examples drawn anew for every repeat.
The surrogate cannot see the order of examples: its steps of order are 0.

DP gap and accuracy (%) of each arm:

| arm | {names} |
|---|{"---|" * len(forms)}
{chr(10).join(arms)}

Changes of the DP gap, with 95 % intervals, on the same rows; they speak of other draws of the examples,
too, and of no other form. **Where the sign is not the same in all forms, the step has no p-value: the sign
is an assumption.**

| part | what changes | {names} |
|---|---|{"---|" * len(forms)}
{chr(10).join(steps(forms, "demographic_parity_difference", 2))}

Changes of the accuracy, in points:

| part | what changes | {names} |
|---|---|{"---|" * len(forms)}
{chr(10).join(steps(forms, "accuracy", 3))}

≠ differs, ≈ no difference shown, ? cannot be told (5 %, Bonferroni's correction over the steps of a form).
The steps from slots to order add up to all of FWC.
"""


def steps(forms: list[dict[str, Any]], metric: str, cell: int) -> list[str]:
    """A line for every step: its change of `metric` in each form, `cell` of the ablation's row."""
    lines = []
    for place, (part, words, *_) in enumerate(forms[0]["rows"]):
        signs = {np.sign(round(form["steps"][place][metric]["difference"], 3)) for form in forms} - {0.0}
        cells = [form["rows"][place][cell] for form in forms]
        if len(signs) > 1:
            cells = [re.sub(r"^[≠≈?] |; p [<0-9.]+", "", text) for text in cells]
        lines.append(f"| {part} | {words} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--n-test", type=int, default=N_TEST)
    parser.add_argument("--out", type=Path, help="the runs' folder; interrupted runs continue there")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where ablate.json and ablate.md go")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.out or Path(scratch) / "run"
        forms = [ablate(folder / form, form, arguments.repeats, arguments.n_test) for form in FORMS]
    report = {
        "command": COMMAND, "simulated": True, "repeats": arguments.repeats, "n_test": arguments.n_test,
        "m": 16, "forms": forms,
    }  # fmt: skip
    (arguments.results / "ablate.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (arguments.results / "ablate.md").write_text(markdown(report), encoding="utf-8")
    print(markdown(report))


if __name__ == "__main__":
    main()
