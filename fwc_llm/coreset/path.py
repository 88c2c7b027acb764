"""The price of parity: coresets along a path of parity limits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from fwc_llm.coreset.checks import check_epsilon, check_penalty
from fwc_llm.coreset.estimator import FairCoreset
from fwc_llm.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class FairPath:
    """Fitted coresets of one table, from the narrowest parity limit to the widest.

    No limit (None) is the widest. Penalties run from the largest to the smallest.
    """

    models: tuple[FairCoreset, ...]

    @property
    def _parameter(self) -> str:
        return "epsilon" if all(model.penalty is None for model in self.models) else "penalty"

    def to_frame(self) -> pd.DataFrame:
        """Return a row per limit: epsilon or penalty, objective, lower_bound, violation, price.

        The price is the relative excess of the objective over the objective at the widest limit.
        An epsilon of None is NaN.
        """
        names = (self._parameter, "objective_", "lower_bound_", "violation_")
        rows = [[getattr(model, name) for name in names] for model in self.models]
        frame = pd.DataFrame(rows, columns=[name.rstrip("_") for name in names]).infer_objects()
        return frame.assign(price=frame.objective / frame.objective.iloc[-1] - 1)

    def plot(self) -> "Figure":
        """Draw the objective against the limit. Raises `FwcError` without matplotlib (extra `plot`)."""
        from fwc_llm.plotting import COLOURS, SOFT, panels

        frame = self.to_frame()
        title = f"{self.models[0].m} representatives: the price of parity"
        with panels([title], [5.0], 3.0) as (figure, (axes,)):
            name = self._parameter
            limits = [_by_level(getattr(model, name)).mean() for model in self.models]
            axes.plot(limits, frame.objective, "o-", color=COLOURS[0])
            if np.isinf(limits).any():
                axes.axhline(frame.objective.iloc[-1], color=SOFT, linestyle="--", label="no limit")
                axes.legend(frameon=False)
            label = "penalty" if name == "penalty" else "parity limit ε (mean of the levels)"
            axes.set(xlabel=label, ylabel="objective")
        return figure

    def __repr__(self) -> str:
        ends = " to ".join(str(getattr(self.models[place], self._parameter)) for place in (0, -1))
        return f"<FairPath of {len(self.models)} coresets, {self._parameter} from {ends}>"


def fair_path(
    X: Any,
    y: Any,
    sensitive: Any,
    epsilons: Iterable[float | Mapping[Any, float] | None] = (),
    *,
    penalties: Iterable[float] = (),
    sample_weight: Any = None,
    **options: Any,
) -> FairPath:
    """Fit a coreset for each parity limit, starting from the results of its neighbours.

    The limits are fitted from the widest to the narrowest and back, so that a wider limit never has a higher
    objective. Every coreset has the certificate of `FairCoreset.fit`.

    Args:
        X, y, sensitive, sample_weight: as in `FairCoreset.fit`.
        epsilons: the limits, in any order: numbers, {level: number}, and None for no limit.
        penalties: soft limits, instead of epsilons.
        options: options of `FairCoreset`, such as m=16 and random_state=0; support is "free" or "rows".

    Raises:
        InputError: neither epsilons nor penalties, or both; bad input; or support="features".
    """
    limits, soft = list(epsilons), list(penalties)
    if bool(limits) == bool(soft):
        raise InputError("give at least one limit, as epsilons or as penalties")
    for limit in limits:
        check_epsilon(limit)
    for penalty in soft:
        check_penalty(penalty, None)
    settings = [{"epsilon": limit, "penalty": options.get("penalty")} for limit in limits]
    settings += [{"epsilon": None, "penalty": penalty} for penalty in soft]
    settings = [one for k, one in enumerate(settings) if one not in settings[:k]]
    settings.sort(key=lambda one: float(_widths(one).mean()), reverse=True)
    first = FairCoreset(**{"m": 16, **options, **settings[0]})
    if first.support == "features":
        raise InputError("support='features' cannot start from other coresets: use 'free' or 'rows'")
    models = [first.fit(X, y, sensitive, sample_weight=sample_weight)]

    def from_neighbour(neighbour: FairCoreset, setting: dict[str, Any]) -> FairCoreset:
        start = neighbour.representatives_ if first.support == "free" else neighbour.row_index_
        model: FairCoreset = clone(first).set_params(**setting, init=start)
        return model.fit(X, y, sensitive, sample_weight=sample_weight)

    for setting in settings[1:]:
        models.append(from_neighbour(models[-1], setting))
    for place in reversed(range(len(models) - 1)):
        wide, later = _widths(settings[place]), range(place + 1, len(models))
        narrower = [k for k in later if (_widths(settings[k]) <= wide).all()]
        if narrower:  # of two {level: limit}, neither need be the narrower one
            best = min(narrower, key=lambda k: models[k].objective_)
            again = from_neighbour(models[best], settings[place])
            models[place] = min(again, models[place], key=lambda model: model.objective_)
    return FairPath(tuple(reversed(models)))


def _by_level(limit: Any) -> np.ndarray:
    """The limits (|D|,) of the levels, sorted by name, or (1,) of all levels; None becomes infinity."""
    if isinstance(limit, Mapping):
        return np.array([limit[level] for level in sorted(limit, key=str)], np.float64)
    return np.array([np.inf if limit is None else limit], np.float64)


def _widths(setting: dict[str, Any]) -> np.ndarray:
    """Widths (|D|,) or (1,) of a limit or a penalty: the larger a penalty, the narrower."""
    penalty = setting["penalty"]
    return _by_level(setting["epsilon"]) if penalty is None else -_by_level(penalty)
