"""Words for unknown in many languages, and words that only look like them."""

import pandas as pd
import pytest

from fwc_llm import audit
from fwc_llm.words import is_marker, is_unknown, is_unknown_category, merged_categories

UNKNOWN = """
Unknown|Not Disclosed|Prefer not to say|N/A|Undisclosed|Unbekannt|Decline to self-identify|keine Angabe|k. A.
I do not wish to provide this information|Blank|No co-applicant|keine Auskunft|Not applicable|(blank)
(leer)|I don't wish to answer|Race Not Available|Sex unknown|Unknown / undisclosed|Not specified|Declined
Information not provided by applicant in mail, internet, or telephone application|Refused
did not answer|Möchte ich nicht sagen|nicht angegeben|non renseigné|préfère ne pas répondre
desconocida|No especificado|prefiero no decirlo|-|okänt
não informado|Sconosciuto|onbekend|preferisco non rispondere|Wil niet zeggen|не указано|不明
"""
KNOWN = """
Female|Other|White|None of the above|Nonbinary|Prefer to self-describe|Non-Hispanic White|divers|x|no|Norway
Leer|does not identify as male or female|No religion|Other or unknown|None
"""


@pytest.mark.parametrize("level", UNKNOWN.strip().replace("\n", "|").split("|"))
def test_a_category_that_says_unknown_is_unknown(level: str) -> None:
    assert is_unknown_category(level)
    assert is_marker(level)


@pytest.mark.parametrize("level", KNOWN.strip().replace("\n", "|").split("|"))
def test_a_category_of_people_is_known(level: str) -> None:
    assert not is_unknown_category(level)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Côte d’Ivoire", "Cote d'Ivoire"),
        ("Côte d’Ivoire", "CÔTE D'IVOIRE"),
        ("O`Neill", "o´neill"),
        ("White Man", "\u200bWHITE_man\u00a0"),
        ("White Man", "\ufeffwhite \u2013 man\t"),
        ("Québec", "Que\u0301bec"),
        ("İstanbul", "istanbul"),
        ("KADIN", "kadın"),
        ("Lietuvė", "LIETUVE\u0307"),
    ],
)
def test_forms_of_apostrophes_and_letters_are_one_group(one: str, other: str) -> None:
    frame = pd.DataFrame(
        {"group": [one, other, "z"] * 60, "answer": ["yes", "no", "no", "yes"] * 45}
    )
    found = audit(frame, protected="group")
    assert len(found.answered.groups) == (3 if "Cote" in other else 2)
    told = " ".join(found.answered.unused)
    assert ("spellings of one group" in told) == ("Cote" not in other)
    assert ("in two Unicode forms, which look the same" in told) == ("Qu" in other)


def test_several_spellings_of_unknown_become_one_and_codes_stay() -> None:
    assert merged_categories(["F", "M", "Not disclosed"]) == ["Not disclosed"]
    assert merged_categories(["F", "M", "n/a", "unbekannt"]) == ["n/a", "unbekannt"]
    assert merged_categories(["F", "M", "77"], ["77"]) == ["77"]
    assert merged_categories(["F", "won’t say"], ["Won't  say"]) == ["won’t say"]
    assert merged_categories(["F", "M", "NA"]) == ["NA"]
    assert merged_categories(["NA", "WH", "BL"]) == []
    assert not is_unknown("refused")  # may be the outcome of an earlier application
