"""What the parts of FWC do to the surrogate's answers (SIMULATED): `fwc-llm eval --ablate`, in all its forms.

    python -m evals.ablate           # 20 repeats of 200 rows; --repeats 5 --n-test 40 for a look

Writes evals/results/ablate.{json,md}. The run itself is kept where `--out` says, else in a temporary folder.
"""

import argparse
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from fwc_llm import evaluate
from fwc_llm.metrics.statistics import statistics
from fwc_llm.models.surrogate.model import FORMS
from fwc_llm.report.ablation_steps import ablation, ablation_steps
from fwc_llm.runs.ablation_arms import ARMS, OPTIONS, REPEATS
from fwc_llm.runs.recorded_run import read_run

RESULTS = Path(__file__).resolve().parent / "results"
COMMAND = "python -m evals.ablate"
N_TEST = 200


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
        "steps": ablation_steps(measured),
        "rows": ablation(measured).rows,
        "unanswered": result.unanswered,
    }


def markdown(report: dict[str, Any]) -> str:
    """The figures as a page."""
    forms = report["forms"]
    names = " | ".join(form["form"] for form in forms)
    arms = []
    for each in zip(*(form["arms"] for form in forms), strict=True):
        cells = (f"{arm['gap']:.3f}, {100 * arm['accuracy']:.1f}" for arm in each)
        arms.append(f"| `{each[0]['arm']}` | {' | '.join(cells)} |")
    return f"""# What each part of FWC does to the surrogate's answers (SIMULATED: no language model)

Made by `{report["command"]}`, which runs `fwc-llm eval --ablate --task adult --model surrogate:FORM
--n-test {report["n_test"]} --repeats {report["repeats"]}` with each form of its reaction to examples:
16 examples, base parity 0.5, rows and examples drawn anew for every repeat.
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
