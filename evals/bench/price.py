"""The price of parity on Adult: the objective of coresets along a path of limits, as a picture.

    python -m evals.bench.price

Writes docs/pictures/price-of-parity.png and prints the table. Sex is protected, income the outcome; 16 free
representatives, seed 0.
"""

from pathlib import Path

from fwc_llm.coreset.path import fair_path
from fwc_llm.shots.examples import features_frame
from fwc_llm.tasks import load_task

EPSILONS = (0.0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, None)
_PICTURE = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "price-of-parity.png"


def main() -> None:
    """Fit, print and draw."""
    task = load_task("adult", protected="sex")
    rows = task.pool()
    X, y, d = features_frame(task, rows), task.labels(rows), task.sensitive(rows)
    path = fair_path(X, y, d, EPSILONS, m=16, random_state=0)
    print(path.to_frame().to_string(index=False))
    path.plot().savefig(_PICTURE, dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main()
