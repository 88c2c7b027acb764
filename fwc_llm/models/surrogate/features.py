"""A described person as numbers: what the surrogate's logistic model sees of one row."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fwc_llm.models.surrogate.prompt_reader import CATEGORICAL, NUMERIC, Person

# Adult's categories; a value that is not among them sets none of the indicators.
_LEVELS = {
    "occupation": (
        "Adm-clerical", "Armed-Forces", "Craft-repair", "Exec-managerial", "Farming-fishing",
        "Handlers-cleaners", "Machine-op-inspct", "Other-service", "Priv-house-serv", "Prof-specialty",
        "Protective-serv", "Sales", "Tech-support", "Transport-moving",
    ),
    "workclass": (
        "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov",
        "Without-pay",
    ),
    "marital status": (
        "Married-civ-spouse", "Never-married", "Divorced", "Separated", "Widowed",
        "Married-spouse-absent", "Married-AF-spouse",
    ),
    "relationship": ("Husband", "Wife", "Own-child", "Not-in-family", "Unmarried", "Other-relative"),
    "race": ("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"),
}  # fmt: skip
_PROFESSIONAL = ("Exec-managerial", "Prof-specialty")
_OFFICE = (*_PROFESSIONAL, "Tech-support", "Sales", "Adm-clerical", "Protective-serv")
_MARRIED = ("Married-civ-spouse", "Married-AF-spouse")


def features(person: Person) -> dict[str, float]:
    """The features of one person by name, on their natural scales (the model standardises them)."""
    age, hours = person.number("age"), person.number("hours per week")
    schooling = person.number("highest education level") - 10  # 10 is some college
    gain, loss = person.number("capital gain"), person.number("capital loss")
    male = float(person.word("sex") == "Male")
    married = float(person.word("marital status") in _MARRIED)
    professional = float(person.word("occupation") in _PROFESSIONAL)
    office = float(person.word("occupation") in _OFFICE)
    bachelor = float(schooling >= 3)
    by_name = {
        "age": age,
        "years under 25": max(0.0, 25 - age),
        "years under 32": max(0.0, 32 - age),
        "years over 45": max(0.0, age - 45),
        "years over 60": max(0.0, age - 60),
        "schooling": schooling,
        "schooling over high school": max(0.0, schooling + 1),
        "schooling over associate": max(0.0, schooling - 2),
        "some college or more": float(schooling >= 0),
        "bachelor or more": bachelor,
        "master or more": float(schooling >= 4),
        "male": male,
        "log gain": float(np.log1p(max(gain, 0.0))),
        "any gain": float(gain > 0),
        "gain over 5000": float(gain > 5000),
        "log loss": float(np.log1p(max(loss, 0.0))),
        "loss over 1800": float(loss > 1800),
        "hours": hours,
        "hours under 35": max(0.0, 35 - hours),
        "hours over 45": max(0.0, hours - 45),
        "45 hours or more": float(hours >= 45),
        "from the United States": float(person.word("native country") == "United-States"),
        "professional": professional,
        "office": office,
        "married": married,
        "professional × bachelor": professional * bachelor,
        "professional × married": professional * married,
        "married × schooling": married * schooling,
        "married × hours": married * (hours - 40),
        "married × male": married * male,
        "married × age": married * (age - 38),
        "married × bachelor": married * bachelor,
        "office × schooling": office * schooling,
        "hours × schooling": (hours - 40) * schooling,
        "age × schooling": (age - 38) * schooling,
        "male × schooling": male * schooling,
    }
    for attribute, levels in _LEVELS.items():
        value = person.word(attribute)
        by_name |= {f"{attribute} {level}": float(value == level) for level in levels}
    return by_name


def feature_names() -> tuple[str, ...]:
    """The names of the features, in the order of `vector`."""
    nobody = Person((0.0,) * len(NUMERIC), ("",) * len(CATEGORICAL))
    return tuple(features(nobody))


@lru_cache(maxsize=8192)
def vector(person: Person) -> NDArray[np.float64]:
    """`features` as an array (p,) in their fixed order; do not write into it."""
    return np.fromiter(features(person).values(), dtype=np.float64)
