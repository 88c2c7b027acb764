"""The order of the examples in a prompt, which alone can move a model's answers."""

import random
from dataclasses import replace

from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Example, Shots

ORDERS = ("given", "alternate", "by-weight", "random")


def check_order(order: str) -> None:
    """Refuse an unknown order."""
    if order not in ORDERS:
        raise FwcError(f"unknown order {order!r}: choose one of {', '.join(ORDERS)}")


def order_shots(shots: Shots, order: str, seed: int = 0) -> Shots:
    """The same examples in another order.

    * `given`: as the strategy or the file has them;
    * `alternate`: no, yes, no, …, each label in its given order, the rest of the longer list at the end;
    * `by-weight`: highest weight first, equal weights (and unweighted shots) in the given order;
    * `random`: a shuffle that depends on the seed alone.

    Errors: `FwcError` for an unknown order.
    """
    check_order(order)
    examples = list(shots.examples)
    if order == "alternate":
        examples = _alternate(examples)
    elif order == "by-weight":
        examples.sort(key=lambda example: -(example.weight or 0.0))
    elif order == "random":
        random.Random(seed).shuffle(examples)
    return replace(shots, examples=tuple(examples))


def _alternate(examples: list[Example]) -> list[Example]:
    no = [example for example in examples if example.label == "no"]
    yes = [example for example in examples if example.label == "yes"]
    pairs = [example for pair in zip(no, yes, strict=False) for example in pair]
    paired = min(len(no), len(yes))
    return pairs + no[paired:] + yes[paired:]
