"""The price of parity: coresets along a path of parity limits."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from fwc_llm.coreset.checks import check_epsilon
from fwc_llm.coreset.estimator import FairCoreset
from fwc_llm.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class FairPath:
    """Fitted coresets of one table, from the narrowest parity limit to the widest; None is the widest."""

    models: tuple[FairCoreset, ...]

    def to_frame(self) -> pd.DataFrame:
        """A row a limit: epsilon (NaN for None), objective, lower_bound, violation, and the price.

        The price is by what share the objective is above that of the widest limit.
        """
        names = ("epsilon", "objective_", "lower_bound_", "violation_")
        rows = [[getattr(model, name) for name in names] for model in self.models]
        frame = pd.DataFrame(rows, columns=[name.rstrip("_") for name in names]).astype(float)
        return frame.assign(price=frame.objective / frame.objective.iloc[-1] - 1)

    def plot(self) -> "Figure":
        """Draw the objective against the limit. Raises `FwcError` without matplotlib (extra `plot`)."""
        from fwc_llm.plotting import COLOURS, SOFT, panels

        frame = self.to_frame()
        title = f"{self.models[0].m} representatives: the price of parity"
        with panels([title], [5.0], 3.0) as (figure, (axes,)):
            axes.plot(frame.epsilon, frame.objective, "o-", color=COLOURS[0])
            if frame.epsilon.isna().any():
                axes.axhline(frame.objective.iloc[-1], color=SOFT, linestyle="--", label="no limit")
                axes.legend(frameon=False)
            axes.set(xlabel="parity limit ε", ylabel="objective")
        return figure

    def __repr__(self) -> str:
        ends = " to ".join(str(self.models[place].epsilon) for place in (0, -1))
        return f"<FairPath of {len(self.models)} coresets, epsilon from {ends}>"


def fair_path(
    X: Any,
    y: Any,
    sensitive: Any,
    epsilons: Iterable[float | None],
    *,
    sample_weight: Any = None,
    **options: Any,
) -> FairPath:
    """Fit a coreset for each parity limit, each from where its neighbours ended.

    The limits are passed from the widest to the narrowest, and back: so a wider limit never has a higher
    objective. Every coreset has the certificate of `FairCoreset.fit`.

    Args:
        X, y, sensitive, sample_weight: as in `FairCoreset.fit`.
        epsilons: the limits, in any order; None for none.
        options: of `FairCoreset`, such as m=16 and random_state=0; support "free" or "rows".

    Raises:
        InputError: no limit, bad input, or support="features", whose rows do not say their cells.
    """
    limits = sorted(set(epsilons), key=lambda limit: np.inf if limit is None else limit, reverse=True)
    if not limits:
        raise InputError("epsilons is empty: give at least one limit")
    for limit in limits:
        check_epsilon(limit)
    first = FairCoreset(**{"m": 16, **options, "epsilon": limits[0]})
    if first.support == "features":
        raise InputError("support='features' cannot start from other coresets: use 'free' or 'rows'")
    models = [first.fit(X, y, sensitive, sample_weight=sample_weight)]

    def from_neighbour(neighbour: FairCoreset, limit: float | None) -> FairCoreset:
        start = neighbour.representatives_ if first.support == "free" else neighbour.row_index_
        model: FairCoreset = clone(first).set_params(epsilon=limit, init=start)
        return model.fit(X, y, sensitive, sample_weight=sample_weight)

    for limit in limits[1:]:
        models.append(from_neighbour(models[-1], limit))
    for place in reversed(range(len(models) - 1)):
        again = from_neighbour(models[place + 1], limits[place])
        models[place] = min(again, models[place], key=lambda model: model.objective_)
    return FairPath(tuple(reversed(models)))
