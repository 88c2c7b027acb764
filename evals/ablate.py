"""What the parts of FWC do to the surrogate's answers (SIMULATED): `fwc-llm eval --ablate`, recorded.

    python -m evals.ablate           # 20 repeats of 200 rows; --repeats 5 --n-test 40 for a look

Writes evals/results/ablate.{json,md}. The run itself is kept where `--out` says, else in a temporary folder.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from fwc_llm import evaluate
from fwc_llm.metrics.statistics import statistics
from fwc_llm.report.ablation import ablation, ablation_steps
from fwc_llm.report.read import read_run
from fwc_llm.runs.ablation import ARMS, OPTIONS, REPEATS

RESULTS = Path(__file__).resolve().parent / "results"
COMMAND = "python -m evals.ablate"
N_TEST = 200


def ablate(folder: Path, repeats: int, n_test: int) -> dict[str, Any]:
    """Run the ablation in `folder`, or take up the one that is there."""
    result = evaluate(
        "adult", "surrogate", ARMS, repeats=repeats, n_test=n_test, strategy_options=OPTIONS, out=folder
    )
    found = statistics(read_run(folder).answered)
    return {
        "command": COMMAND, "simulated": True, "repeats": repeats, "n_test": n_test, "m": 16,
        "arms": [
            {
                "arm": arm["arm"],
                "accuracy": arm["accuracy"]["value"],
                "gap": arm["demographic_parity_difference"]["value"],
            }
            for arm in found["arms"]
        ],
        "steps": ablation_steps(found),
        "rows": ablation(found).rows,
        "notes": ablation(found).notes,
        "unanswered": result.unanswered,
    }  # fmt: skip


def markdown(report: dict[str, Any]) -> str:
    """The figures as a page."""
    arms = [f"| `{a['arm']}` | {a['gap']:.3f} | {100 * a['accuracy']:.1f} |" for a in report["arms"]]
    steps = [f"| {' | '.join(row)} |" for row in report["rows"]]
    notes = [f"* {note}" for note in report["notes"]]
    lines = [
        "# What each part of FWC does to the surrogate's answers (SIMULATED: no language model)",
        "",
        f"Made by `{report['command']}`, which runs `fwc-llm eval --ablate --task adult --model surrogate",
        f"--n-test {report['n_test']} --repeats {report['repeats']}`:",
        f"{report['m']} examples, base parity 0.5, rows and examples drawn anew for every repeat.",
        "The surrogate weighs examples by likeness and by the weights shown, and cannot see their order: its",
        "steps of order are 0.",
        "",
        "| arm | DP gap | accuracy % |",
        "|---|---:|---:|",
        *arms,
        "",
        "| Part | What changes | DP gap | Accuracy, points |",
        "|---|---|---|---|",
        *steps,
        "",
        *notes,
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--n-test", type=int, default=N_TEST)
    parser.add_argument("--out", type=Path, help="the run's folder; an interrupted run continues there")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where ablate.json and ablate.md go")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.out or Path(scratch) / "run"
        report = ablate(folder, arguments.repeats, arguments.n_test)
    (arguments.results / "ablate.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (arguments.results / "ablate.md").write_text(markdown(report), encoding="utf-8")
    print(markdown(report))


if __name__ == "__main__":
    main()
