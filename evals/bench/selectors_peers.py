"""Large tables: our k-medoids beside its peer.

`python -m evals.bench.selectors` runs this. Times are processor seconds of all threads, compiled
code being warm. k-medoids stands beside FasterPAM of the package `kmedoids`, which needs all n²
distances: its time includes them, and at n = 1e5 they would take 40 GB, so that there ours stands
alone.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from evals.record import markdown
from evals.synthetic import synthetic

P = 25
M = 250
LARGE, FITS = (
    100_000,
    (10_000, 20_000),
)  # rows; those of which the package's matrix fits
QUICK = 2_000
_BLOCK = 2_000  # rows of the matrix that are computed at once


def peers(quick: bool = False) -> Iterator[dict[str, Any]]:
    """Each method at each size: processor seconds and loss, and those of its peer."""
    large, fits, m = (QUICK, (QUICK,), 25) if quick else (LARGE, FITS, M)
    _warm_up()
    for n in fits:
        yield _row("k-medoids", n, _our_medoids(n, m), _their_medoids(n, m))
    yield _row("k-medoids", large, _our_medoids(large, m), None)


def peers_report(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = []
    for row in rows:
        peer = ["–", "–", "–"]
        if "peer" in row:
            ratio = row["ours"] / row["peer"]
            loss = row["loss"] / row["peer_loss"]
            peer = [f"{row['peer']:.1f}", f"{ratio:.2f}", f"{loss:.4f}"]
        lines.append([row["method"], f"{row['n']:,}", f"{row['ours']:.1f}", *peer])
    return f"""
## Large tables: synthetic rows, p = {P}, m = {M}, beside peers

Processor seconds of all threads. Peer: the package
`kmedoids`, its matrix of distances included (40 GB at n = 1e5). Loss: ours over theirs.

{markdown(["method", "n", "ours", "peer", "ratio", "loss"], lines)}"""


def _row(
    method: str, n: int, ours: tuple[float, float], theirs: tuple[float, float] | None
) -> dict[str, Any]:
    row = {"method": method, "n": n, "ours": ours[0], "loss": ours[1]}
    if theirs is None:
        return row
    return row | {"peer": theirs[0], "peer_loss": theirs[1]}


def _timed(run: Callable[[], float]) -> tuple[float, float]:
    """Processor seconds, and the loss."""
    start = time.process_time()
    loss = run()
    return time.process_time() - start, loss


def _rows(n: int) -> Any:
    from fwc_llm.coreset.rivals.base import as_rows

    made = synthetic(n, P, 0)
    return as_rows(made.features, made.outcome, made.sensitive)


def _warm_up() -> None:
    from fwc_llm.coreset.warm_up import get_ready

    get_ready("real rows")


def _our_medoids(n: int, m: int) -> tuple[float, float]:
    from fwc_llm.coreset.rivals.clustering import kmedoids

    rows = _rows(n)
    return _timed(
        lambda: kmedoids(rows, m, np.random.default_rng(0), np.arange(n))[0].losses[-1]
    )


def _their_medoids(n: int, m: int) -> tuple[float, float]:
    import kmedoids
    from scipy.spatial.distance import cdist

    points = _rows(n).dense(0.5)

    def run() -> float:
        distances = np.empty((n, n), np.float32)
        for low in range(0, n, _BLOCK):
            distances[low : low + _BLOCK] = cdist(
                points[low : low + _BLOCK], points, "cityblock"
            )
        return float(kmedoids.fasterpam(distances, m, random_state=0).loss)

    return _timed(run)
