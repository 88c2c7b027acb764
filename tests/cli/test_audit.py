"""`fwc-llm audit`: predictions from elsewhere, several attributes, and bad input named with exit code 2."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import Outcome

Run = Callable[..., Outcome]


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    """Five thousand predictions of people of three groups and two sexes."""
    rng = np.random.default_rng(0)
    race = rng.choice(["A", "B", "C"], 5000, p=[0.6, 0.3, 0.1])
    hired = rng.random(5000) < np.where(race == "A", 0.5, 0.3)
    predicted = (rng.random(5000) < 0.2 + 0.4 * hired + 0.1 * (race == "A")).astype(int).astype(str)
    table = {
        "race": race,
        "sex": rng.choice(["f", "m"], 5000),
        "hired": np.where(hired, "good", "bad"),
        "was": hired.astype(int),
        "said": np.where(rng.random(5000) < 0.02, "", predicted),
    }
    path = tmp_path / "predictions.csv"
    pd.DataFrame(table).to_csv(path, index=False)
    return path


USUAL = ("--answer", "said", "--label", "was", "--protected", "race")


def test_five_thousand_predictions_of_three_groups(fwc: Run, predictions: Path) -> None:
    outcome = fwc("audit", predictions, *USUAL)
    assert outcome.code == 0, outcome.err
    assert "predictions.csv by race: 5,000 predictions" in outcome.out
    for words in ("accuracy %", "DP gap", "noise floor (95 %)", "above", "yes | A (3,0", "EO gap"):
        assert words in outcome.out, words


def test_several_attributes_one_by_one_and_crossed(fwc: Run, predictions: Path, tmp_path: Path) -> None:
    written = tmp_path / "audit.json"
    outcome = fwc("audit", predictions, *USUAL[:-1], "race, sex", "-o", written)
    assert outcome.code == 0, outcome.err
    for name in ("by race:", "by sex:", "by race & sex:"):
        assert name in outcome.out
    found = json.loads(written.read_text())
    assert set(found["statistics"]) == {"race", "sex", "race & sex"}
    crossed = found["statistics"]["race & sex"]
    assert len(crossed["groups"]) == 6
    race = found["statistics"]["race"]["arms"][0]["demographic_parity_difference"]["value"]
    assert crossed["arms"][0]["by_attribute"][0]["demographic_parity_difference"] == pytest.approx(race)


def test_who_was_selected_and_local_law_144(fwc: Run, predictions: Path, tmp_path: Path) -> None:
    written, table = tmp_path / "audit.json", tmp_path / "table.csv"
    outcome = fwc("audit", predictions, *USUAL[:-1], "race,sex", "-o", written, "--ll144", table)
    assert outcome.code == 0, outcome.err
    for words in ("Who was selected, by race & sex", "the highest rate", "below", "Fisher's exact test"):
        assert words in outcome.out, words
    views = {one["attribute"]: one for one in json.loads(written.read_text())["audit"]["attributes"]}
    assert set(views) == {"race", "sex", "race & sex"}
    people = pd.read_csv(predictions)
    rates = people.groupby("race")["said"].mean()
    of_race = views["race"]["arms"][0]["groups"]
    assert {name: one["selection_rate"] for name, one in of_race.items()} == pytest.approx(rates.to_dict())
    rows = pd.read_csv(table, keep_default_na=False)
    lines = rows[rows["table"] == "race"].set_index("category")
    assert lines.loc["A", "applicants"] == (people["race"] == "A").sum()
    assert float(lines.loc["B", "impact_ratio"]) == pytest.approx(rates["B"] / rates["A"], abs=1e-4)
    assert lines.loc["unknown", "applicants"] == 0
    assert set(rows["model"]) == {"said"}


def test_any_two_values_with_the_one_that_means_yes(fwc: Run, tmp_path: Path) -> None:
    lines = [f"{'xy'[k % 2]},{('good', 'bad')[k % 3 == 0]},{('good', 'bad')[k % 5 == 0]}" for k in range(60)]
    path = tmp_path / "credit.csv"
    path.write_text("\n".join(["who,risk,said", *lines]) + "\n")
    words = ("audit", path, "--answer", "said", "--label", "risk", "--protected", "who")
    outcome = fwc(*words)
    assert outcome.code == 2
    assert "neither yes nor no: name the value that means yes with --positive" in outcome.line
    good = fwc(*words, "--positive", "good", "-o", tmp_path / "good.json")
    assert good.code == 0, good.err
    bad = fwc(*words, "--positive", "bad", "-o", tmp_path / "bad.json")
    assert bad.code == 0, bad.err
    rates = [
        json.loads((tmp_path / f"{name}.json").read_text())["statistics"]["who"]["arms"][0]["groups"]["x"][
            "rate"
        ]
        for name in ("good", "bad")
    ]
    assert sum(rates) == pytest.approx(1.0)


def test_arms_and_repeats_are_compared(fwc: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    asked = pd.DataFrame({"id": np.arange(80), "sex": np.arange(80) % 2, "label": np.arange(80) // 2 % 2})
    whole = [
        asked.assign(model=model, run=run, said=(rng.random(80) < rate).astype(int))
        for model, rate in (("a", 0.3), ("b", 0.7))
        for run in range(2)
    ]
    path = tmp_path / "models.csv"
    pd.concat(whole).to_csv(path, index=False)
    words = ("audit", path, "--answer", "said", "--label", "label", "--protected", "sex", "--arm", "model")
    assert "need --row" in fwc(*words).line
    outcome = fwc(*words, "--repeat", "run", "--row", "id")
    assert outcome.code == 0, outcome.err
    assert "accuracy vs a" in outcome.out
    pd.concat(whole)[1:].to_csv(path, index=False)
    assert "the arm 'a' lacks the row '0'" in fwc(*words, "--repeat", "run", "--row", "id").line


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read"),
        ("", "is not a CSV file"),
        ('a,"b\n', "is not a CSV file"),
        ("race,was\nA,1\n", "has no column 'said'; it has race, was"),
        ("race,was,said\nA,1,1\n,0,1\n", "line 3 of .* has no race"),
        ("race,was,said\nA,1,1\nB,0,maybe\n", "line 3 has the said 'maybe', which is neither yes nor no"),
        ("race,was,said\nA,1,1\nB,,1\n", r"line 3 of .* has no was: leave out .* \(1 in all\)"),
        ("race,was,said\n", "no answers to audit"),
    ],
)
def test_bad_input_is_named(fwc: Run, tmp_path: Path, content: str | None, words: str) -> None:
    import re

    path = tmp_path / "bad.csv"
    if content is not None:
        path.write_text(content)
    outcome = fwc("audit", path, *USUAL)
    assert outcome.code == 2
    assert re.search(words, outcome.line), outcome.line


@pytest.mark.parametrize(("positive", "words"), [("2", "no label has"), ("1", "more than two values")])
def test_labels_that_are_not_two_values_are_named(
    fwc: Run, tmp_path: Path, positive: str, words: str
) -> None:
    path = tmp_path / "three.csv"
    labels = "0,1" if positive == "2" else "0,1,3"
    path.write_text("race,was,said\n" + "".join(f"A,{label},1\n" for label in labels.split(",")))
    outcome = fwc("audit", path, *USUAL, "--positive", positive)
    assert outcome.code == 2
    assert words in outcome.line
