"""Which examples make a real model fairer, by a plan (evals/real_model/counter/plan.md).

    python -m evals.real_model.counter ask --models ~/models --out runs/counter  # it goes on where
                                                                                 it was
    python -m evals.real_model.counter collect --out runs/counter                # into answers.csv
    python -m evals.real_model.counter report                                    # evals/results/

`draw` chose the examples and rows, once; `--model 0.5b` asks and collects for the second model, in
a folder of its own. Extra: `local`.
"""

import argparse
from pathlib import Path

from evals.real_model.counter.ask import ANSWERS, ask, collect
from evals.real_model.counter.draw import draw
from evals.real_model.counter.report import report


def main() -> None:
    """Draw, ask, collect or report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("draw", "ask", "collect", "report"))
    parser.add_argument("--model", choices=tuple(ANSWERS), default="1.5b")
    parser.add_argument(
        "--models", type=Path, default=Path("models"), help="folder of the model's file"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/counter"), help="folder of the journal"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of llama.cpp")
    arguments = parser.parse_args()
    if arguments.step == "draw":
        draw()
    elif arguments.step == "ask":
        ask(arguments.model, arguments.models, arguments.out, arguments.threads)
    elif arguments.step == "collect":
        collect(arguments.out, ANSWERS[arguments.model])
    else:
        report()


if __name__ == "__main__":
    main()
