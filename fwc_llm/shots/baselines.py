"""Baselines: no examples, given or random rows, strata.

Sources: docs/baselines.md. With sampling weights, "uniform" draws are in proportion to these
weights.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm.errors import FwcError
from fwc_llm.shots import examples
from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.registry import strategy


@strategy()
def zero(request: Request) -> Shots:
    """Zero-shot: no examples; m is ignored."""
    return examples.make_shots(request, "zero", [])


@strategy()
def uniform(request: Request) -> Shots:
    """m candidates drawn uniformly without replacement, in the order of the draw, unweighted."""
    rng = np.random.default_rng(request.seed)
    drawn = examples.shuffle(request, rng, np.flatnonzero(request.candidates))[
        : request.m
    ]
    return examples.make_shots(request, "random", drawn)


@strategy(rows=())
def ids(request: Request, rows: str | Sequence[str]) -> Shots:
    """The rows with these ids, in this order, unweighted; m is ignored.

    `rows` are ids such as "adult.data:17" (file and line), as a sequence or as text with commas.
    """
    listed = rows if isinstance(rows, list | tuple) else str(rows).split(",")
    wanted = [str(row).strip() for row in listed]
    if not wanted:
        raise FwcError(
            "ids needs the option rows: name them, for example rows='adult.data:17,adult.data:21'"
        )
    positions = request.pool.index.astype(str).get_indexer(pd.Index(wanted))
    for row, position in zip(wanted, positions.tolist(), strict=True):
        if position < 0:
            raise FwcError(
                f"the row {row!r} is not in the pool, whose ids look like "
                f"{str(request.pool.index[0])!r}"
            )
        if not request.candidates[position]:
            raise FwcError(
                f"the row {row!r} may not become an example: it equals a test row"
            )
        if wanted.count(row) > 1:
            raise FwcError(f"the row {row!r} is named twice")
    return examples.make_shots(request, "ids", positions)


@strategy()
def balanced(request: Request) -> Shots:
    """Equal numbers of examples per cell, drawn without replacement; unweighted.

    Draws are uniform within a cell, and labels alternate: no, yes, …
    (docs/protocol.md, "Balanced examples"). If m is not a multiple of the number of cells, the
    numbers of any two cells differ
    by at most one, and so do those of the two labels.
    """
    shares = examples.cell_shares(request)
    if request.m < len(shares):
        raise FwcError(
            f"m is {request.m}, but a balanced choice needs at least one example in each of the "
            f"{len(shares)} cells"
        )
    drawn = _draw_labelled(request, np.random.default_rng([request.seed]), shares)
    return examples.make_shots(request, "balanced", drawn)


def _draw_labelled(
    request: Request,
    rng: np.random.Generator,
    shares: "Sequence[tuple[str, np.ndarray, int]]",
) -> list[int]:
    """Draw each cell's quota in random order, alternating labels."""
    drawn: dict[str, list[int]] = {label: [] for label in request.task.example_labels}
    for label, rows, wanted in shares:
        drawn[label] += examples.draw(request, rng, rows, wanted).tolist()
    shuffled = (rng.permutation(np.array(own, np.int64)) for own in drawn.values())
    return examples.alternate(*shuffled)


@strategy(slots="equal")
def strata(request: Request, slots: Mapping[Any, int] | str) -> Shots:
    """Examples with a given number from each cell, as `slots` of `fwc`; unweighted.

    Draws are uniform within a cell, and labels alternate. A cell that `slots` does not name gives
    no examples.
    """
    counts = examples.read_slots(slots, request)
    shares = examples.cell_shares(request, counts)
    drawn = _draw_labelled(request, np.random.default_rng(request.seed), shares)
    recorded = slots if isinstance(slots, str) else "given"
    return examples.make_shots(request, "strata", drawn, slots=recorded)
