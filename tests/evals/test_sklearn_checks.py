"""scikit-learn's checks of estimators: none fails that is not named, and the record says so."""

import pytest

from evals.sklearn_checks import RESULTS, Case, as_markdown, cases, run
from tests.command import read_json


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_no_check_fails_but_those_that_are_named(case: Case) -> None:
    found = run(case)
    assert found["failed"] == []
    assert found["expected"].keys() == case.expected.keys()  # each exists, and fails
    assert found["passed"] + found["xfail"] >= 40  # the checks are run


def test_the_recorded_page_is_that_of_the_recorded_figures() -> None:
    found = read_json(RESULTS / "sklearn-checks.json")
    assert as_markdown(found) == (RESULTS / "sklearn-checks.md").read_text()
    assert [one["case"] for one in found["cases"]] == [case.name for case in cases()]
