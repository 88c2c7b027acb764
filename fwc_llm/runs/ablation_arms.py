"""Ablation arms for FWC's slots, geometry, weights and order (docs/baselines.md)."""

from dataclasses import dataclass
from typing import Any

REPEATS = 20
# `strata` gets the same number of examples in each cell as `fwc`.
OPTIONS: dict[str, Any] = {"slots": "balanced-positive"}


@dataclass(frozen=True)
class Step:
    """Two arms that differ only in one part of FWC."""

    part: str
    first: str
    second: str
    words: str


STEPS = (
    Step("slots", "balanced", "strata", "random rows in FWC's slots instead of balanced ones"),
    Step("geometry", "strata", "fwc+unweighted@alternate", "FWC's rows instead of random ones in its slots"),
    Step("weights", "fwc+unweighted@alternate", "fwc@alternate", "the weights shown"),
    Step("order", "fwc@alternate", "fwc", "by weight instead of labels in turn"),
    Step("any order", "fwc", "fwc@random", "shuffled instead of by weight"),
    Step("all of FWC", "balanced", "fwc", "FWC instead of balanced examples"),
)
ARMS = tuple(dict.fromkeys(arm for step in STEPS for arm in (step.first, step.second)))
