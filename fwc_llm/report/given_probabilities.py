"""P(yes) as other tools leave it in a table: checked, with the rows named, and turned into answers."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.metrics.counts import Floats
from fwc_llm.metrics.thresholds import HALF

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.metrics.answers import Names

_SHOWN = 5  # rows that an error names

Where = Callable[[int], str]


def probabilities(cells: "Names", column: str, where: Where) -> Floats:
    """Return a column's texts as shares; an empty one is NaN. `where` names a row in an error.

    Raises `FwcError` for text, percent and numbers outside [0, 1], and says what to do about them.
    """
    known = (_share(cell) for cell in cells.categories)
    shares = np.array([np.nan if share is None else share for share in known], np.float64)
    shares = np.asarray(shares[cells.codes])
    wrong = np.flatnonzero(shares == np.inf).tolist()
    if not wrong:
        return shares
    named = [f"{where(place)} {cells[place]!r:.40}" for place in wrong[:_SHOWN]]
    more = f" and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
    raise FwcError(
        f"{column!r} is not P(yes), a number from 0 to 1, in {len(wrong):,} of {len(cells):,} rows "
        f"({', '.join(named)}{more}): {_advice([str(cells[place]) for place in wrong])}"
    )


def looks_like_probability(cells: Sequence[str]) -> bool:
    """Whether a column that should hold answers holds P(yes): shares, not all of them 0 and 1."""
    shares = {_share(cell) for cell in set(cells) if cell.strip()}
    return len(shares) > 2 and not any(share is None or share is math.inf for share in shares)


def answered_at(shares: Floats, threshold: float) -> "Names":
    """Return yes where a share is at the threshold or above, a missing value where there is no share."""
    import pandas as pd

    answers = np.where(np.isnan(shares), -1, shares >= threshold).astype(np.int8)
    return pd.Categorical.from_codes(answers, pd.Index(["no", "yes"], dtype=object))


def choose_threshold(answer: str | None, p_yes: str | None, threshold: float | None) -> float:
    """Return the threshold for an audit; `FwcError` where columns and threshold do not fit together."""
    if answer is None and p_yes is None:
        raise FwcError("name the column of predictions with --answer, or that of probabilities with --p-yes")
    if answer is not None and threshold is not None:
        raise FwcError(
            "--threshold makes answers of --p-yes, and --answer gives the answers: leave out one of them"
        )
    if threshold is not None and not 0.0 <= threshold <= 1.0:
        raise FwcError(
            f"--threshold {threshold:g} is not from 0 to 1: answers are yes where P(yes) reaches it"
        )
    return HALF if threshold is None else threshold


def ties_line(shares: "pd.Series[float]", threshold: float) -> str:
    """Say how many rows lie just at the threshold, and how many have no P(yes); empty where none does."""
    ties, lost = int((shares == threshold).sum()), int(shares.isna().sum())
    parts = [f"{ties:,} of {len(shares):,} rows lie just at {threshold:g}; they count as yes"] * bool(ties)
    parts += [f"{lost:,} have no P(yes) and count as unparsed"] * bool(lost)
    return "; ".join(parts)


def _share(cell: str) -> float | None:
    """The share that a text writes; None for an empty one, infinity for what is none."""
    text = cell.strip()
    if not text:
        return None
    number = _number(text)
    return number if number is not None and 0.0 <= number <= 1.0 else math.inf


def _advice(cells: Sequence[str]) -> str:
    texts = [cell.strip() for cell in cells]
    if any(text.endswith("%") for text in texts):
        return "write percent as shares, 0.87 for 87 %"
    if any(_number(text.replace(",", ".", 1)) is not None and "," in text for text in texts):
        return "write a decimal point, 0.87 for 0,87"
    numbers = [number for text in texts if (number := _number(text)) is not None]
    if len(numbers) == len(texts) and numbers:
        if min(numbers) < 0.0:
            return "negative numbers may be log-odds or log-probabilities: turn them into probabilities first"
        if max(numbers) <= 100.0:
            return "if these are percent, divide them by 100"
    return "leave a cell empty where there is no probability"


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None
