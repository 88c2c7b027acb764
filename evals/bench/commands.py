"""CPU seconds of everyday commands, beside those of another version of the package.

    python -m evals.bench.commands                                # this checkout alone, 3 rounds
    python -m evals.bench.commands --against dist/fwc_llm-1.0-py3-none-any.whl
    python -m evals.bench.commands --against v1.0 --rounds 5      # a revision of this repository

Each command runs in a process of its own with a fresh cache, and with Python's bytecode in place,
as after an installation. A first round that is not counted writes the bytecode and compiles the
solver. Versions take turns, so that other load on the machine meets both; what is printed is the
minimum. Exit code 1 where a command takes more than 1.25 times the CPU seconds of the other
version.
"""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from evals.record import command_line

CHECKOUT = Path(__file__).resolve().parents[2]
MOST = 1.25  # of the other version's CPU seconds
_COUNTED = (
    "import resource, subprocess, sys;"
    "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, "
    "text=True);"
    "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
    "sys.exit(done.stderr) if done.returncode else print(used.ru_utime + used.ru_stime)"
)


def commands(answers: Path, out: Path) -> dict[str, list[str]]:
    """The commands by name; those that write do so below `out`."""
    audited = ["--answer", "said", "--label", "was", "--protected", "sex,race"]
    run = [
        "eval",
        "--task",
        "adult",
        "--model",
        "surrogate",
        "--shots",
        "zero",
        "--n-test",
        "4000",
    ]
    return {
        "--help": ["--help"],
        "eval, 4,000 rows of Adult, zero-shot": [*run, "--out", str(out / "run")],
        "audit, 50,000 rows": ["audit", str(answers), *audited],
        "shots, fwc on Adult": [
            "shots",
            "--task",
            "adult",
            "--m",
            "16",
            "-o",
            str(out / "shots.json"),
            "--force",
        ],
        "eval, the demonstration": ["eval", "--out", str(out / "demonstration")],
    }


def made_up_answers(n: int) -> pd.DataFrame:
    """n made-up answers (simulated) of two protected attributes, with P(yes), one in a hundred
    empty.
    """
    rng = np.random.default_rng(0)
    label = rng.random(n) < 0.3
    p = np.clip(rng.beta(2, 4, n) + 0.2 * label, 0, 1)
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "sex": rng.choice(["Male", "Female"], n, p=[0.6, 0.4]),
            "race": rng.choice(
                ["White", "Black", "Asian", "Other"], n, p=[0.7, 0.15, 0.1, 0.05]
            ),
            "was": np.where(label, "yes", "no"),
            "said": np.where(rng.random(n) < 0.01, "", np.where(p > 0.5, "yes", "no")),
            "p": p,
        }
    )


def unpacked(version: str, folder: Path) -> Path:
    """The folder with the package of a wheel, or of a revision of this repository."""
    if version.endswith(".whl"):
        zipfile.ZipFile(version).extractall(folder)
    else:
        parts = ["fwc_llm", "prompts", "evals/tasks"]
        packed = subprocess.run(
            ["git", "archive", version, *parts],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            check=True,
        )
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
    return folder


def seconds(package: Path, command: list[str], cache: Path) -> float:
    """CPU seconds of a command, all threads and processes together."""
    environment = os.environ | {
        "PYTHONPATH": str(package),
        "XDG_CACHE_HOME": str(cache),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    words = [sys.executable, "-m", "fwc_llm", *command]
    done = subprocess.run(
        [sys.executable, "-c", _COUNTED, *words],
        cwd=cache,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-500:]}")
    return float(done.stdout)


def main() -> int:
    """Measure, print a table, and say whether something became slower."""
    parser = command_line(__doc__)
    parser.add_argument("--against", help="a wheel or a revision")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fwc-llm-bench-") as place:
        folder = Path(place)
        made_up_answers(50_000).to_csv(folder / "answers.csv", index=False)
        packages = {"now": CHECKOUT}
        if asked.against:
            packages[asked.against] = unpacked(asked.against, folder / "other")
        found: dict[tuple[str, str], list[float]] = {}
        for number in range(asked.rounds + 1):
            for name in commands(folder, folder):
                for version, package in packages.items():
                    with tempfile.TemporaryDirectory(dir=folder) as fresh:
                        command = commands(folder / "answers.csv", Path(fresh))[name]
                        used = seconds(package, command, Path(fresh))
                    if number:
                        found.setdefault((name, version), []).append(used)
    least = {key: min(values) for key, values in found.items()}
    slower = False
    print(f"CPU seconds, minimum of {asked.rounds}: {', '.join(packages)}")
    for name in commands(Path(), Path()):
        now, *others = (least[name, version] for version in packages)
        slower |= any(now > MOST * other for other in others)
        print(f"{name:<40} {now:6.2f}", *(f"{other:6.2f}" for other in others))
    return int(slower)


if __name__ == "__main__":
    sys.exit(main())
