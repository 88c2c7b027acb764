"""`random`: uniform sampling."""

import numpy as np

from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import make_shots, shuffle
from fwc_llm.shots.registry import strategy


@strategy()
def uniform(request: Request) -> Shots:
    """m candidates drawn uniformly without replacement, in the order of the draw, unweighted."""
    rng = np.random.default_rng(request.seed)
    drawn = shuffle(request, rng, np.flatnonzero(request.candidates))[: request.m]
    return make_shots(request, "random", drawn)
