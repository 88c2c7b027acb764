"""`uncertain`: examples whose protected attribute is hard to predict from the other columns."""

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import make_shots, shuffle
from fwc_llm.shots.predict import predict
from fwc_llm.shots.registry import strategy

_MOST_ROWS = 5000  # to learn from, and as many to calibrate on


@strategy(coverage=0.95)
def uncertain(request: Request, coverage: float) -> Shots:
    """m candidates drawn uniformly from those whose protected level the features leave open, unweighted.

    Kenfack, Ebrahimi Kahou, Aïvodji (*Towards Fair In-Context Learning with Tabular Foundation Models*,
    2025): a classifier predicts the protected attribute, conformal prediction turns its probabilities into
    sets of levels, and only rows whose set has more than one level become examples. Theirs predict with a
    tabular foundation model or a logistic regression and keep all such rows as context; ours is a logistic
    regression, one level against the rest, and draws m of them. If there are fewer than m, the rows with the
    least certain prediction are taken.

    Option: `coverage`, the share of rows whose set must hold their level: the larger, the more rows count
    as uncertain.

    Errors: `FwcError` for a coverage outside (0, 1) and for a table with one protected level.
    """
    if not isinstance(coverage, (int, float)) or not 0.0 < coverage < 1.0:
        raise FwcError(f"coverage is {coverage!r}: give a number between 0 and 1, such as 0.95")
    task, pool = request.task, request.pool
    levels, codes = np.unique(task.sensitive(pool), return_inverse=True)
    if len(levels) < 2:
        raise FwcError(f"the table has one protected level only, {str(levels[0])!r}: nothing is uncertain")
    rng = np.random.default_rng(request.seed)
    turn = rng.permutation(len(pool))
    size = min(_MOST_ROWS, len(pool) // 2)
    probabilities = predict(task, pool, codes, turn[:size])
    held = turn[size : 2 * size]
    strange = np.sort(1.0 - probabilities[held, codes[held]])  # nonconformity: 1 − p(true level)
    rank = min(size - 1, int(np.ceil((size + 1) * coverage)) - 1)
    open_sets = (1.0 - probabilities <= strange[rank]).sum(axis=1) > 1
    free = np.flatnonzero(request.candidates & open_sets)
    if len(free) >= request.m:
        return make_shots(request, "uncertain", shuffle(request, rng, free)[: request.m], coverage=coverage)
    surest = np.where(request.candidates, probabilities.max(axis=1), np.inf)
    note = f"{len(free)} rows are uncertain at this coverage: the least certain ones were taken"
    least = np.argsort(surest, kind="stable")[: request.m]
    return make_shots(request, "uncertain", least, coverage=coverage, note=note)
