"""Charts of runs and strategies as files, by matplotlib (extra `plot`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.errors import FwcError
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
from fwc_llm.report.sections import ACCURACY, GAP
from fwc_llm.runs.folder import file_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fwc_llm.report.strategies import StrategyComparison

_RATES = "Rate of yes per group"
_TRADEOFF = "Accuracy against the DP gap"
_MOST_GROUPS = 100  # most groups in a chart of rates
_LEGEND: Any = {"frameon": False, "fontsize": 8, "loc": "upper left", "bbox_to_anchor": (1, 1)}


def marks(simulated: bool, reference: bool) -> list[str]:
    """The marks that every figure needs: simulated, reference."""
    return ["SIMULATED: no finding about a model"] * simulated + [
        "REFERENCE, NO LANGUAGE MODEL"
    ] * reference


def overview(stats: Mapping[str, Any], title: Sequence[str]) -> "Figure":
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


def _pictures(stats: Mapping[str, Any]) -> dict[str, tuple[str, Any, float]]:
    """(title, drawing function, height in inches) of each chart, by name."""
    drawn: dict[str, tuple[str, Any, float]] = {
        "rates": (_RATES, _draw_rates, _height_of_rates(stats))
    }
    if any(all(arm[m.key]["value"] is not None for m in (ACCURACY, GAP)) for arm in stats["arms"]):
        drawn["tradeoff"] = _TRADEOFF, _draw_tradeoff, 4.5
    return drawn


def _height_of_rates(stats: Mapping[str, Any]) -> float:
    return 1.5 + (1 + len(stats["arms"])) * max(0.4, 0.13 * min(len(stats["groups"]), _MOST_GROUPS))


def _draw_rates(stats: Mapping[str, Any], panel: "Axes") -> None:
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
            if rate["rate"] is not None:
                style: Any = {"color": colour, "label": label, "fmt": marker, "markersize": 5}
                panel.errorbar(100 * rate["rate"], y, xerr=_error(rate, "rate", 100), **style)
    all_groups = len(stats["groups"])
    left_out = f" (the {len(groups)} largest of {all_groups})" * (len(groups) < all_groups)
    panel.set(xlabel="share of yes, %", xlim=(0, 100), title=_RATES + left_out)
    name_lines(panel, list(lines))
    panel.legend(**_LEGEND)


def _draw_tradeoff(stats: Mapping[str, Any], panel: "Axes") -> None:
    """Draw accuracy against DP gap, also of answers without a language model."""
    names = dict[tuple[float, float], list[str]]()  # names at the same point
    for row in _without_model(stats):
        names.setdefault((round(row[GAP.key], 2), round(100 * row[ACCURACY.key], 1)), []).append(
            row["name"]
        )
    for place, (at, equal) in enumerate(names.items()):
        letter = chr(97 + place)
        label = f"{letter}  {short(', '.join(equal), 60)}"
        panel.plot(*at, "o", color=SOFT, markerfacecolor="none", label=label)
        panel.annotate(letter, at, (4, -9), textcoords="offset points", fontsize=7, color=SOFT)
    right = [gap for gap, _ in names]
    for place, arm in enumerate(stats["arms"]):
        gap = arm[GAP.key]
        accuracy = arm[ACCURACY.key]
        if gap["value"] is not None and accuracy["value"] is not None:
            at = gap["value"], 100 * accuracy["value"]
            errors = _error(accuracy, "value", 100), _error(gap, "value", 1)
            colour = COLOURS[place % len(COLOURS)]
            panel.errorbar(*at, *errors, fmt="o", color=colour, label=short(arm["arm"]))
            right.append(gap["high"] or gap["value"])
    panel.set(
        xlabel=GAP.title, ylabel="accuracy %", title=_TRADEOFF, xlim=(-0.02, max(right) + 0.05)
    )
    panel.legend(**_LEGEND)


def _error(estimate: Mapping[str, Any], name: str, scale: float) -> Any:
    """Distances (2, 1) from the value to the ends of its interval, or None."""
    if estimate["low"] is None:
        return None
    value = estimate[name]
    return scale * np.maximum([[value - estimate["low"]], [estimate["high"] - value]], 0.0)


def _without_model(stats: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Answers without a language model: `name`, accuracy and DP gap."""
    lines = (stats.get("reference_lines") or {"lines": ()})["lines"]
    keys = ACCURACY.key, GAP.key
    plain = ({"name": line["line"], **{key: line[key]["value"] for key in keys}} for line in lines)
    return [
        row for row in (*stats["context"], *plain) if None not in (row[GAP.key], row[ACCURACY.key])
    ]


def _rates_of(stats: Mapping[str, Any]) -> tuple[list[str], dict[str, list[Mapping[str, Any]]]]:
    """The groups of a chart, and their rates by row: true shares, then arms."""
    by_size = sorted(stats["groups"], key=lambda group: -group["n"])
    largest = {group["group"] for group in by_size[:_MOST_GROUPS]}
    groups = [group["group"] for group in stats["groups"] if group["group"] in largest]
    base = {group["group"]: {"rate": group["base_rate"], "low": None} for group in stats["groups"]}
    if stats["labelled"]:
        lines = {"true share of yes": base}
    else:
        lines = {}
    lines |= {arm["arm"]: arm["groups"] for arm in stats["arms"]}
    return groups, {name: [rates[group] for group in groups] for name, rates in lines.items()}


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
