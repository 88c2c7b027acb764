"""Where the spread over repeats comes from: other test rows, other examples, or another order of them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class VarianceSplit:
    """Variances of one repeat's value of a metric, by source; NaN where the run cannot tell.

    `rows`: other test rows of the same design. `examples`: another draw of the examples, what is left of the
    spread over repeats once the rows' share is taken off. `order`: another order of the same examples.
    """

    rows: float
    examples: float
    order: float

    @property
    def total(self) -> float:
        """The sum of the parts that are known."""
        return float(np.nansum([self.rows, self.examples, self.order]))


def split_variance(values: npt.ArrayLike, row_variance: float) -> VarianceSplit:
    """Return the split for values (O, R): O orders of the examples by R repeats, each with its own draw.

    `row_variance` is the variance of one repeat's value over other rows (`Shares.variance_of_questions`
    times the repeats). In one repeat all orders see the same rows and examples, so their variance is the
    order's; repeats differ in rows and examples, so the variance of their means over orders, less the rows'
    share and the order's part in that mean, is the examples' (method of moments; never below 0).
    """
    table = np.atleast_2d(np.asarray(values, float))
    orders, repeats = table.shape
    order = float(table.var(axis=0, ddof=1).mean()) if orders > 1 else np.nan
    if repeats < 2:
        return VarianceSplit(row_variance, np.nan, order)
    between = float(table.mean(axis=0).var(ddof=1))
    left = between - row_variance - (order / orders if orders > 1 else 0.0)
    return VarianceSplit(row_variance, max(0.0, left), order)
