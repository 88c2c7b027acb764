"""Choose the examples of a prompt by a strategy; save and load them."""

from fwc_llm.shots.base import Certificate, Example, Request, Shots, Strategy
from fwc_llm.shots.registry import accepted_options, is_per_row, strategies, strategy
from fwc_llm.shots.select import ORDERS, order_shots, select_shots
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
