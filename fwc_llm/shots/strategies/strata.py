"""`strata`: examples by shares of protected group and label."""

import weakref
from functools import partial
from typing import Any

import numpy as np

from fwc_llm.apportion import largest_remainder
from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import alternate, cell_positions, draw, make_shots
from fwc_llm.shots.registry import strategy
from fwc_llm.shots.slots import read_slots

PICKS = ("uniform", "surprising")
_SURPRISING_SHARE, _MOST_ROWS = 0.1, 5000
_kept: dict[tuple[int, str, str], np.ndarray] = {}


@strategy(group=None, group_share=1.0, positive_share=0.5, slots=None, pick="uniform")
def strata(
    request: Request, group: str | None, group_share: float, positive_share: float, slots: Any, pick: str
) -> Shots:
    """Examples with given shares of one group and of yes; uniform within a stratum, labels alternating.

    Hu, Liu, Du (*Strategic Demonstration Selection for Improved Fairness in LLM In-Context Learning*, EMNLP
    2024). Their strategies are `group_share=1, positive_share=0.5` (the minority group only; the default),
    `group_share=1, positive_share=1` (its positives only) and `group_share=0.5, positive_share=0.5` (both).

    Options: `group`, the protected level to prefer (default: the smallest of the table); `group_share` of the
    m examples come from it, the others equally from the remaining levels; `positive_share` have the answer
    yes. Counts are rounded so that the sums over groups and over labels are the nearest whole numbers.
    `slots` names the number of every cell instead, as `fwc` takes it; cells left out give none.
    `pick="surprising"` (ours) draws from the tenth of each stratum whose label the features predict least,
    by a logistic regression: from them a model has most to learn.

    Errors: `FwcError` for shares outside [0, 1], an unknown group, and, by name, a stratum that is too small.
    """
    if pick not in PICKS:
        raise FwcError(f"pick is {pick!r}: choose {' or '.join(map(repr, PICKS))}")
    return draw_strata(request, "strata", group, group_share, positive_share, slots, pick)


def draw_strata(
    request: Request,
    strategy: str,
    group: str | None,
    group_share: float,
    positive_share: float,
    slots: Any = None,
    pick: str = "uniform",
    **options: Any,
) -> Shots:
    """The draw of `strata`, for the strategies that are a special case of it; `options` are recorded."""
    if slots is None:
        wanted_of, said = _by_shares(request, group, group_share, positive_share)
    else:
        wanted_of, said = read_slots(slots, request), {"slots": slots if isinstance(slots, str) else "given"}
    rng = np.random.default_rng(request.seed)
    likely = _likely(request) if pick == "surprising" else None
    if likely is not None:
        said["pick"] = pick
    drawn: dict[str, list[int]] = {"no": [], "yes": []}
    for (level, label), rows in cell_positions(request).items():
        wanted = wanted_of.get((level, label), 0)
        if wanted > len(rows):
            raise FwcError(
                f"the stratum '{level}', {label!r} is too small: it must give {wanted} examples, and "
                f"{len(rows)} rows may become examples; lower m or its share"
            )
        if likely is not None:
            size = max(2 * wanted, int(len(rows) * _SURPRISING_SHARE))
            rows = rows[np.argsort(likely[rows], kind="stable")[:size]]
        drawn[label] += draw(request, rng, rows, wanted).tolist()
    no, yes = (rng.permutation(np.array(drawn[label], np.int64)) for label in ("no", "yes"))
    return make_shots(request, strategy, alternate(no, yes), **(said | options))


def _likely(request: Request) -> np.ndarray:
    """How likely each row's own label is by its features (n,), learned on rows that do not vary by seed.

    The last one is kept until its pool is deleted.
    """
    from fwc_llm.shots.predict import predict

    key = (id(request.pool), request.task.name, request.task.fingerprint)
    if key in _kept:
        return _kept[key]
    labels = request.task.labels(request.pool).astype(np.int64)
    train = np.random.default_rng(0).permutation(len(labels))[:_MOST_ROWS]
    probabilities = predict(request.task, request.pool, labels, train)
    _kept.clear()
    _kept[key] = np.asarray(probabilities[np.arange(len(labels)), labels])
    weakref.finalize(request.pool, partial(_kept.pop, key, None))
    return _kept[key]


def _by_shares(
    request: Request, group: str | None, group_share: float, positive_share: float
) -> tuple[dict[tuple[str, str], int], dict[str, Any]]:
    """How many examples each (level, label) gives, and the options to record."""
    for name, share in (("group_share", group_share), ("positive_share", positive_share)):
        if not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise FwcError(f"{name} is {share!r}: give a number from 0 to 1")
    levels, code = np.unique(request.task.sensitive(request.pool), return_inverse=True)
    sizes = np.bincount(code, request.weights)
    preferred = str(levels[np.argmin(sizes)]) if group is None else group
    if preferred not in levels:
        raise FwcError(f"group is {preferred!r}: choose one of {', '.join(map(str, levels))}")
    if len(levels) == 1 and group_share < 1:
        raise FwcError(f"group_share is {group_share}, but the table has one level only, {preferred!r}")
    others = [str(level) for level in levels if level != preferred]
    shares = [group_share, *[(1 - group_share) / max(1, len(others))] * len(others)]
    sizes_wanted = largest_remainder(np.array(shares) * request.m, request.m).tolist()
    yes_wanted = _running(sizes_wanted, positive_share)
    wanted_of = {}
    for level, size, yes_count in zip([preferred, *others], sizes_wanted, yes_wanted, strict=True):
        wanted_of[level, "no"], wanted_of[level, "yes"] = size - yes_count, yes_count
    said = {"group": preferred, "group_share": group_share, "positive_share": positive_share}
    return wanted_of, said


def _running(sizes: list[int], share: float) -> list[int]:
    """`share` of every size as whole numbers whose running sums are rounded to the nearest."""
    sums = np.floor(np.cumsum(sizes) * share + 0.5 + 1e-9).astype(int)
    return [int(count) for count in np.diff(sums, prepend=0)]
