"""A table as people have them: 3,000 loan applications of nobody, drawn from a seed.

    python -m evals.walks.loans loans.csv             # commas, a byte order mark, $106,790.63
    python -m evals.walks.loans kredite.csv --german  # semicolons, latin-1, 106.790,63 €
    python -m evals.walks.loans kredite.csv --german --open  # one in ten is undecided: ja, nein,
                                                             offen

Every name, rate and correlation in it is invented. It has what makes tables of one's own hard:
three groups of unequal size, dates, identifiers, ZIP codes, free text, money with currency signs,
and values that are missing more often in one group than in the others.
"""

import csv
import sys
from io import StringIO
from pathlib import Path

import numpy as np

N = 3000
SEED = 15
_GROUPS = ("Asian", "Black", "White")
_SHARES = (0.14, 0.22, 0.64)
_PURPOSES = (
    "car",
    "home improvement",
    "medical bills",
    "debt consolidation",
    "wedding",
    "business",
)
_JOBS = ("employed", "self-employed", "retired", "unemployed")
_GERMAN = {
    "employed": "angestellt",
    "self-employed": "selbständig",
    "retired": "im Ruhestand",
    "unemployed": "arbeitslos",
}
_NOTES = (
    "Applicant called twice; asked about early repayment.",
    "Wants the money before the end of the month, if possible.",
    "Second application this year, the first one was withdrawn.",
    "Moved recently; the new address is not confirmed yet.",
    "Long-standing customer, no complaints.",
    "Documents arrived by post, payslips are hard to read.",
)
_HEADER = (
    "application_id",
    "applied_on",
    "ethnicity",
    "age",
    "annual_income",
    "loan_amount",
    "credit_score",
    "employment",
    "purpose",
    "zip_code",
    "officer_notes",
    "approved",
)


def loans(german: bool = False, undecided: bool = False) -> bytes:
    """Return the table as the bytes of a CSV file; `german` changes how it is written, not what
    it says.

    Where `undecided`, every tenth application is open.
    """
    rng = np.random.default_rng(SEED)
    text = StringIO(newline="")
    writer = csv.writer(text, delimiter=";" if german else ",", lineterminator="\r\n")
    writer.writerow(_HEADER)
    for number in range(N):
        row = _row(rng, number, german)
        writer.writerow(
            [*row[:-1], "offen" if german else "open"]
            if undecided and number % 10 == 0
            else row
        )
    return text.getvalue().encode("latin-1" if german else "utf-8-sig")


def _row(rng: np.random.Generator, number: int, german: bool) -> list[str]:
    """One application. Black applicants leave income and job empty more often."""
    place = int(rng.choice(3, p=_SHARES))
    age = int(rng.integers(19, 78))
    income = float(rng.lognormal(10.8 + 0.15 * (place == 2), 0.55))
    amount = float(rng.lognormal(9.4, 0.6))
    score = int(np.clip(rng.normal(660 + 25 * (place != 1), 70), 300, 850))
    job = str(rng.choice(_JOBS, p=(0.66, 0.14, 0.14, 0.06)))
    leaning = (
        (score - 665) / 60
        + np.log(income / amount)
        - 1.5
        - 1.2 * (job == "unemployed")
        - 0.4 * (place == 1)
    )
    approved = rng.random() < 1 / (1 + np.exp(-leaning))
    year = 2023 + number // 1500
    month = int(rng.integers(1, 13))
    day = int(rng.integers(1, 29))
    if rng.random() < 0.6:
        notes = f"{rng.choice(_NOTES)} Ref {rng.integers(10_000, 99_999)}."
    else:
        notes = ""
    often = 0.11 if place == 1 else 0.03
    return [
        f"LA-{number + 1:05d}",
        f"{day:02d}.{month:02d}.{year}" if german else f"{year}-{month:02d}-{day:02d}",
        _GROUPS[place],
        str(age),
        "" if rng.random() < often else _money(income, german),
        _money(amount, german),
        "N/A" if rng.random() < 0.015 else str(score),
        "" if rng.random() < often else _GERMAN[job] if german else job,
        str(rng.choice(_PURPOSES)),
        f"{rng.integers(1_000, 99_999):05d}",
        notes,
        ("ja" if approved else "nein") if german else ("Yes" if approved else "No"),
    ]


def _money(amount: float, german: bool) -> str:
    if german:
        return f"{amount:,.2f} EUR".translate(str.maketrans(",.", ".,"))
    return f"${amount:,.2f}"


def main() -> None:
    """Write the table to the file named."""
    words = [word for word in sys.argv[1:] if word not in ("--german", "--open")]
    if len(words) != 1:
        raise SystemExit(
            "usage: python -m evals.walks.loans FILE.csv [--german] [--open]"
        )
    Path(words[0]).write_bytes(loans("--german" in sys.argv, "--open" in sys.argv))


if __name__ == "__main__":
    main()
