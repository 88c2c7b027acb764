"""A fitted coreset in a notebook: the certificate, and the cells with their weight."""

from typing import Any

import numpy as np

from fwc_llm.notebook import bar, figure, note, table


def draw_coreset(fitted: Any) -> str:
    """Return the HTML of a fitted `FairCoreset`: its certificate, and its cells with their weight."""
    facts = [
        f"objective {fitted.objective_:.6g}",
        f"lower bound {fitted.lower_bound_:.6g}",
        f"violation {fitted.violation_:.4g}",
        f"{fitted.n_iter_} iterations",
        f"{fitted.n_agreeing_} of {fitted.n_starts_} starts end here",
    ]
    alike = np.full(fitted.m, "all")
    levels = alike if fitted.sensitive_ is None else np.asarray(fitted.sensitive_)
    outcomes = alike if fitted.y_ is None else fitted.y_
    names = [" & ".join(map(str, np.atleast_1d(level))) for level in levels.tolist()]
    cells: dict[tuple[str, str], list[float]] = {}
    for name, outcome, weight in zip(names, outcomes, fitted.weights_.tolist(), strict=True):
        cells.setdefault((name, str(outcome)), []).append(weight)
    rows = []
    for (name, outcome), weights in sorted(cells.items()):
        share = sum(weights) / fitted.m
        rows.append([name, outcome, f"{len(weights):,}", bar(share, f"{share:.1%}")])
    history = np.asarray(fitted.history_).tolist()
    return figure(
        repr(fitted),
        note(" · ".join(facts)),
        table(("level", "outcome", "representatives", "share of the weight"), rows),
        note(f"objective from {history[0]:.6g} to {history[-1]:.6g}") if len(history) > 1 else note(""),
    )
