"""`fwc-llm prompt`: what is sent for one row."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

Run = Callable[..., Outcome]


@pytest.mark.slow
def test_a_row_of_the_split_is_shown_as_it_is_sent(fwc: Run, data_dir: Path, tmp_path: Path) -> None:
    outcome = fwc("prompt", "--task", "adult", "--shots", "balanced", "--m", 4, "--row", 3)
    assert outcome.code == 0, outcome.err
    sent = json.loads(fwc("prompt", "--shots", "balanced", "--m", 4, "--row", 3, "--json").out)
    assert [message["role"] for message in sent] == ["system", *["user", "assistant"] * 4, "user"]
    for message in sent:
        assert message["content"] in outcome.out
    assert "row 3 of the split is adult.test:" in outcome.err
    # … and it is what `eval` sends for its first row
    run = tmp_path / "run"
    assert (
        fwc(
            "eval", "--task", "adult", "--model", "surrogate", "--shots", "balanced", "--m", 4, "--out", run
        ).code
        == 0
    )
    first = json.loads(fwc("prompt", "--shots", "balanced", "--m", 4, "--json").out)
    assert json.loads((run / "prompts" / "balanced.json").read_text()) == first
    assert first[:-1] == sent[:-1]


@pytest.mark.slow
def test_weights_and_wordings(fwc: Run) -> None:
    common = ("prompt", "--task", "census", "--shots", "fwc", "--template", "paper", "--json")
    shown = json.loads(fwc(*common).out)
    hidden = json.loads(fwc(*common, "--weights", "hide").out)
    assert "weight: 1.00" in shown[1]["content"]
    assert "weight" not in json.dumps(hidden)
    assert "will this from 1996" in shown[0]["content"]


@pytest.mark.slow
def test_a_decision_models_question_stands_apart(fwc: Run) -> None:
    outcome = fwc("prompt", "--task", "census", "--api", "decisions", "--consistency", "--json")
    assert outcome.code == 0, outcome.err
    asked = [(message["role"], message.get("name")) for message in json.loads(outcome.out)]
    assert asked == [("user", None), ("question", None), ("question", "negation"), ("question", "paraphrase")]


@pytest.mark.slow
def test_a_folder_of_ones_own(fwc: Run, tmp_path: Path) -> None:
    (tmp_path / "system.j2").write_text("")
    (tmp_path / "shots.j2").write_text("")
    (tmp_path / "query.j2").write_text(
        '{% call message("user") %}{{ task.question }} {{ row["sex"] }}{% endcall %}'
    )
    outcome = fwc("prompt", "--task", "census", "--template", tmp_path, "--json")
    assert [message["role"] for message in json.loads(outcome.out)] == ["user"]
    (tmp_path / "query.j2").write_text("\n{{ sex }}")
    outcome = fwc("prompt", "--task", "census", "--template", tmp_path)
    assert (outcome.code, outcome.line) == (2, f"fwc-llm: {tmp_path}/query.j2, line 2: 'sex' is undefined")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--row", 200), "row 200 is outside the test split: it has rows 0 to 199"),
        (("--row", -1), "row -1 is outside the test split"),
        (("--template", "papre"), "there are decision, decodingtrust, default, paper"),
        (("--shots", "best"), "unknown strategy 'best'"),
        (("--shots", "missing.json"), "missing.json"),
        (("--weights", "maybe"), "weights"),
        (("--api", "oracle"), "api"),
        (("--consistency",), "choose --api decisions or --api systemone"),
    ],
)  # fmt: skip
def test_refusals(fwc: Run, arguments: tuple[object, ...], says: str) -> None:
    outcome = fwc("prompt", "--task", "census", *arguments)
    assert outcome.code == 2
    assert says in outcome.line
    assert outcome.out == ""
