"""Four files in the forms in which authorities and courts publish them, about nobody.

    python -m evals.walks.registers hmda.csv hiring.csv compas.csv kredit.csv

hmda.csv    columns and codes of HMDA's loan register: NA, Exempt, 1111, 8888 among numbers
hiring.csv  a tool's scores for candidates, as an auditor gets them for New York's Local Law 144
compas.csv  the columns of ProPublica's compas-scores-two-years.csv, two of them twice
kredit.csv  a German bank's table: umlauts in Windows-1252, semicolons, 1.234,50 € and decimal commas

Names, rates and correlations are invented.
"""

import csv
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

SEED = 67
Row = list[object]

_RACES = {
    "White": 60,
    "Black or African American": 14,
    "Asian": 8,
    "Race Not Available": 14,
    "Joint": 2,
    "2 or more minority races": 1,
    "American Indian or Alaska Native": 1,
}
_AGES = {
    "<25": 4,
    "25-34": 18,
    "35-44": 22,
    "45-54": 20,
    "55-64": 16,
    ">74": 4,
    "8888": 6,
}
_DEBTS = {
    "<20%": 5,
    "20%-<30%": 15,
    "36": 8,
    "41": 8,
    "45": 8,
    "50%-60%": 8,
    ">60%": 6,
    "NA": 5,
}
_ORIGINS = {
    "African-American": 51,
    "Caucasian": 34,
    "Hispanic": 9,
    "Other": 5,
    "Asian": 1,
}
_JOBS = {"Angestellte": 60, "Selbständige": 20, "Rentnerin": 15, "arbeitslos": 5}


def _one(rng: random.Random, shares: dict[str, int]) -> str:
    return rng.choices(list(shares), list(shares.values()))[0]


def _names(text: str) -> Row:
    return list(text.split())


def _hmda(rng: random.Random) -> Iterator[Row]:
    yield _names(
        "activity_year lei state_code county_code census_tract derived_race derived_sex "
        "action_taken loan_type loan_amount combined_loan_to_value_ratio interest_rate "
        "loan_term property_value income debt_to_income_ratio applicant_age "
        "denial_reason_1 "
    )
    for number in range(3000):
        race = _one(rng, _RACES)
        debt = _one(rng, _DEBTS)
        income = max(12, int(rng.lognormvariate(4.4, 0.6)))
        deny = (
            10
            + 12 * (race.startswith("Black"))
            + 25 * (debt == ">60%")
            + 10 * (income < 50)
        )
        action = _one(rng, {"1": 75 - deny, "2": 2, "3": deny, "4": 9, "5": 3, "6": 8})
        exempt = rng.random() < 0.05
        amount = rng.randrange(15_000, 800_000, 10_000)
        rate = "NA" if action != "1" else f"{rng.uniform(5.5, 8):.3f}"
        county = f"39{number % 88 * 2 + 1:03d}"
        yield [
            2025,
            f"549300INVENTED{number % 7:06d}",
            "OH",
            county,
            f"{county}{number % 50 * 100:06d}",
            race,
            rng.choice(("Male", "Female", "Joint", "Sex Not Available")),
            action,
            rng.choice("123"),
            amount,
            "Exempt" if exempt else rng.choice(("NA", "80.0", "95.5", "96.5")),
            "Exempt" if exempt else rate,
            "Exempt" if exempt else rng.choice(("360", "180", "NA")),
            "Exempt" if exempt else amount + rng.randrange(0, 200_000, 10_000),
            "NA" if rng.random() < 0.08 else income,
            debt,
            _one(rng, _AGES),
            1111 if exempt else rng.choice((1, 3, 4)) if action == "3" else 10,
        ]


def _hiring(rng: random.Random) -> Iterator[Row]:
    yield ["Candidate ID", "Sex", "Race/Ethnicity", "Score", "Advanced"]
    shares = {
        "White": 45,
        "Black or African American": 16,
        "Hispanic or Latino": 18,
        "Asian": 14,
        "Two or More Races": 4,
        "Native American or Alaska Native": 1,
        "Decline to answer": 4,
    }
    for number in range(2400):
        race = _one(rng, shares)
        sex = rng.choices(("Male", "Female", "Prefer not to say"), (50, 45, 5))[0]
        score = min(
            100.0,
            max(0.0, rng.gauss(58 + 4 * (race == "White") + 2 * (sex == "Male"), 15)),
        )
        advanced = "Advance" if score > 62 else "Do not advance"
        yield [f"C{number:05d}", sex, race, f"{score:.1f}", advanced]


