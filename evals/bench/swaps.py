"""The gain from swaps: FWC with and without them, beside k-medoids by swaps, on Adult's train rows.

    python -m evals.bench.swaps            # one split, the smallest size
    python -m evals.bench.swaps --full     # three splits, the paper's three sizes; records the
                                           results

The rows and distances are those of `python -m evals.paper closeness`: three quarters of the
complete rows of Adult, standardised columns, exact Wasserstein distance in L1. FWC has free
representatives and n_init = 1.
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from evals.record import command_line, describe_machine, markdown, write

SIZES = (0.005, 0.01, 0.02)
EPSILONS = (None, 0.1, 0.01)
PEER = "k-medoids"


def measure(size: float, split: int) -> Iterator[dict[str, Any]]:
    """One line per method: distance, largest parity violation, seconds."""
    from evals.paper.data import open_space
    from evals.paper.distances import parity_violation, wasserstein
    from evals.paper.methods import choose
    from fwc_llm.coreset import FairCoreset

    space = open_space("adult", split, "standardised")
    train = space.split.train
    m = round(size * train.n)
    X = space.features(train, "l1")
    for epsilon in EPSILONS:
        for swaps in (False, True):
            start = time.perf_counter()
            solver = FairCoreset(m, epsilon=epsilon, swaps=swaps, random_state=split)
            found = solver.fit(X, train.y, train.d)
            yield {
                "method": _name(epsilon, swaps),
                "m": m,
                "W1": found.objective_,
                "violation": found.violation_,
                "seconds": time.perf_counter() - start,
            }
    peer = choose("kmedoids", space, train, m, split)
    points = space.table(peer.points, peer.d, peer.y)
    yield {
        "method": PEER,
        "m": m,
        "W1": wasserstein(space.rows(train, "l1"), points, peer.weights),
        "violation": parity_violation(
            peer.d, peer.y, peer.weights, float(train.y.mean())
        ),
        "seconds": peer.seconds,
    }


def _warm() -> None:
    """Compile what the measurements run."""
    from evals.paper import rivals
    from evals.synthetic import synthetic
    from fwc_llm.coreset import FairCoreset

    X, y, d = synthetic(20_000, 5)
    FairCoreset(200, swaps=True, max_iter=2).fit(X, y, d)
    rivals.kmedoids(X[:500], y[:500], d[:500], 5)


def _name(epsilon: float | None, swaps: bool) -> str:
    limit = "no limit" if epsilon is None else f"ε {epsilon}"
    return f"FWC, {limit}{', swaps' if swaps else ''}"


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the splits, in the order measured, with the distance as a ratio to the peer's."""
    keys = list(dict.fromkeys((run["m"], run["method"]) for run in runs))
    rows: list[dict[str, Any]] = []
    for m, method in keys:
        own = [run for run in runs if (run["m"], run["method"]) == (m, method)]
        means = {
            name: float(np.mean([run[name] for run in own]))
            for name in ("W1", "violation", "seconds")
        }
        rows.append({"m": m, "method": method, **means})
    peers = {row["m"]: row["W1"] for row in rows if row["method"] == PEER}
    return [{**row, "ratio": row["W1"] / peers[row["m"]]} for row in rows]


def report(result: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        [
            row["m"],
            row["method"],
            f"{row['W1']:.4f}",
            f"{row['ratio']:.3f}",
            f"{row['violation']:.3f}",
            f"{row['seconds']:.1f}",
        ]
        for row in result["rows"]
    ]
    return f"""# Swaps

Made by `{result["command"]}` on {result["machine"]}. Adult's train rows; means over {result["splits"]} \
split(s). Ratio: to the distance of k-medoids, which ignores parity.

{markdown(["m", "method", "W1", "ratio", "violation", "seconds"], lines)}"""


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument(
        "--full",
        action="store_true",
        help="three splits, three sizes; record the results",
    )
    full = parser.parse_args().full
    splits = 3 if full else 1
    _warm()
    runs = []
    for size in SIZES if full else SIZES[:1]:
        for split in range(splits):
            for run in measure(size, split):
                runs.append(run)
                print(
                    f"{run['m']} {run['method']}: W1 {run['W1']:.4f}",
                    file=sys.stderr,
                    flush=True,
                )
    result = {
        "command": "python -m evals.bench.swaps" + (" --full" if full else ""),
        "machine": describe_machine(),
        "splits": splits,
        "rows": summary(runs),
    }
    if full:
        write("swaps", result, report(result))
    print(report(result))


if __name__ == "__main__":
    main()
