"""Choose the examples of a prompt: one interface, one registry, one file format."""

# Before the function of the same name: a folder that is imported later would take its place here.
import fwc_llm.shots.strategies  # noqa: F401
from fwc_llm.shots.base import Example, Request, Shots, Strategy
from fwc_llm.shots.certificate import Certificate
from fwc_llm.shots.order import ORDERS, order_shots
from fwc_llm.shots.registry import accepted_options, is_per_row, strategies, strategy
from fwc_llm.shots.select import select_shots
from fwc_llm.shots.storage import load_shots, save_shots

__all__ = [
    "ORDERS",
    "Certificate",
    "Example",
    "Request",
    "Shots",
    "Strategy",
    "accepted_options",
    "is_per_row",
    "load_shots",
    "order_shots",
    "save_shots",
    "select_shots",
    "strategies",
    "strategy",
]
