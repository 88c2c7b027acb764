"""`Shots` and their certificate: as a table, in one line, as a picture."""

import copy
import json
import pickle
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from fwc_llm.notebook import MOST_ROWS
from fwc_llm.shots import ORDERS, Certificate, Example, Shots, order_shots, select_shots
from fwc_llm.tasks import Task

EVIL = "</td><script>alert(1)</script>\u202e"


def examples(
    n: int,
    weight: float | None = 1.0,
    values: Any = {},  # noqa: B006
) -> tuple[Example, ...]:
    return tuple(
        Example(f"t:{i}", {"age": i, **values}, "no", weight) for i in range(n)
    )


def shots_of(found: tuple[Example, ...]) -> Shots:
    return Shots("s", "t", "f", 0, found)


def test_a_table_has_the_examples_in_prompt_order(two: Task) -> None:
    shots = select_shots(two, "fwc", m=8)
    frame = shots.to_frame()
    expected = [(one.row, one.label, one.weight) for one in shots.examples]
    assert [*zip(frame.index, frame["label"], frame["weight"], strict=True)] == expected
    pool = two.pool().loc[frame.index]
    assert frame["age"].tolist() == pool["age"].tolist()
    assert (frame["label"] == pool["y"]).all()


def test_columns_of_the_task_keep_their_names_and_no_weight_is_nan() -> None:
    assert shots_of(()).to_frame().columns.tolist() == ["label", "weight"]
    frame = shots_of(
        examples(2, None, {"label": "a", "label_": "b", "weight": 70})
    ).to_frame()
    assert frame.columns.tolist() == [
        "age",
        "label",
        "label_",
        "weight",
        "label__",
        "weight_",
    ]
    assert (frame["weight"].tolist(), frame["label__"].tolist()) == (
        [70, 70],
        ["no", "no"],
    )
    assert frame["weight_"].isna().all()


def test_where_all_weights_are_zero_every_example_is_shown_without_one() -> None:
    for weight in (None, 0.0):
        shots = shots_of(examples(3, weight))
        assert shots.shown() == tuple((example, None) for example in shots.examples)
        ElementTree.fromstring(shots._repr_html_())
    heavy = Example("t:9", {"age": 1}, "yes", 2.0)
    some = shots_of((*shots.examples, heavy))
    assert some.shown() == ((heavy, "1.00"),)
    assert "hidden" in some._repr_html_()


def test_a_mapping_becomes_a_certificate(two: Task) -> None:
    shots: Any = select_shots(two, "fwc", m=8)
    again = replace(shots, certificate=dict(shots.certificate))
    assert type(again.certificate) is type(shots.certificate) is Certificate
    assert json.loads(json.dumps(again.certificate)) == shots.certificate
    assert copy.deepcopy(shots) == pickle.loads(pickle.dumps(shots)) == shots == again
    assert shots_of(()).certificate is None


def test_thousands_of_examples_print_one_line() -> None:
    long = {
        "rows": ["r"] * 5000,
        "weights": [1.0] * 5000,
        "fingerprint": "a" * 64,
        "more": [*range(5000)],
    }
    certificate = {"objective": 1.25, "violation": 0.01, **long, "none": None}
    shots = Shots("fwc", "t", "0", 7, examples(5000), certificate)
    line = repr(shots)
    assert len(line) < 200
    for part in ("fwc", "5000 examples", "objective 1.25", "violation 0.01", "seed 7"):
        assert part in line
    assert len(repr(shots.certificate)) < 300
    assert "rows" not in repr(shots.certificate)


def test_the_picture_shows_weights_and_escapes_cells() -> None:
    shots = Shots(
        EVIL,
        EVIL,
        "0",
        0,
        examples(50, 2.0, {EVIL: EVIL}),
        {EVIL: EVIL, "slots": [{"a": EVIL}]},
    )
    for value in (shots.certificate, shots):
        tree = ElementTree.fromstring(value._repr_html_())  # type: ignore[union-attr]
        assert tree.find(".//script") is None
        assert "script" in "".join(tree.itertext())
    assert len(tree.findall(".//tbody/tr")) == MOST_ROWS
    assert "and 30 more" in "".join(tree.itertext())


any_examples = st.lists(
    st.tuples(st.sampled_from(["no", "yes"]), st.floats(0, 1)), min_size=0, max_size=12
).map(
    lambda pairs: tuple(
        Example(f"t:{i}", {}, label, weight) for i, (label, weight) in enumerate(pairs)
    )
)  # type: ignore[arg-type]


@given(any_examples, st.sampled_from(ORDERS), st.integers(0, 5))
def test_every_order_keeps_the_examples(
    found: tuple[Example, ...], order: str, seed: int
) -> None:
    ordered = order_shots(shots_of(found), order, seed).examples
    assert sorted(e.row for e in ordered) == sorted(e.row for e in found)
    assert order_shots(shots_of(found), order, seed).examples == ordered


@given(any_examples)
def test_what_the_orders_mean(found: tuple[Example, ...]) -> None:
    assert order_shots(shots_of(found), "given").examples == found
    weights = [
        e.weight or 0.0 for e in order_shots(shots_of(found), "by-weight").examples
    ]
    assert weights == sorted(weights, reverse=True)
    labels = [e.label for e in order_shots(shots_of(found), "alternate").examples]
    paired = 2 * min(labels.count("no"), labels.count("yes"))
    assert labels[:paired] == ["no", "yes"] * (paired // 2)
    assert len(set(labels[paired:])) <= 1


def test_random_depends_on_the_seed() -> None:
    shots = shots_of(tuple(Example(f"t:{i}", {}, "no") for i in range(10)))
    orders = {
        tuple(e.row for e in order_shots(shots, "random", seed).examples)
        for seed in range(5)
    }
    assert len(orders) == 5
