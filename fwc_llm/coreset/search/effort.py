"""How much is tried on a problem, by its size: one table of three profiles.

docs/method.md, "Starts and local optima", explains the terms.
"""

from dataclasses import dataclass

from fwc_llm.coreset.problem.problem import Problem

TINY = 4000  # n · m up to which numpy is as fast as compiled code
SWAPPED = (
    2**18
)  # rows up to which swaps use all rows; also the last sample of a larger table
_MIDDLE = 8192  # rows of a table of middle size, at most
_FEW = 1000  # n · m up to which free points are not swapped
_NUMBERS = (
    2**20
)  # n · m up to which free points of numbers are swapped, or start from swapped rows
SMALLEST = 2048  # rows of the smallest sample, at least
_GROWN = 64  # rows per free representative from which samples grow
_BY_HIGHS = (
    2  # starts, and kicks that may fail to pay, where HiGHS solves every inner problem
)

# Kicks in a row that may fail to pay: the sum of their n · m, and at least so many.
_WORK = {"free": 128_000, "rows": 64_000, "features": 64_000}
_LEAST = {"free": 1, "rows": 0, "features": 0}
_MIXED = 4  # times as many in tables with categories, whose optima are further apart

# The relative gain of an iteration that ends a descent: on a sample, on all rows after samples, and
# for free points of a large table.
SAMPLE_TOLERANCE = 3e-4
ROWS_TOLERANCE = 2e-5
FREE_TOLERANCE = 2.5e-4


@dataclass(frozen=True)
class Effort:
    """What is tried on a problem."""

    starts: int  # at most; if four agree, the search ends
    patience: int  # kicks of the best optimum in a row that may fail to pay, at most
    grows: bool  # whether a start descends on samples first
    swaps: str = ""  # on all "rows", on a "sample", or "": none
    from_rows: bool = False  # whether free points start from swapped rows
    tolerance: float = 0.0  # of the last descent on all rows
    rough: float = 0.0  # of descents before it, of which several are compared


TABLE = {
    "tiny": Effort(starts=30, patience=12, grows=False),
    "middle": Effort(starts=2, patience=12, grows=False),
    "large": Effort(starts=1, patience=0, grows=True),
}


def choose(
    problem: Problem, swaps: bool | str, progressive: bool | str, tolerance: float | str
) -> Effort:
    """Choose the effort for a problem; `swaps` and `progressive` are those of `FairCoreset`."""
    table = problem.table
    size = table.n * problem.m
    free = problem.support == "free"
    mixed = table.n_numeric < table.p
    if size <= TINY:
        profile = TABLE["tiny"]
    elif table.n <= _MIDDLE:
        profile = TABLE["middle"]
    else:
        profile = TABLE["large"]
    grows = profile.grows and (not free or table.n >= _GROWN * problem.m)
    if progressive != "auto":
        grows = bool(progressive) and table.n > SMALLEST
    # If starts are cheap, or end far apart as with categories, free points are swapped, or start
    # from swapped rows. Growing samples need no swaps.
    helped = free and swaps == "auto" and progressive == "auto" and size > _FEW
    helped &= table.fits_single and (mixed or size <= _NUMBERS)
    from_rows = helped and profile.grows
    kind = ""
    if table.fits_single and not free and swaps and table.n <= SWAPPED:
        kind = "rows"
    elif (table.fits_single and swaps is True) or (helped and not profile.grows):
        kind = "sample"
    work = _WORK[problem.support]
    if mixed:
        work *= _MIXED
    patience = 0
    if kind == "rows" or (kind == "sample" and helped):
        patience = min(max(_LEAST[problem.support], work // size), profile.patience)
    starts = profile.starts
    if size > TINY and patience < 2:
        starts = 1
    if problem.groups is not None:
        starts = min(starts, _BY_HIGHS)
        patience = min(patience, _BY_HIGHS)
    rough = 0.0
    if kind == "sample" and size > TINY:
        rough = SAMPLE_TOLERANCE
    if tolerance == "auto":
        tolerance = 0.0
        if grows or from_rows:
            tolerance = ROWS_TOLERANCE
        unhelped = free and progressive == "auto" and not from_rows and kind != "sample"
        if unhelped and size > _NUMBERS:
            tolerance = FREE_TOLERANCE
    return Effort(starts, patience, grows, kind, from_rows, float(tolerance), rough)
