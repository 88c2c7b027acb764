"""Which values mean yes: one answer, whoever asks."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwc_llm import FwcError, audit, load_task
from fwc_llm.data.task_inference import draft_task
from fwc_llm.meaning import MeaningRule, read_meaning

UNDERSTOOD = {
    ("yes", "no"): "yes",
    ("Y", "N"): "Y",
    ("0.0", "1.0"): "1.0",
    ("TRUE", "FALSE"): "TRUE",
    ("Yes.", "No."): "Yes.",
    ("denied", "approved"): "approved",
    ("bad", "good"): "good",
    ("nein", "ja"): "ja",
    ("abgelehnt", "bewilligt"): "bewilligt",
    (">50K", "<=50K"): ">50K",
    ("not hired", "hired"): "hired",
    ("Advance", "Do not advance"): "Advance",
    ("yes", "no", "unknown"): "yes",
}
REFUSED = [
    ("yes", "maybe"),
    ("1", "2"),
    ("high", "low"),
    ("approved", "denied", "referred"),
    ("0", "1", "9"),
]


def table(values: tuple[str, ...], n: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    columns = {
        "sex": rng.choice(["f", "m"], n),
        "x": rng.integers(0, 50, n),
        "z": rng.integers(0, 90, n),
    }
    return pd.DataFrame({**columns, "said": [values[row % len(values)] for row in range(n)]})


def share_of_yes_in_audit(frame: pd.DataFrame) -> float:
    found = audit(frame, answer="said", protected="sex").records
    yes, no = (
        sum(record.value for record in found.where(metric=metric))
        for metric in ("selected", "not_selected")
    )
    return yes / (yes + no)


def share_of_yes_in_frame(frame: pd.DataFrame) -> float:
    task = load_task(frame, protected="sex", outcome="said")
    return float(task.labels(task.pool()).mean())


def share_of_yes_in_draft(frame: pd.DataFrame, folder: Path) -> float:
    path = folder / "table.csv"
    frame.to_csv(path, index=False)
    draft = draft_task(path, ["sex"], "said", folder)
    (folder / "table.toml").write_text(draft.text)
    task = load_task(folder / "table.toml")
    return float(task.labels(task.pool()).mean())


@pytest.mark.parametrize("values", UNDERSTOOD)
def test_audits_frames_and_drafts_take_the_same_value_for_yes(
    values: tuple[str, ...], tmp_path: Path
) -> None:
    frame = table(values)
    known = frame["said"][frame["said"] != "unknown"]
    expected = (known == UNDERSTOOD[values]).mean()
    assert share_of_yes_in_audit(frame) == pytest.approx(expected)
    assert share_of_yes_in_frame(frame) == pytest.approx(expected)
    assert share_of_yes_in_draft(frame, tmp_path) == pytest.approx(expected)


@pytest.mark.parametrize("values", REFUSED)
def test_audits_frames_and_drafts_refuse_the_same_values(
    values: tuple[str, ...], tmp_path: Path
) -> None:
    frame = table(values)
    said = []
    for share in (share_of_yes_in_audit, share_of_yes_in_frame):
        with pytest.raises(FwcError, match="say wh") as refused:
            share(frame)
        said.append(str(refused.value))
    with pytest.raises(FwcError, match="say wh") as refused:
        share_of_yes_in_draft(frame, tmp_path)
    said.append(str(refused.value))
    sentences = {text[text.index("has ") : text.index(":", text.index("say "))] for text in said}
    assert len(sentences) == 1
    for value in values:
        assert all(repr(value) in text for text in said)


def test_a_remedy_is_written_as_its_caller_writes_it() -> None:
    counts = {"approved": 5, "denied": 4, "referred": 3}
    for kind, option in (
        ("python", "others='drop'"),
        ("command line", "others drop"),
        ("task file", 'others = "drop"'),
    ):
        with pytest.raises(FwcError, match=option):
            read_meaning(counts, "said", MeaningRule(options=kind))  # type: ignore[arg-type]


def test_given_values_are_compared_without_case_and_forms_of_numbers() -> None:
    assert read_meaning({"Approved": 1, "open": 2}, "said", MeaningRule(("approved",))).no == (
        "open",
    )
    assert read_meaning({"2.0": 1, "1": 1}, "said", MeaningRule(("2",))).yes == ("2.0",)
    assert read_meaning({"true": 1, "false": 1}, "said", MeaningRule(("1",))).yes == ("true",)
    both = read_meaning({">50K": 1, ">50K.": 1, "<=50K": 2}, "said", MeaningRule((">50K",)))
    assert both.yes == (">50K", ">50K.")
    typed = MeaningRule(("approved,referred",), ("refused",))
    assert read_meaning({"approved": 1, "referred": 1, "refused": 1}, "said", typed).no == (
        "refused",
    )
    with pytest.raises(FwcError, match="cannot mean both"):
        read_meaning({"a": 1, "b": 1}, "said", MeaningRule(("a",), ("A",)))


@given(st.dictionaries(st.text(max_size=8), st.integers(1, 9), min_size=1, max_size=4))
def test_no_value_means_both_and_none_is_lost(counts: dict[str, int]) -> None:
    try:
        meaning = read_meaning(counts, "said", MeaningRule())
    except FwcError:
        return
    assert not set(meaning.yes) & set(meaning.no)
    assert {*meaning.yes, *meaning.no} <= set(counts)
    assert not meaning.dropped
