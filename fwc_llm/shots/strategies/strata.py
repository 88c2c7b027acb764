"""`strata`: examples by shares of protected group and label."""

import numpy as np

from fwc_llm.apportion import largest_remainder
from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import alternate, cell_positions, make_shots
from fwc_llm.shots.registry import strategy


@strategy(group=None, group_share=1.0, positive_share=0.5)
def strata(request: Request, group: str | None, group_share: float, positive_share: float) -> Shots:
    """Examples with given shares of one group and of yes; uniform within a stratum, labels alternating.

    Hu, Liu, Du (*Strategic Demonstration Selection for Improved Fairness in LLM In-Context Learning*, EMNLP
    2024). Their strategies are `group_share=1, positive_share=0.5` (the minority group only; the default),
    `group_share=1, positive_share=1` (its positives only) and `group_share=0.5, positive_share=0.5` (both).

    Options: `group`, the protected level to prefer (default: the smallest of the table); `group_share` of the
    m examples come from it, the others equally from the remaining levels; `positive_share` have the answer
    yes. Counts are rounded so that the sums over groups and over labels are the nearest whole numbers.

    Errors: `FwcError` for shares outside [0, 1], an unknown group, and, by name, a stratum that is too small.
    """
    for name, share in (("group_share", group_share), ("positive_share", positive_share)):
        if not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise FwcError(f"{name} is {share!r}: give a number from 0 to 1")
    levels, sizes = np.unique(request.task.sensitive(request.pool), return_counts=True)
    preferred = str(levels[np.argmin(sizes)]) if group is None else group
    if preferred not in levels:
        raise FwcError(f"group is {preferred!r}: choose one of {', '.join(map(str, levels))}")
    if len(levels) == 1 and group_share < 1:
        raise FwcError(f"group_share is {group_share}, but the table has one level only, {preferred!r}")
    cells = cell_positions(request)
    others = [str(level) for level in levels if level != preferred]
    shares = [group_share, *[(1 - group_share) / max(1, len(others))] * len(others)]
    sizes_wanted = largest_remainder(np.array(shares) * request.m, request.m).tolist()
    yes_wanted = _running(sizes_wanted, positive_share)
    wanted_of = {}
    for level, size, yes_count in zip([preferred, *others], sizes_wanted, yes_wanted, strict=True):
        wanted_of[level, "no"], wanted_of[level, "yes"] = size - yes_count, yes_count
    rng = np.random.default_rng(request.seed)
    drawn: dict[str, list[int]] = {"no": [], "yes": []}
    for (level, label), rows in cells.items():
        wanted = wanted_of[level, label]
        if wanted > len(rows):
            raise FwcError(
                f"the stratum '{level}', {label!r} is too small: it must give {wanted} examples, and "
                f"{len(rows)} rows may become examples; lower m or its share"
            )
        drawn[label] += rng.choice(rows, wanted, replace=False).tolist()
    no, yes = (rng.permutation(np.array(drawn[label], np.int64)) for label in ("no", "yes"))
    return make_shots(
        request,
        "strata",
        alternate(no, yes),
        group=preferred,
        group_share=group_share,
        positive_share=positive_share,
    )


def _running(sizes: list[int], share: float) -> list[int]:
    """`share` of every size as whole numbers whose running sums are rounded to the nearest."""
    sums = np.floor(np.cumsum(sizes) * share + 0.5 + 1e-9).astype(int)
    return [int(count) for count in np.diff(sums, prepend=0)]
