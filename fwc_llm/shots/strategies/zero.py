"""No examples at all."""

from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import make_shots
from fwc_llm.shots.registry import strategy


@strategy()
def zero(request: Request) -> Shots:
    """Zero-shot: the question alone; m is ignored."""
    return make_shots(request, "zero", [])
