"""Shots as files: everything comes back, and what is wrong is refused."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwc_llm import select_shots
from fwc_llm.shots import Example, Shots, load_shots, save_shots
from fwc_llm.tasks import Task, load_task
from tests.command import read_json
from tests.people import make_people, write_people
from tests.refusals import refused

text = st.text(st.characters(codec="utf-8"), max_size=8)
numbers = st.integers(-(2**53), 2**53) | st.floats(
    allow_nan=False, allow_infinity=False
)


@st.composite
def any_shots(draw: st.DrawFn) -> Shots:
    rows = draw(st.lists(text, max_size=6, unique=True))
    n = len(rows)
    some = st.lists(st.floats(0, 1e6), min_size=n, max_size=n).filter(
        lambda w: any(w) or not w
    )
    weights = draw(st.none() | some) or [None] * n
    values = st.dictionaries(text, text | numbers, max_size=3)
    labels = st.sampled_from(["no", "yes"])
    pairs = zip(rows, weights, strict=True)
    examples = tuple(
        Example(row, draw(values), draw(labels), weight) for row, weight in pairs
    )
    known = st.dictionaries(
        text, text | numbers | st.lists(numbers, max_size=3), max_size=3
    )
    named = draw(text), draw(text), draw(text), draw(st.integers(0, 2**60))
    return Shots(*named, examples, draw(st.none() | known), {"m": 3})


@pytest.mark.slow
@settings(max_examples=150)
@given(any_shots())
def test_a_file_gives_back_what_was_saved(tmp_path: Path, shots: Shots) -> None:
    save_shots(shots, tmp_path / "shots.json", force=True)
    assert load_shots(tmp_path / "shots.json") == shots
    assert os.listdir(tmp_path) == ["shots.json"]


@pytest.fixture(scope="module")
def saved(two: Task, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("saved") / "shots.json"
    save_shots(select_shots(two, "fwc", 8), path)
    return dict(read_json(path))


def load(
    folder: Path, content: Any, task: Task | None = None, **options: bool
) -> Shots:
    path = folder / "shots.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return load_shots(path, task, **options)


def test_the_file_says_how_its_examples_were_chosen(
    saved: dict[str, Any], tmp_path: Path, two: Task
) -> None:
    assert load(tmp_path, saved, two).options == {
        "m": 8,
        "epsilon": 0.01,
        "slots": "balanced-positive",
    }
    displayed = [example["displayed"] for example in saved["examples"]]
    assert (saved["format"], displayed[0]) == ("fwc-llm-shots/1", "1.00")
    assert "0.00" not in displayed
    assert saved["certificate"]["violation"] <= 0.01 + 1e-9


def test_another_task_and_changed_data_are_refused(
    saved: dict[str, Any], tmp_path: Path, two: Task
) -> None:
    changed = {**saved, "fingerprint": "0" * 64}
    with refused(r"another version of the table .*allow_changed_data=True"):
        load(tmp_path, changed, two)
    first = saved["examples"][0]
    edits = {
        "differs in job": {"values": {**first["values"], "job": "x"}},
        "'gone' is gone": {"row": "gone"},
        "differs in debt": {"values": {**first["values"], "debt": 1}},
    }
    for words, edit in edits.items():
        edited = [{**first, **edit}, *saved["examples"][1:]]
        with refused(words):
            load(tmp_path, {**changed, "examples": edited}, two)
    assert load(tmp_path, changed, two, allow_changed_data=True).m == 8
    for allowed in (True, False):
        with refused("is for the task 'adult', not 'people'"):
            load(tmp_path, {**saved, "task": "adult"}, two, allow_changed_data=allowed)
    path = write_people(tmp_path, make_people(240, 2))
    path.write_text(path.read_text().replace('positive = "yes"', 'positive = "no"'))
    other = load_task(path)
    for allowed in (True, False):
        with refused(r"is (yes now, and was no|no now, and was)"):
            load(tmp_path, saved, other, allow_changed_data=allowed)
    lacking = json.loads(json.dumps(saved))
    del lacking["examples"][2]["values"]["job"]
    with refused("has no value for the column 'job'"):
        load(tmp_path, lacking, two)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "negative": ({"weight": -0.5}, "has the weight -0.5"),
    "NaN": ({"weight": float("nan")}, "NaN is not JSON"),
    "too large": ({"weight": 10**400}, r"examples\[2\].weight"),
    "text weight": ({"weight": "1"}, r"examples\[2\].weight: .* found '1'"),
    "one without weight": (
        {"weight": None},
        "some rows have a weight and some have none",
    ),
    "label": ({"label": "maybe"}, r"examples\[2\].label: .* found 'maybe'"),
    "value": ({"values": {"age": None}}, r"examples\[2\].values.age"),
}


@pytest.mark.parametrize(("fields", "message"), WRONG.values(), ids=WRONG)
def test_wrong_examples(
    fields: dict[str, Any], message: str, saved: dict[str, Any], tmp_path: Path
) -> None:
    content = json.loads(json.dumps(saved))
    content["examples"][1].update(fields)
    with refused(message):
        load(tmp_path, content)


def test_a_wrong_file_is_refused(saved: dict[str, Any], tmp_path: Path) -> None:
    for content, message in (
        ("[" * 100_000, "cannot be read"),
        ("[]", "shots file"),
        ({**saved, "format": "fwc-llm-shots/9"}, "format: .* found 'fwc-llm-shots/9'"),
        ({**saved, "examples": [3]}, r"examples\[1\]"),
        ({**saved, "seed": True}, "seed: .* found True"),
        (
            {key: value for key, value in saved.items() if key != "task"},
            "task: it is missing",
        ),
        ({**saved, "examples": [saved["examples"][0]] * 2}, "occurs twice"),
        (
            {**saved, "examples": [{**saved["examples"][0], "weight": 0.0}]},
            "all weights are 0",
        ),
    ):
        with refused(message):
            load(tmp_path, content)
    (tmp_path / "latin.json").write_bytes(b'{"format": "\xff"}')
    with refused(r"latin\.json cannot be read"):
        load_shots(tmp_path / "latin.json")
    with refused(r"none\.json cannot be read: No such file"):
        load_shots(tmp_path / "none.json")


def test_an_unwritable_place_is_refused_and_the_old_file_kept(
    two: Task, tmp_path: Path
) -> None:
    shots = select_shots(two, "random", 4)
    (tmp_path / "file").write_text("")
    with refused("cannot write the shots to"):
        save_shots(shots, tmp_path / "file" / "shots.json")
    save_shots(shots, tmp_path / "shots.json")
    before = (tmp_path / "shots.json").read_text()
    unfit = replace(shots, certificate={"objective": float("nan")})
    with pytest.raises(ValueError, match="not JSON compliant"):
        save_shots(unfit, tmp_path / "shots.json", force=True)
    assert (tmp_path / "shots.json").read_text() == before
