"""The surrogate against recorded answers of gpt-4-0314, and its model card against the recorded figures."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.fit_surrogate import Recorded, cross_validate, design, figures, load_recorded, markdown
from fwc_llm.models.surrogate.model import Coefficients, Surrogate

EVALS = Path(__file__).resolve().parents[3] / "evals"


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((EVALS / "results" / "surrogate.json").read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="module")
def recorded(data_dir: Path) -> Recorded:
    return load_recorded(data_dir / "gpt4-answers")


def overall(report: dict[str, Any]) -> dict[int, float]:
    return {line["examples"]: line["agreement"] for line in report["held_out"] if line["group"] == "all"}


def test_what_was_asked_of_it_is_reached(report: dict[str, Any]) -> None:
    agreement = overall(report)
    assert agreement[0] >= 0.93
    assert min(agreement[4], agreement[16]) >= 0.90


@pytest.mark.parametrize(
    ("files", "m"),
    [
        (("gpt-4-0314_adult_0_200", "gpt-4-0314_adult_0_200_8"), 0),
        (("gpt-4-0314_adult_4_200",), 4),
        (("gpt-4-0314_adult_16_200",), 16),
    ],
)
def test_it_gives_the_recorded_answers(
    data_dir: Path, report: dict[str, Any], files: tuple[str, ...], m: int
) -> None:
    same = []
    for file in files:
        for messages, response in json.loads((data_dir / "gpt4-answers" / f"{file}.jsonl").read_text()):
            reply = Surrogate().reply(messages)
            same.append(reply.text == response["choices"][0]["message"]["content"])
    assert np.mean(same) >= overall(report)[m]  # fitted to them: better than on rows held out


@pytest.mark.slow
def test_the_held_out_figures_can_be_reproduced(recorded: Recorded, report: dict[str, Any]) -> None:
    X = design(recorded, Coefficients.fitted())
    held_out = cross_validate(X, recorded, repeats=1, strengths=(report["ridge"],))
    found = figures(held_out, recorded)
    for line, expected in zip(found, report["held_out"], strict=True):
        assert line["answers"] == expected["answers"]
        assert line["rate_gpt4"] == expected["rate_gpt4"]
        # One division into folds against the mean of ten: groups of 100 to 400 answers.
        assert line["agreement"] == pytest.approx(expected["agreement"], abs=0.03)
        assert line["auc"] == pytest.approx(expected["auc"], abs=0.015)


def test_no_row_is_in_training_and_held_out_part(recorded: Recorded) -> None:
    people = [reading.person for reading in recorded.readings]
    assert len(set(people)) == len(np.unique(recorded.rows)) < len(people)
    for row in np.unique(recorded.rows):
        assert len({people[i] for i in np.flatnonzero(recorded.rows == row)}) == 1


def test_the_page_and_the_model_card_say_what_was_measured(report: dict[str, Any]) -> None:
    assert (EVALS / "results" / "surrogate.md").read_text(encoding="utf-8") == markdown(report)
    card = (EVALS / "surrogate.md").read_text(encoding="utf-8")
    lines = {(line["examples"], line["group"]): line for line in report["held_out"]}
    shown = re.findall(r"^\| (\d+) \| (.+) \|$", card, re.MULTILINE)
    assert [int(m) for m, _ in shown] == [0, 4, 16]
    for (m, cells), gap in zip(shown, report["demographic_parity"], strict=True):
        part = [lines[int(m), group]["agreement"] for group in ("all", "Female", "Male")]
        expected = [*part, lines[int(m), "all"]["auc"], gap["gpt4"], gap["surrogate"]]
        assert cells.split(" | ") == [f"{number:.3f}" for number in expected]
