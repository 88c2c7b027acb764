"""What every model is asked: fixed, so that files of different people can stand in one table."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

FORMAT = "fwc-llm-leaderboard/1"
TASKS = ("adult", "compas", "german", "census")
ROWS, PROBED, JOINT = 500, 100, 20
ARMS = ("zero", "fwc")
# Rows at base parity 0.5: the most below 500 that the cells give and leave examples, and what they divide by.
_PARITY = {"adult": (496, 8), "compas": (480, 48), "german": (240, 8), "census": (496, 8)}
_NO_PROXIES = ("compas", "german")  # there no column tells the group with an AUC of 0.65


@dataclass(frozen=True)
class Part:
    """One run of the protocol: its task, its arms, and the settings that decide what is asked."""

    task: str
    kind: str
    arms: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """The folder of the run, and its key in the file."""
        return f"{self.task}-{self.kind}"


def parts(rows: int = ROWS, api: str = "chat", reference: bool = False) -> Iterator[Part]:
    """Yield the runs of the protocol, with at most `rows` rows each, for a model that speaks `api`.

    Only decision models are asked for the negation, which goes into the same request. A `reference` reads
    rows and no prompts: it gets no request about several rows.
    """
    joint = 1 if reference else JOINT
    for task in TASKS:
        most, unit = _PARITY[task]
        each = {"m": 16, "seed": 0, "api": api}
        natural = {"n_test": min(rows, ROWS), "base_parity": None, "rows_per_request": joint}
        yield Part(task, "natural", ARMS, {**each, **natural, "consistency": api != "chat"})
        parity = {"n_test": max(min(rows, most) // unit, 1) * unit, "base_parity": 0.5}
        yield Part(task, "parity", ARMS, {**each, **parity})
        probe = ("names",) if task in _NO_PROXIES else ("names", "proxies")
        probed = {"n_test": min(rows, PROBED), "base_parity": None, "counterfactual": True, "probe": probe}
        yield Part(task, "probes", ARMS[:1], {**each, **probed})
