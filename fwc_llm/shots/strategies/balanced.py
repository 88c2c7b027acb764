"""`balanced`: equal numbers from every cell of protected level and outcome."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import alternate, cell_positions, draw, make_shots, plain
from fwc_llm.shots.registry import strategy

REDRAW = ("once", "per-row")


def _per_row(options: Mapping[str, Any]) -> bool:
    return bool(options.get("redraw", "once") == "per-row")


@strategy(per_row=_per_row, redraw="once")
def balanced(request: Request, redraw: str) -> Shots:
    """Equal numbers per cell, drawn uniformly without replacement, labels alternating no, yes, …, unweighted.

    The demographically balanced few-shot examples of DecodingTrust and of the paper
    (docs/protocol.md, "Balanced examples"). If m is not a multiple of the number of cells, the numbers differ
    by one, and the labels stay balanced.

    Options: `redraw="once"`, or `"per-row"` for a new draw for each queried row, as DecodingTrust does; the
    draw then depends on the seed and on the row's values.

    Errors: `FwcError` when m is below the number of cells; for a cell that is too small, with its name.
    """
    if redraw not in REDRAW:
        raise FwcError(f"redraw is {redraw!r}: choose 'once' or 'per-row'")
    cells = cell_positions(request)
    if request.m < len(cells):
        raise FwcError(
            f"m is {request.m}, but a balanced choice needs at least one example in each of the "
            f"{len(cells)} cells"
        )
    rng = np.random.default_rng(_seed(request, redraw))
    drawn: dict[str, list[int]] = {"no": [], "yes": []}
    for number, ((level, label), rows) in enumerate(cells.items()):
        wanted = request.m // len(cells) + (number < request.m % len(cells))
        if not len(rows):
            raise FwcError(
                f"no row of the cell '{level}', {label!r} may become an example, and a balanced choice needs "
                "one of every cell: merge levels by a map in the task file, or leave this arm out"
            )
        if len(rows) < wanted:
            raise FwcError(
                f"the cell '{level}', {label!r} is too small: a balanced choice of {request.m} needs "
                f"{wanted} of its rows, and {len(rows)} may become examples; lower m"
            )
        drawn[label] += draw(request, rng, rows, wanted).tolist()
    no, yes = (rng.permutation(drawn[label]) for label in ("no", "yes"))
    return make_shots(request, "balanced", alternate(no, yes), redraw=redraw)


def _seed(request: Request, redraw: str) -> list[int]:
    if redraw == "once" or request.query is None:
        return [request.seed]
    values = sorted((name, plain(value)) for name, value in request.query.items())
    digest = hashlib.sha256(json.dumps(values).encode()).digest()
    return [request.seed, int.from_bytes(digest[:8], "little")]
