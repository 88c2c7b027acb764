"""`Shots` and their certificate: as a table, in one line, as a picture."""

import copy
import json
import math
import pickle
from collections.abc import Mapping
from dataclasses import replace
from xml.etree import ElementTree

from fwc_llm.notebook import MOST_ROWS
from fwc_llm.shots import Certificate, Example, Shots, select_shots
from fwc_llm.tasks import Task

EVIL = "</td><script>alert(1)</script>\u202e"


def examples(
    n: int, weight: float | None = 1.0, values: Mapping[str, object] | None = None
) -> tuple[Example, ...]:
    return tuple(Example(f"t:{i}", {"age": i, **(values or {})}, "no", weight) for i in range(n))


def test_a_table_has_the_examples_in_prompt_order(two: Task) -> None:
    shots = select_shots(two, "fwc", m=8)
    frame = shots.to_frame()
    assert frame.index.tolist() == [example.row for example in shots.examples]
    assert frame["weight"].tolist() == [example.weight for example in shots.examples]
    assert frame["label"].tolist() == [example.label for example in shots.examples]
    pool = two.pool().loc[frame.index]
    assert frame["age"].tolist() == pool["age"].tolist()
    assert (frame["label"] == pool["y"]).all()


def test_a_table_without_examples_or_weights() -> None:
    assert Shots("zero", "t", "0", 0, ()).to_frame().columns.tolist() == ["label", "weight"]
    assert math.isnan(Shots("random", "t", "0", 0, examples(2, None)).to_frame()["weight"].iloc[0])


def test_columns_of_the_task_keep_their_names() -> None:
    frame = Shots("x", "t", "0", 0, examples(2, 1.0, {"label": "a", "label_": "b", "weight": 70})).to_frame()
    assert frame.columns.tolist() == ["age", "label", "label_", "weight", "label__", "weight_"]
    assert frame["weight"].tolist() == [70, 70]
    assert frame["label__"].tolist() == ["no", "no"]


def test_a_mapping_becomes_a_certificate(two: Task) -> None:
    shots = select_shots(two, "fwc", m=8)
    assert isinstance(shots.certificate, Certificate)
    again = replace(shots, certificate=dict(shots.certificate))
    assert isinstance(again.certificate, Certificate)
    assert again == shots
    assert json.loads(json.dumps(again.certificate)) == shots.certificate
    assert copy.deepcopy(shots) == pickle.loads(pickle.dumps(shots)) == shots
    assert Shots("x", "t", "0", 0, ()).certificate is None


def test_thousands_of_examples_print_one_line() -> None:
    certificate = {
        "objective": 1.25, "violation": 0.01, "rows": ["r"] * 5000, "weights": [1.0] * 5000,
        "fingerprint": "a" * 64, "more": list(range(5000)), "none": None,
    }  # fmt: skip
    shots = Shots("fwc", "t", "0", 7, examples(5000), certificate)
    line = repr(shots)
    assert len(line) < 200
    for part in ("fwc", "5000 examples", "objective 1.25", "violation 0.01", "seed 7"):
        assert part in line
    assert len(repr(shots.certificate)) < 300
    assert "rows" not in repr(shots.certificate)


def test_the_picture_shows_weights_and_escapes_cells() -> None:
    shots = Shots(EVIL, EVIL, "0", 0, examples(50, 2.0, {EVIL: EVIL}), {EVIL: EVIL, "slots": [{"a": EVIL}]})
    for value in (shots.certificate, shots):
        tree = ElementTree.fromstring(value._repr_html_())  # type: ignore[union-attr]
        assert tree.find(".//script") is None
        assert "script" in "".join(tree.itertext())
    assert len(tree.findall(".//tbody/tr")) == MOST_ROWS
    assert "and 30 more" in "".join(tree.itertext())


def test_no_weights_and_zero_weights_are_drawn() -> None:
    for weight in (None, 0.0):
        ElementTree.fromstring(Shots("x", "t", "0", 0, examples(3, weight))._repr_html_())
    hidden = (*examples(2), Example("t:9", {"age": 1}, "yes", 0.0))
    assert "hidden" in Shots("x", "t", "0", 0, hidden)._repr_html_()
