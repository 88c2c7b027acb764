"""Charts of runs and strategies as files, by matplotlib (extra `plot`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.metrics.counts import BY_KEY
from fwc_llm.metrics.records import TRUTH, Record
from fwc_llm.metrics.statistics import Statistics
from fwc_llm.plotting import (
    COLOURS,
    FORMATS,
    MARKERS,
    SOFT,
    check_plot,
    name_lines,
    panels,
    save,
    short,
)
from fwc_llm.runs.folder import file_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fwc_llm.report.strategies import StrategyComparison

_RATES = "Rate of yes per group"
_TRADEOFF = "Accuracy against the gap"
_MOST_GROUPS = 100  # most groups in a chart of rates
_LEGEND: Any = {"frameon": False, "fontsize": 8, "loc": "upper left", "bbox_to_anchor": (1, 1)}


def marks(simulated: bool, reference: bool) -> list[str]:
    """The marks that every figure needs: simulated, reference."""
    return ["SIMULATED: no finding about a model"] * simulated + [
        "REFERENCE, NO LANGUAGE MODEL"
    ] * reference


def overview(stats: Statistics, title: Sequence[str]) -> "Figure":
    """One figure with rates of yes by group and, with labels, accuracy against gap."""
    drawings = [draw for _, draw, _ in _pictures(stats).values()]
    lines = [*title, "95 % intervals"]
    with panels(lines, [6.0] * len(drawings), max(3.5, _height_of_rates(stats))) as (figure, drawn):
        for draw, panel in zip(drawings, drawn, strict=True):
            draw(stats, panel)
    return figure


def write_figures(document: Mapping[str, Any], folder: str | Path) -> list[Path]:
    """Write the charts of a document's runs as SVG and PNG; return their paths."""
    folder = Path(folder)
    written = list[Path]()
    labels = [file_name(str(run["label"])) for run in document["runs"]]
    for number, (run, label) in enumerate(zip(document["runs"], labels, strict=True), 1):
        prefix = (
            ""
            if len(labels) == 1
            else f"{label}-"
            if labels.count(label) == 1
            else f"{number}-{label}-"
        )
        beside = [run["label"], *marks(run["simulated"], run["reference"])]
        for name, (title, draw, height) in _pictures(run["statistics"]).items():
            with panels([f"{title}, 95 % intervals", *beside], [6.0], height) as (figure, (panel,)):
                draw(run["statistics"], panel)
            for suffix in FORMATS:
                written.append(folder / f"{prefix}{name}{suffix}")
                save(figure, written[-1])
    return written


def _pictures(stats: Statistics) -> dict[str, tuple[str, Any, float]]:
    """(title, drawing function, height in inches) of each chart, by name."""
    drawn: dict[str, tuple[str, Any, float]] = {
        "rates": (_RATES, _draw_rates, _height_of_rates(stats))
    }
    if any(_point(stats, arm.arm) for arm in stats.arms):
        drawn["tradeoff"] = _TRADEOFF, _draw_tradeoff, 4.5
    return drawn


def _height_of_rates(stats: Statistics) -> float:
    groups = min(len(stats.groups), _MOST_GROUPS)
    return 1.5 + (1 + len(stats.arms)) * max(0.4, 0.13 * groups)


def _draw_rates(stats: Statistics, panel: "Axes") -> None:
    """Draw each arm's rate of yes by group, and the true shares in the top row."""
    groups, lines = _rates_of(stats)
    for place, rates in enumerate(lines.values()):
        for number, (group, rate) in enumerate(zip(groups, rates, strict=True)):
            y = place + 0.5 * ((number + 0.5) / len(groups) - 0.5)
            colour = COLOURS[number % len(COLOURS)]
            marker = MARKERS[number % len(MARKERS)]
            if place == 0:
                label = short(group)
            else:
                label = None
            if rate.known:
                style: Any = {"color": colour, "label": label, "fmt": marker, "markersize": 5}
                panel.errorbar(100 * rate.value, y, xerr=_error(rate, 100), **style)
    all_groups = len(stats.groups)
    left_out = f" (the {len(groups)} largest of {all_groups})" * (len(groups) < all_groups)
    panel.set(xlabel="share of yes, %", xlim=(0, 100), title=_RATES + left_out)
    name_lines(panel, list(lines))
    panel.legend(**_LEGEND)


