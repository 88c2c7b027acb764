"""CPU seconds and objective of fits against another commit, or another checkout, in the same run.

    python -m evals.bench.peer edd21a0e [--only rows,free,large,first] [--record]     # ten minutes

Both sides fit the same simulated tables in turn, on one thread, with twelve seeds (large tables:
three); the least CPU seconds of a seed count, and the mean objective. With three seeds alone the
mean of `rows` at m = 16 is uncertain by 0.1 %. *First* is a process of its own with an empty cache
of compiled code. A ratio below 1 means that this checkout is faster. `--record` writes
evals/results/peer.{json,md}.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from evals.record import command_line, describe_machine, markdown, write

ROOT = Path(__file__).resolve().parents[2]
SEEDS = {"rows": 12, "free": 12, "large": 3}
ROWS = {"support": "rows"}
PLAIN = {"init": "random", "progressive": False}
CASES: dict[str, list[tuple[str, int, int, dict[str, Any]]]] = {  # name, n, p, options
    "rows": [
        ("rows", 5_000, 12, {"m": 16, **ROWS}),
        ("rows", 5_000, 12, {"m": 100, **ROWS}),
        ("rows", 60_000, 12, {"m": 16, **ROWS}),
    ],
    "free": [
        ("free", 5_000, 12, {"m": 16}),
        ("free", 5_000, 12, {"m": 100}),
        ("free", 60_000, 12, {"m": 16}),
    ],
    "large": [
        ("default", 1_000, 25, {"m": 250}),
        ("default", 10_000, 25, {"m": 250}),
        ("default", 100_000, 25, {"m": 250}),
        ("plain", 100_000, 25, {"m": 250, **PLAIN}),
    ],
    "first": [
        ("first free", 20_000, 12, {"m": 100}),
        ("first rows", 20_000, 12, {"m": 100, **ROWS}),
    ],
}


@contextmanager
def checkout(name: str) -> Iterator[Path]:
    """The folder of a checkout, or a temporary one of a commit."""
    if Path(name).is_dir():
        yield Path(name).resolve()
        return
    with TemporaryDirectory() as folder:
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run(
            [*git, "add", "--detach", folder, name], check=True, capture_output=True
        )
        try:
            yield Path(folder)
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True)


class Side:
    """A process that fits with the code of a checkout; `peer_fits.py` answers line by line."""

    def __init__(self, folder: Path, cache: str | None = None) -> None:
        variables = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
        if cache:
            variables["NUMBA_CACHE_DIR"] = cache
        command = [sys.executable, "-P", str(Path(__file__).with_name("peer_fits.py"))]
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def fit(
        self, n: int, p: int, options: dict[str, Any], seed: int = 0
    ) -> dict[str, Any]:
        """CPU seconds, objective and gap of one fit."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(
            json.dumps({"n": n, "p": p, "options": options, "seed": seed}) + "\n"
        )
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def measure(
    sides: list[Side], seeds: int, name: str, n: int, p: int, options: dict[str, Any]
) -> dict[str, Any]:
    """Both sides in turn: once to load compiled code, then every seed."""
    for side in sides:
        side.fit(n, p, {**options, "max_iter": 2})
    fits = [[side.fit(n, p, options, seed) for side in sides] for seed in range(seeds)]
    return _compared(name, n, p, options, fits)


def measure_first(
    folders: list[Path], name: str, n: int, p: int, options: dict[str, Any]
) -> dict[str, Any]:
    """Both sides in processes of their own, each with an empty cache."""
    fits = []
    for folder in folders:
        with TemporaryDirectory() as cache:
            side = Side(folder, cache)
            fits.append(side.fit(n, p, options))
            side.close()
    return _compared(name, n, p, options, [fits])


def _compared(
    name: str, n: int, p: int, options: dict[str, Any], fits: list[list[dict[str, Any]]]
) -> dict[str, Any]:
    ours, theirs = zip(*fits, strict=True)
    seconds = [min(fit["seconds"] for fit in own) for own in (ours, theirs)]
    objectives = [
        float(np.mean([fit["objective"] for fit in own])) for own in (ours, theirs)
    ]
    found = {
        "case": name,
        "n": n,
        "p": p,
        "m": options["m"],
        "seconds": seconds[0],
        "peer_seconds": seconds[1],
        "ratio": seconds[0] / seconds[1],
        "objective": objectives[0],
        "peer_objective": objectives[1],
        "worse": objectives[0] / objectives[1] - 1,
        "gap": max(fit["gap"] for fit in ours),
    }
    print(found, flush=True)
    return found


def report(found: dict[str, Any]) -> str:
    """The table as Markdown."""
    lines = [
        [
            case["case"],
            f"{case['n']:,}",
            case["m"],
            f"{case['seconds']:.2f}",
            f"{case['peer_seconds']:.2f}",
            f"{case['ratio']:.2f}",
            f"{case['worse']:+.2%}",
            f"{case['gap']:.0e}",
        ]
        for case in found["cases"]
    ]
    head = ["case", "n", "m", "CPU s", "peer's", "ratio", "objective", "gap"]
    return f"""# Fits against an earlier commit

`{found["command"]}` on {found["machine"]}.

Both sides in one run, in turn, on one thread: the least CPU seconds of 12 seeds (large tables: 3), and by \
how much the mean objective is above the peer's. The gap is between objective and lower bound. *First*: \
with an empty cache of compiled code.

{markdown(head, lines)}"""


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("peer", help="a commit, or the folder of a checkout")
    parser.add_argument(
        "--only", default=",".join(CASES), help="groups of cases, comma-separated"
    )
    parser.add_argument(
        "--record", action="store_true", help="write evals/results/peer.{json,md}"
    )
    arguments = parser.parse_args()
    groups = arguments.only.split(",")
    with checkout(arguments.peer) as other:
        folders = [ROOT, other]
        sides = [Side(folder) for folder in folders]
        cases = [
            measure(sides, SEEDS[group], *case)
            for group in groups
            if group != "first"
            for case in CASES[group]
        ]
        for side in sides:
            side.close()
        if "first" in groups:
            cases += [measure_first(folders, *case) for case in CASES["first"]]
    found = {
        "command": f"python -m evals.bench.peer {arguments.peer}",
        "machine": describe_machine(),
        "cases": cases,
    }
    print(report(found))
    if arguments.record:
        write("peer", found, report(found))


if __name__ == "__main__":
    main()
