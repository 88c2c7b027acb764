"""The surrogate against recorded answers of gpt-4-0314, and its model card against the recorded
figures.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals import fit_surrogate as fit
from fwc_llm.models.surrogate.model import FORMS, Surrogate
from tests.command import read_json

EVALS = Path(__file__).resolve().parents[3] / "evals"


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    content: dict[str, Any] = read_json(EVALS / "results" / "surrogate.json")
    return content


def overall(report: dict[str, Any]) -> dict[int, float]:
    return {
        line["examples"]: line["agreement"]
        for line in report["held_out"]
        if line["group"] == "all"
    }


def test_what_was_asked_of_it_is_reached(report: dict[str, Any]) -> None:
    agreement = overall(report)
    assert agreement[0] >= 0.945
    assert min(agreement[4], agreement[16]) >= 0.92
    few = report["response"][0]
    assert few["examples"] is None
    own, none, others = (few["agreement"][whose] for whose in fit.RESPONSE)
    assert own >= 0.92
    assert (
        max(none, others) <= own - 0.01
    )  # it heeds its examples as GPT-4 does, and these examples


@pytest.mark.parametrize(
    ("files", "m"),
    [
        (("gpt-4-0314_adult_0_200", "gpt-4-0314_adult_0_200_8"), 0),
        (("gpt-4-0314_adult_4_200",), 4),
        (("gpt-4-0314_adult_16_200",), 16),
        (("gpt-4-0314_adult_30",), 30),
    ],
)
def test_it_gives_the_recorded_answers(
    data_dir: Path, report: Any, files: tuple[str, ...], m: int
) -> None:
    same = []
    for file in files:
        for messages, response in read_json(
            data_dir / "gpt4-answers" / f"{file}.jsonl"
        ):
            reply = Surrogate().reply(messages)
            same.append(reply.text == response["choices"][0]["message"]["content"])
    assert (
        np.mean(same) >= overall(report)[m]
    )  # fitted to them: better than on rows held out


def test_the_page_and_the_model_card_say_what_was_measured(
    report: dict[str, Any],
) -> None:
    assert (EVALS / "results" / "surrogate.md").read_text() == fit.page(report)
    card = (EVALS / "surrogate.md").read_text()
    lines = {(line["examples"], line["group"]): line for line in report["held_out"]}
    shown = re.findall(r"^\| (\d+) \| (.+) \|$", card, re.MULTILINE)
    assert [int(m) for m, _ in shown] == [0, 4, 16, 30]
    for (m, cells), gap in zip(shown, report["demographic_parity"], strict=True):
        part = [
            lines[int(m), group]["agreement"] for group in ("all", "Female", "Male")
        ]
        expected = [*part, lines[int(m), "all"]["auc"], gap["gpt4"], gap["surrogate"]]
        assert cells.split(" | ") == [f"{number:.3f}" for number in expected]


def test_forms_that_fit_alike_disagree_and_the_default_fits_best(report: Any) -> None:
    changes = [line["women_yes"] - line["men_yes"] for line in report["reversal"]]
    assert min(changes) < 0 < max(changes)
    losses = dict.fromkeys(FORMS, 0.0)
    for line in report["left_out"]:
        if line["form"] in FORMS and line["examples"]:
            losses[line["form"]] += line["answers"] * line["log_loss"]
    assert (
        min(losses, key=losses.__getitem__) == FORMS[0] == Surrogate().form
    )  # over all with examples