def _point(stats: Statistics, arm: str) -> tuple[Record, Record] | None:
    """The leading gap and the accuracy of an arm, or of answers without a model; None if unknown."""
    gap = stats.of(stats.lead, arm)
    accuracy = stats.of("accuracy", arm)
    return (gap, accuracy) if gap.known and accuracy.known else None


def _draw_tradeoff(stats: Statistics, panel: "Axes") -> None:
    """Draw accuracy against the leading gap, also of answers without a language model."""
    names = dict[tuple[float, float], list[str]]()  # names at the same point
    lines = stats.references.names if stats.references else ()
    for name in (TRUTH, *lines):
        point = _point(stats, name)
        if point:
            at = round(point[0].value, 2), round(100 * point[1].value, 1)
            names.setdefault(at, []).append(name)
    for place, (at, equal) in enumerate(names.items()):
        letter = chr(97 + place)
        label = f"{letter}  {short(', '.join(equal), 60)}"
        panel.plot(*at, "o", color=SOFT, markerfacecolor="none", label=label)
        panel.annotate(letter, at, (4, -9), textcoords="offset points", fontsize=7, color=SOFT)
    right = [gap for gap, _ in names]
    for place, arm in enumerate(stats.arms):
        point = _point(stats, arm.arm)
        if point:
            gap, accuracy = point
            errors = _error(accuracy, 100), _error(gap, 1)
            style: Any = {"color": COLOURS[place % len(COLOURS)], "label": short(arm.arm)}
            panel.errorbar(gap.value, 100 * accuracy.value, *errors, fmt="o", **style)
            right.append(gap.high if gap.high == gap.high else gap.value)
    title = BY_KEY[stats.lead].title
    panel.set(xlabel=title, ylabel="accuracy %", title=_TRADEOFF, xlim=(-0.02, max(right) + 0.05))
    panel.legend(**_LEGEND)


def _error(record: Record, scale: float) -> Any:
    """Distances (2, 1) from the value to the ends of its interval, or None."""
    if record.low != record.low:
        return None
    ends = [[record.value - record.low], [record.high - record.value]]
    return scale * np.maximum(ends, 0.0)


def _rates_of(stats: Statistics) -> tuple[list[str], dict[str, list[Record]]]:
    """The groups of a chart, and their rates by row: true shares, then arms."""
    by_size = sorted(stats.groups, key=lambda group: -group.n)
    largest = {group.group for group in by_size[:_MOST_GROUPS]}
    groups = [group.group for group in stats.groups if group.group in largest]
    lines = {"true share of yes": TRUTH} if stats.labelled else {}
    lines |= {arm.arm: arm.arm for arm in stats.arms}
    rates = {
        name: [stats.of("selection_rate", arm, group) for group in groups]
        for name, arm in lines.items()
    }
    return groups, rates


def plot_comparison(lines: "Sequence[StrategyComparison]", path: str | Path, title: str) -> None:
    """Write bar charts of distance and parity violation, closest strategy on top."""
    check_plot(path)
    shown = sorted(
        (line for line in lines if line.distance is not None), key=lambda line: line.distance or 0
    )
    if not shown:
        raise FwcError("there is nothing to plot: no strategy gave examples")
    colours = ["#0b6e99" if line.strategy == "fwc" else "#b8c2c8" for line in shown]
    labels = {
        "distance": "Wasserstein distance to the table",
        "violation": "largest parity violation",
    }
    with panels([title], [4.5, 4.5], 1.2 + 0.34 * len(shown)) as (figure, drawn):
        for panel, (attribute, label) in zip(drawn, labels.items(), strict=True):
            bars = panel.barh(
                range(len(shown)), [getattr(bar, attribute) for bar in shown], color=colours
            )
            panel.bar_label(bars, fmt="%.2f", padding=3)
            panel.set_xlabel(label)
            panel.margins(x=0.15)
            name_lines(panel, [line.strategy for line in shown])
    save(figure, Path(path), 150)
