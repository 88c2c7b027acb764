"""What the parts of a table that is cleaned part by part tell of the whole."""

from collections import Counter
from dataclasses import dataclass, field

from fwc_llm.data.lost import RowCount


@dataclass
class Seen:
    """Counts over the parts so far, for the checks that need all rows.

    `outcomes` are the cells of the outcome column, `answers` what they mean; `levels` the protected levels by
    attribute; `whole` says of every numeric column whether all of its numbers are whole; `filled` counts the
    missing values by column that became a category.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    levels: dict[str, Counter[str]] = field(default_factory=dict)
    whole: dict[str, bool] = field(default_factory=dict)
    filled: Counter[str] = field(default_factory=Counter)
    rows: list[RowCount] = field(default_factory=list)
