"""How much is tried on a problem, by its size: one table of three profiles.

docs/method.md, "Starts and local optima", explains the terms.
"""

from dataclasses import dataclass, replace

from fwc_llm.coreset.problem.problem import Problem

TINY = 4000  # n · m up to which numpy is as fast as compiled code
SWAPPED = (
    2**18
)  # rows up to which swaps use all rows; also the size of the last sample of a larger table
_FEW = 1000  # n · m up to which free points are not swapped
_NUMBERS = 2**20  # n · m up to which free points of numbers are swapped, or start from swapped rows
_SMALLEST = 2048  # rows of the smallest sample, at least
_GROWN = 64  # rows per free representative from which samples grow
# Kicks in a row that may fail to pay: n · m of all of them, and at least so many.
_MOST = 12  # of them
_BY_HIGHS = 2  # starts, and kicks that may fail to pay, where HiGHS solves every inner problem
_MIXED = 4  # times as many in tables with categories, whose optima are further apart
_PATIENCE = {"free": 128_000, "rows": 64_000, "features": 64_000}
_LEAST = {"free": 1, "rows": 0, "features": 0}

# The relative gain of an iteration that ends a descent: on a sample, on all rows after samples, and
# for free points of a large table.
SAMPLE_TOLERANCE = 3e-4
ROWS_TOLERANCE = 2e-5
FREE_TOLERANCE = 2.5e-4


@dataclass(frozen=True)
class Effort:
    """What is tried on a problem."""

    rows: int  # of the largest table; of the first profile n · m
    starts: int  # at most; if four agree, the search ends
    kicks: bool  # whether the best optimum is kicked
    grows: bool  # whether a start descends on samples first
    swaps: str = ""  # "rows" on all rows, "points" on a sample, "" none
    from_rows: bool = False  # whether free points start from swapped rows
    patience: int = 0  # kicks in a row that may fail to pay
    tolerance: float = 0.0  # of the last descent on all rows
    rough: float = 0.0  # of descents before it, of which several are compared


TABLE = {
    "tiny": Effort(rows=TINY, starts=30, kicks=True, grows=False),
    "middle": Effort(rows=8192, starts=2, kicks=True, grows=False),
    "large": Effort(rows=2**63, starts=1, kicks=False, grows=True),
}


def choose(
    problem: Problem, swaps: bool | str, progressive: bool | str, tolerance: float | None
) -> Effort:
    """Choose the effort for a problem; `swaps` and `progressive` are those of `FairCoreset`."""
    n = problem.table.n
    m = problem.m
    table = problem.table
    size = n * m
    free = problem.support == "free"
    if size <= TINY:
        name = "tiny"
    else:
        name = next(k for k in ("middle", "large") if n <= TABLE[k].rows)
    effort = TABLE[name]
    grows = effort.grows and (not free or n >= _GROWN * m)
    if progressive != "auto":
        grows = bool(progressive) and n > _SMALLEST
    # If starts are cheap, or end far apart as with categories, free points are swapped, or start
    # from swapped rows. Growing samples need no swaps.
    mixed = table.n_numeric < table.p or size <= _NUMBERS
    helped = free and swaps == "auto" and progressive == "auto" and mixed and size > _FEW
    kind = ""
    if table.fits_single and not free and swaps and n <= SWAPPED:
        kind = "rows"
    elif table.fits_single and (swaps is True or (helped and not effort.grows)):
        kind = "points"
    kicks = effort.kicks and (kind == "rows" or (kind == "points" and helped))
    from_rows = helped and table.fits_single and effort.grows
    if tolerance is None:
        loose = (
            free
            and progressive == "auto"
            and size > _NUMBERS
            and not from_rows
            and kind != "points"
        )
        tolerance = FREE_TOLERANCE if loose else ROWS_TOLERANCE if grows or from_rows else 0.0
    work = _PATIENCE[problem.support] * (_MIXED if table.n_numeric < table.p else 1)
    patience = min(max(_LEAST[problem.support], work // size), _MOST)
    if name == "tiny" or (kicks and patience > 1):
        starts = effort.starts
    else:
        starts = 1
    if problem.groups is not None:
        starts = min(starts, _BY_HIGHS)
        patience = min(patience, _BY_HIGHS)
    return replace(
        effort,
        starts=starts,
        kicks=kicks,
        grows=grows,
        swaps=kind,
        from_rows=from_rows,
        patience=patience,
        tolerance=tolerance,
        rough=SAMPLE_TOLERANCE if kind == "points" and name != "tiny" else 0.0,
    )
