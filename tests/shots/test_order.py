"""The orders of examples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwc_llm.errors import FwcError
from fwc_llm.shots import ORDERS, Example, Shots, order_shots

examples = st.lists(st.tuples(st.sampled_from(["no", "yes"]), st.floats(0, 1)), min_size=0, max_size=12).map(
    lambda pairs: tuple(Example(f"t:{i}", {}, label, weight) for i, (label, weight) in enumerate(pairs))
)  # type: ignore[arg-type]


def shots_of(found: tuple[Example, ...]) -> Shots:
    return Shots("s", "t", "f", 0, found)


@given(examples, st.sampled_from(ORDERS), st.integers(0, 5))
def test_every_order_keeps_the_examples(found: tuple[Example, ...], order: str, seed: int) -> None:
    ordered = order_shots(shots_of(found), order, seed).examples
    assert sorted(e.row for e in ordered) == sorted(e.row for e in found)
    assert order_shots(shots_of(found), order, seed).examples == ordered


@given(examples)
def test_what_the_orders_mean(found: tuple[Example, ...]) -> None:
    assert order_shots(shots_of(found), "given").examples == found
    weights = [e.weight or 0.0 for e in order_shots(shots_of(found), "by-weight").examples]
    assert weights == sorted(weights, reverse=True)
    labels = [e.label for e in order_shots(shots_of(found), "alternate").examples]
    paired = 2 * min(labels.count("no"), labels.count("yes"))
    assert labels[:paired] == ["no", "yes"] * (paired // 2)
    assert len(set(labels[paired:])) <= 1


def test_random_depends_on_the_seed() -> None:
    shots = shots_of(tuple(Example(f"t:{i}", {}, "no") for i in range(10)))
    orders = {tuple(e.row for e in order_shots(shots, "random", seed).examples) for seed in range(5)}
    assert len(orders) == 5


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(FwcError, match="choose one of given, alternate, by-weight, random"):
        order_shots(shots_of(()), "sorted")
