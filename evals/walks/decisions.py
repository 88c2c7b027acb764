"""Twelve months of decisions of nobody, drawn from a seed: a drift in July, repaired in September.

python -m evals.walks.decisions      # 2026-01.csv to 2026-12.csv and 2026.csv, in this folder
"""

import csv
from pathlib import Path

import numpy as np

ROWS, SEED = 4_000, 52  # decisions of a month
DRIFT = range(7, 9)


def month(number: int) -> list[tuple[str, str, str, str]]:
    """Return the decisions of a month: id, day, sex and decision."""
    rng = np.random.default_rng([SEED, number])
    share = 0.24 if number in DRIFT else 0.03
    days = np.sort(rng.integers(1, 29, ROWS))
    men = rng.random(ROWS) < 0.55
    approved = rng.random(ROWS) < np.where(men, 0.6 + share / 2, 0.6 - share / 2)
    rows = enumerate(zip(days, 1 * men, 1 * approved, strict=True))
    start = f"2026-{number:02}"
    sexes = ("woman", "man")
    words = ("refused", "approved")
    return [
        (f"{start}/{row}", f"{start}-{day:02}", sexes[man], words[yes])
        for row, (day, man, yes) in rows
    ]


def main() -> None:
    """Write a file for every month, and one of the whole year."""
    months = {f"2026-{number:02}": month(number) for number in range(1, 13)}
    year = [row for rows in months.values() for row in rows]
    for name, content in {**months, "2026": year}.items():
        with Path(f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(
                [("id", "decided_on", "sex", "decision"), *content]
            )


if __name__ == "__main__":
    main()
