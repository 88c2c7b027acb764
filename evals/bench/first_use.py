"""How long the first use takes: processor seconds of a process with an empty cache, and of one after it.

    python -m evals.bench.first_use    # minutes

Results, with the machine, go to `evals/results/first-use.json` and `evals/results/first-use.md`. What
compiling takes is the difference between the two processes.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass

from evals.bench.solver import RESULTS, describe_machine

_HEAD = """
import numpy as np
from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset
rng = np.random.default_rng(0)
"""
KINDS = {
    "free, L1, n = 200,000": "FairCoreset(50, random_state=0).fit(*synthetic(200_000, 10))",
    "free, squared L2, n = 200,000": (
        "FairCoreset(50, cost='sqeuclidean', random_state=0).fit(*synthetic(200_000, 10))"
    ),
    "rows, n = 20,000": "FairCoreset(16, support='rows', random_state=0).fit(*synthetic(20_000, 10))",
    "free with swaps, n = 20,000": "FairCoreset(16, swaps=True, random_state=0).fit(*synthetic(20_000, 10))",
    "transport, n = 600,000": (
        "from fwc_llm.coreset.transport.inner_problem import fair_transport\n"
        "fair_transport(rng.random((600_000, 4)), 2, 2, [0.5, 0.5], 0.01)"
    ),
    "FairWASP, n = 4,000": (
        "from fwc_llm.coreset.fairwasp import FairWASP\nFairWASP().fit(*synthetic(4_000, 10))"
    ),
    "Wasserstein distance": (
        "from fwc_llm.coreset.distance import wasserstein\n"
        "wasserstein(rng.random((2_000, 16)), rng.random(16))"
    ),
    "k-medoids, n = 2,000": (
        "from fwc_llm.coreset.rivals.clustering import kmedoids\nkmedoids(*synthetic(2_000, 10), 16)"
    ),
}
COMMAND = "fwc-llm warm-up"


@dataclass(frozen=True)
class Use:
    """Processor seconds of the first process and of the second, and the seconds that the second took."""

    kind: str
    first: float
    again: float
    again_elapsed: float


def measure(kind: str) -> Use:
    """Two processes that share a cache, empty for the first."""
    code = ["-m", "fwc_llm", "warm-up"] if kind == COMMAND else ["-c", _HEAD + KINDS[kind]]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        used, elapsed = [], 0.0
        for _ in range(2):
            before, start = _processor_seconds(), time.perf_counter()
            subprocess.run([sys.executable, *code], env=environment, capture_output=True, check=True)
            elapsed = time.perf_counter() - start
            used.append(_processor_seconds() - before)
    return Use(kind, used[0], used[1], elapsed)


def _processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def report(uses: list[Use], machine: str) -> str:
    """The table as Markdown."""
    lines = [
        "# First use",
        "",
        f"`python -m evals.bench.first_use` on {machine}",
        "",
        "Processor seconds of a whole process with an empty cache of compiled code, and of a second one "
        "after it; the difference is what compiling takes. The last column is how long the second one took.",
        "",
        "| first use of | first | again | compiling | again, elapsed |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {use.kind} | {use.first:.1f} | {use.again:.1f} | {use.first - use.again:.1f} | "
        f"{use.again_elapsed:.1f} |"
        for use in uses
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description="How long the first use of compiled code takes.")
    parser.parse_args()
    uses = []
    for kind in (*KINDS, COMMAND):
        uses.append(measure(kind))
        print(uses[-1], flush=True)
    found = {"machine": describe_machine(), "uses": [asdict(use) for use in uses]}
    (RESULTS / "first-use.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "first-use.md").write_text(report(uses, describe_machine()))


if __name__ == "__main__":
    main()
