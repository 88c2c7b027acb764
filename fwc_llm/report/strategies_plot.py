"""The comparison of strategies as a picture (needs the extra `[plot]`)."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from fwc_llm.errors import FwcError
from fwc_llm.report.strategies import Comparison

FORMATS = (".png", ".svg")
_OURS, _RIVAL = "#0b6e99", "#b8c2c8"


def check_plot(path: str | Path) -> None:
    """Find out before the work whether it can be drawn. Errors: `FwcError` as `plot_comparison`."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise FwcError(f"cannot plot to {path}: give a name that ends in {' or '.join(FORMATS)}")
    try:
        import_module("matplotlib.figure")
    except ImportError:
        raise FwcError("plots need matplotlib: pip install 'fwc-llm[plot]'") from None


def plot_comparison(lines: Sequence[Comparison], path: str | Path, title: str) -> None:
    """Bars of distance and of parity violation, the closest strategy on top, written as PNG or SVG.

    Errors: `FwcError` for another suffix, without matplotlib, and when the file cannot be written.
    """
    check_plot(path)
    from matplotlib.figure import Figure

    path = Path(path)
    shown = sorted(
        (line for line in lines if line.distance is not None), key=lambda line: -(line.distance or 0.0)
    )
    if not shown:
        raise FwcError("there is nothing to plot: no strategy gave examples")
    figure = Figure(figsize=(9, 1.2 + 0.34 * len(shown)), layout="constrained")
    figure.suptitle(title)
    panels = figure.subplots(1, 2, sharey=True)
    colours = [_OURS if line.strategy == "fwc" else _RIVAL for line in shown]
    for panel, attribute, label in (
        (panels[0], "distance", "Wasserstein distance to the table"),
        (panels[1], "violation", "largest parity violation"),
    ):
        values = [getattr(line, attribute) for line in shown]
        bars = panel.barh([line.strategy for line in shown], values, color=colours)
        panel.bar_label(bars, fmt="%.2f", padding=3)
        panel.set_xlabel(label)
        panel.spines[["top", "right"]].set_visible(False)
        panel.margins(x=0.15)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    except OSError as error:
        raise FwcError(f"cannot write the plot to {path}: {error.strerror or error}") from None