def _compas(rng: random.Random) -> Iterator[Row]:
    yield _names(
        "id name first last compas_screening_date sex dob age age_cat race juv_fel_count "
        "decile_score juv_misd_count priors_count days_b_screening_arrest c_jail_in "
        "c_case_number c_charge_degree c_charge_desc is_recid r_case_number "
        "is_violent_recid score_text decile_score priors_count start end event "
        "two_year_recid "
    )
    for number in range(3000):
        race = _one(rng, _ORIGINS)
        age = rng.randrange(18, 75)
        priors = int(rng.expovariate(0.4 - 0.15 * (race == "African-American")))
        again = rng.random() < 0.25 + 0.05 * min(priors, 6) - 0.003 * (age - 30)
        decile = min(10, max(1, priors + rng.randrange(0, 5)))
        first = f"{rng.choice('abcdefgh')}{rng.randrange(900)}"
        last = f"{rng.choice('klmnopqr')}{rng.randrange(900)}"
        text = "Low" if decile < 5 else "Medium" if decile < 8 else "High"
        yield [
            number + 1,
            f"{first} {last}",
            first,
            last,
            f"2013-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}",
            rng.choices(("Male", "Female"), (80, 20))[0],
            f"{2013 - age}-04-{rng.randrange(1, 29):02d}",
            age,
            "Less than 25"
            if age < 25
            else "25 - 45"
            if age <= 45
            else "Greater than 45",
            race,
            rng.choices((0, 1, 2), (96, 3, 1))[0],
            decile,
            rng.choices((0, 1, 2), (94, 5, 1))[0],
            priors,
            "" if rng.random() < 0.04 else rng.choice((-1, -1, -1, 0, 1, 5)),
            "" if rng.random() < 0.04 else "2013-08-13 06:03:42",
            f"13{number:06d}CF10A",
            rng.choices("FM", (65, 35))[0],
            rng.choice(("Battery", "Grand Theft", "Possession of Cocaine", "")),
            int(again),
            f"14{number:06d}" if again else "",
            int(again and rng.random() < 0.2),
            text,
            decile,
            priors,
            0,
            rng.randrange(100, 1100),
            int(again),
            int(again),
        ]


def _kredit(rng: random.Random) -> Iterator[Row]:
    yield [
        "Antragsnummer",
        "Geschlecht",
        "Staatsangehörigkeit",
        "Alter",
        "Beschäftigung",
        "Nettoeinkommen",
        "Kreditbetrag",
        "Zinssatz",
        "Schufa-Score",
        "Zweck",
        "Entscheidung",
    ]
    for number in range(2400):
        foreign = rng.random() < 0.2
        income = rng.lognormvariate(7.7, 0.4)
        amount = rng.lognormvariate(9.2, 0.6)
        score = min(99.9, max(40.0, rng.gauss(92 - 3 * foreign, 6)))
        granted = rng.random() < 0.25 + 0.55 * (score > 90) - 0.1 * foreign + 0.1 * (
            income > 2500
        )
        yield [
            f"A-{number:05d}",
            rng.choices(("männlich", "weiblich", "keine Angabe"), (52, 45, 3))[0],
            "übrige" if foreign else "deutsch",
            rng.randrange(18, 80),
            _one(rng, _JOBS),
            "k.A." if rng.random() < 0.06 else _german(income, " €"),
            _german(amount, " €"),
            _german(rng.uniform(3, 11), " %"),
            _german(score),
            rng.choice(("Auto", "Möbel", "Küche", "Umschuldung")),
            "bewilligt" if granted else "abgelehnt",
        ]


def _german(number: float, unit: str = "") -> str:
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,")) + unit


_FILES: tuple[tuple[Callable[[random.Random], Iterator[Row]], str, str], ...] = (
    (_hmda, ",", "utf-8"),
    (_hiring, ",", "utf-8-sig"),
    (_compas, ",", "utf-8"),
    (_kredit, ";", "cp1252"),
)


def main() -> None:
    """Write the four files to the paths named."""
    paths = sys.argv[1:]
    if len(paths) != len(_FILES):
        raise SystemExit(
            "usage: python -m evals.walks.registers HMDA HIRING COMPAS KREDIT"
        )
    for path, (rows, separator, encoding) in zip(paths, _FILES, strict=True):
        with Path(path).open("w", encoding=encoding, newline="") as file:
            csv.writer(file, delimiter=separator).writerows(rows(random.Random(SEED)))


if __name__ == "__main__":
    main()
