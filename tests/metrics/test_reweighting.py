"""Designed samples: re-weighted to a table they give the table's rates; where they cannot, they say so."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from evals.coverage.impact import measure, worlds
from evals.coverage.verdicts import faults
from fwc_llm.metrics.adverse_impact import Population, population_of
from fwc_llm.metrics.audit_table import from_frame
from fwc_llm.report.impact import impact_tables

# Rows asked and yes answers per group and label (no, yes), and the rows of the table.
ASKED = {"F": ((75, 15), (25, 20)), "M": ((25, 10), (75, 70))}
TABLE = Population(("F", "M"), np.array([[900.0, 100.0], [700.0, 300.0]]))


def sample(asked: dict[str, tuple[tuple[int, int], ...]] = ASKED) -> pd.DataFrame:
    rows = [
        (group, label, "yes" if number < yes else "no")
        for group, cells in asked.items()
        for label, (n, yes) in zip(("no", "yes"), cells, strict=True)
        for number in range(n)
    ]
    return pd.DataFrame(rows, columns=["group", "label", "answer"])


def groups(frame: pd.DataFrame, table: Population | None = TABLE, **options: Any) -> dict[str, Any]:
    answered = from_frame(frame, "group and label", options.get("attributes", ("sex",)))
    found = impact_tables(answered, True, table)
    assert found["basis"]["kind"] == ("withheld" if table is None else "re-weighted")
    arm: dict[str, Any] = found["attributes"][0]["arms"][0]["groups"]
    return arm


def test_rates_are_the_strata_weighted_as_the_table_has_them() -> None:
    found = groups(sample())
    female, male = found["F"], found["M"]
    assert female["selection_rate"] == pytest.approx(0.9 * 15 / 75 + 0.1 * 20 / 25)
    assert male["selection_rate"] == pytest.approx(0.7 * 10 / 25 + 0.3 * 70 / 75)
    assert female["impact_ratio"] == pytest.approx(female["selection_rate"] / male["selection_rate"])
    assert female["shortfall"] == np.ceil(1000 * (male["selection_rate"] - female["selection_rate"]))
    assert female["test"] == "by design"
    assert (female["rows"], female["in_table"], female["selected"]) == (100, 1000, 35)
    assert female["precision"] == pytest.approx(0.1 * 0.8 / (0.1 * 0.8 + 0.9 * 0.2))
    assert female["true_positive_rate"] == pytest.approx(0.8)
    for name in ("precision", "true_positive_rate"):
        assert female[f"{name}_low"] < female[name] < female[f"{name}_high"]


def test_a_perfect_model_has_the_tables_own_rates() -> None:
    """In the sample its rates are 0.25 and 0.75, whoever the people are."""
    right = {"F": ((75, 0), (25, 25)), "M": ((25, 0), (75, 75))}
    found = groups(sample(right))
    assert [found[name]["selection_rate"] for name in ("F", "M")] == pytest.approx([0.1, 0.3])
    assert found["F"]["impact_ratio"] == pytest.approx(1 / 3)
    assert (found["F"]["precision"], found["F"]["false_positive_rate"]) == (1, 0)
    assert found["F"]["precision_low"] < 1 == found["F"]["precision_high"]


def test_a_sample_like_the_table_needs_no_weights() -> None:
    like = {"F": ((90, 20), (10, 8)), "M": ((70, 30), (30, 25))}
    weighted = groups(sample(like))
    plain = impact_tables(from_frame(sample(like), attributes=("sex",)))["attributes"][0]["arms"][0]["groups"]
    for name in ("F", "M"):
        for kind in ("selection_rate", "impact_ratio", "precision", "true_positive_rate"):
            assert weighted[name][kind] == pytest.approx(plain[name][kind])


def test_a_test_by_design_is_its_interval_excluding_0() -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(40):
        yes = rng.integers(0, 26, (3, 2))
        asked = {name: ((25, int(no)), (25, int(true))) for name, (no, true) in zip("abc", yes, strict=True)}
        table = Population(tuple("abc"), rng.integers(50, 900, (3, 2)).astype(float))
        found = impact_tables(from_frame(sample(asked), "group and label", ("sex",)), True, table)
        for pair in found["attributes"][0]["arms"][0]["pairs"]:
            excluded = pair["low"] > 1e-9 or pair["high"] < -1e-9
            assert pair["significant"] is excluded
            assert pair["p_adjusted"] >= pair["p_value"]
            seen.add(excluded)
    assert seen == {True, False}


def test_without_the_table_population_statements_are_withheld() -> None:
    found = groups(sample(), None)
    for group in found.values():
        assert group["selection_rate"] is group["impact_ratio"] is group["precision"] is None
        assert group["reason"] == "withheld"
        assert group["reasons"]["precision"].startswith("withheld")
        assert group["true_positive_rate"] is not None, "it speaks of one label of one group"


def test_crossed_cells_are_mixed_as_the_table_mixes_them() -> None:
    asked = {
        f"{sex} & {race}": ((20, 4 * k), (20, 4 * k))
        for k, (sex, race) in enumerate(["Fa", "Fb", "Ma", "Mb"])
    }
    table = Population(tuple(asked), np.array([[900.0, 0], [50, 50], [250, 250], [400, 100]]))
    found = groups(sample(asked), table, attributes=("sex", "race"))
    assert found["F"]["selection_rate"] == pytest.approx(0.1 * 0.2)
    assert found["M"]["selection_rate"] == pytest.approx(0.5 * 0.4 + 0.5 * 0.6)
    assert found["F"]["true_positive_rate"] == pytest.approx(0.2), "Fa has no row with label yes in the table"
    alone = groups(sample(asked), None, attributes=("sex", "race"))["F"]
    assert alone["true_positive_rate"] is None
    assert alone["reasons"]["true_positive_rate"].startswith(
        "withheld: it rests on the design's own mix of groups"
    )


def test_a_part_of_the_table_that_nobody_asked_about_is_undefined() -> None:
    half = {"F": ((100, 15), (0, 0)), "M": ((0, 0), (100, 70))}  # base parity 1
    found = groups(sample(half))
    assert found["F"]["selection_rate"] is None
    assert found["F"]["reason"] == "0/0: no parsed answer about one of the labels that the table has of it"
    more = Population(("F", "M", "X"), np.array([[900.0, 100.0], [700.0, 300.0], [5.0, 5.0]]))
    stranger = groups(sample(), more)["X"]
    assert (stranger["rows"], stranger["in_table"], stranger["selection_rate"]) == (0, 10, None)
    assert stranger["reason"] == "no row of it was asked about"
    assert groups(sample(), more)["F"]["impact_ratio"] == groups(sample())["F"]["impact_ratio"]


def test_the_counts_survive_their_way_through_json() -> None:
    again = population_of(TABLE.as_json())
    assert again.groups == TABLE.groups
    assert (again.rows == TABLE.rows).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "Adult, n = 200, alike under each label, R = 1",
        "groups of 90 and 8, the rarest rates, R = 1",
        "four crossed groups of 30, equal arms, R = 5",
        "German, 100 random rows, no gap, R = 1",
    ],
)
def test_the_short_version_of_the_record_is_accepted(name: str) -> None:
    """Intervals of a rate that the design has instead of the table's fail on the first."""
    (world,) = [world for world in worlds() if world.name.startswith(name)]
    tally = measure(world, runs=60)
    assert not faults(tally, strict=False)
    assert sum(one.given for one in tally.intervals.values()) > 300
