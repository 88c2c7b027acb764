"""A table of 6,000 grants of nobody in three regions, and a model that is always right.

    python -m evals.walks.oracle grants.csv

A grant is made from 50 points on, in each region to half of the applicants. `answer` reads the
points.
"""

import re
import sys
from pathlib import Path

import numpy as np

from fwc_llm.models.base import Messages

N = 6000
SEED = 38
LIMIT = 50
REGIONS = ("north", "east", "west")


def grants() -> str:
    """Return the table as the text of a CSV file."""
    rng = np.random.default_rng(SEED)
    lines = ["region,points,years,granted"]
    for number in range(N):
        granted = number // len(REGIONS) % 2
        if granted:
            points = LIMIT + int(rng.integers(0, LIMIT))
        else:
            points = int(rng.integers(0, LIMIT))
        region = REGIONS[number % len(REGIONS)]
        answer = "yes" if granted else "no"
        lines.append(f"{region},{points},{rng.integers(0, 40)},{answer}")
    return "\n".join(lines) + "\n"


def answer(messages: Messages) -> str:
    """Return the true answer about the row that is asked for, the last in the prompt."""
    points = re.findall(r"points: (\d+)", messages[-1]["content"])
    if int(points[-1]) >= LIMIT:
        return "yes"
    return "no"


def main() -> None:
    """Write the table to the file named."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m evals.walks.oracle FILE.csv")
    Path(sys.argv[1]).write_text(grants(), encoding="utf-8")


if __name__ == "__main__":
    main()
