"""Pictures that leave the page: a run's charts, strategies compared; by matplotlib (extra `plot`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.plotting import (
    COLOURS,
    FORMATS,
    MARKERS,
    SOFT,
    check_plot,
    name_lines,
    panels,
    require_matplotlib,
    save,
    short,
)
from fwc_llm.report.charts import MOST_RATES, shown_groups
from fwc_llm.report.sections import ACCURACY, GAP
from fwc_llm.runs.folder import file_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fwc_llm.report.strategies import Comparison

_RATES, _TRADEOFF = "Rate of yes per group", "Accuracy against the DP gap"
_LEGEND: Any = {"frameon": False, "fontsize": 8, "loc": "upper left", "bbox_to_anchor": (1, 1)}


def marks(simulated: bool, reference: bool) -> list[str]:
    """Return what every picture must say of its answers."""
    return ["SIMULATED: no finding about a model"] * simulated + ["REFERENCE, NO LANGUAGE MODEL"] * reference


def overview(stats: Mapping[str, Any], title: Sequence[str]) -> "Figure":
    """Return one figure of a run or audit: rates of yes per group, and accuracy against the gap if known."""
    shown = [_draw_rates, *([_draw_tradeoff] if _has_both(stats) else [])]
    lines = [*title, "95 % intervals"]
    with panels(lines, [6.0] * len(shown), max(3.5, _height_of_rates(stats))) as (figure, drawn):
        for draw, panel in zip(shown, drawn, strict=True):
            draw(stats, panel)
    return figure


def write_figures(document: Mapping[str, Any], folder: str | Path) -> list[Path]:
    """Write the pictures of every run of a document (see `make_document`) as SVG and PNG; return the files.

    The same numbers give the same bytes, with the same version of matplotlib. Raises `FwcError` without
    matplotlib, and for a folder that cannot be written to.
    """
    require_matplotlib()
    folder, written = Path(folder), list[Path]()
    labels = [file_name(str(run["label"])) for run in document["runs"]]
    for number, (run, label) in enumerate(zip(document["runs"], labels, strict=True), 1):
        prefix = "" if len(labels) == 1 else f"{label}-" if labels.count(label) == 1 else f"{number}-{label}-"
        for name, figure in _figures(run).items():
            for suffix in FORMATS:
                written.append(folder / f"{prefix}{name}{suffix}")
                save(figure, written[-1])
    return written


def _figures(run: Mapping[str, Any]) -> "dict[str, Figure]":
    stats, beside = run["statistics"], [run["label"], *marks(run["simulated"], run["reference"])]
    drawn: dict[str, Any] = {"rates": (_RATES, _draw_rates, _height_of_rates(stats))}
    if _has_both(stats):
        drawn["tradeoff"] = _TRADEOFF, _draw_tradeoff, 4.5
    if len(stats["arms"][0]["accuracy"]["per_repeat"]) > 1:
        height = 1.5 + 0.35 * len(stats["arms"])
        for metric, name in ((ACCURACY, "accuracy"), (GAP, "dp-gap")):
            title = f"{metric.title.rstrip(' %')} of each repeat, and over all"
            drawn[f"repeats-{name}"] = title, lambda s, p, m=metric: _draw_repeats(s, p, m), height
    figures = {}
    for name, (title, draw, height) in drawn.items():
        with panels([f"{title}, 95 % intervals", *beside], [6.0], height) as (figures[name], (panel,)):
            draw(stats, panel)
    return figures


def _has_both(stats: Mapping[str, Any]) -> bool:
    return any(all(arm[m.key]["value"] is not None for m in (ACCURACY, GAP)) for arm in stats["arms"])


def _height_of_rates(stats: Mapping[str, Any]) -> float:
    return 1.5 + (1 + len(stats["arms"])) * max(0.4, 0.13 * min(len(stats["groups"]), MOST_RATES))


def _draw_rates(stats: Mapping[str, Any], panel: "Axes") -> None:
    """Each arm's rate of yes per group, and the groups' true shares above."""
    shown, arms = shown_groups(stats, MOST_RATES), stats["arms"]
    groups = [group for group in stats["groups"] if group["group"] in shown]
    lines = [(arm["arm"], [arm["groups"][group["group"]] for group in groups]) for arm in arms]
    if groups[0].get("base_rate") is not None:
        true = [{"rate": group["base_rate"], "low": None} for group in groups]
        lines.insert(0, ("true share of yes", true))
    for place, (_, rates) in enumerate(lines):
        for number, (group, rate) in enumerate(zip(groups, rates, strict=True)):
            y = place + 0.5 * ((number + 0.5) / len(groups) - 0.5)
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            label = short(group["group"]) if place == 0 else None
            _point(panel, (rate, "rate", 100), y, color=colour, label=label, fmt=marker)
    all_groups = len(stats["groups"])
    left_out = f" (the {len(groups)} largest of {all_groups})" * (len(groups) < all_groups)
    panel.set(xlabel="share of yes, %", xlim=(0, 100), title=_RATES + left_out)
    name_lines(panel, [name for name, _ in lines])
    panel.legend(**_LEGEND)


def _draw_tradeoff(stats: Mapping[str, Any], panel: "Axes") -> None:
    """Accuracy against the DP gap, with the frontier of these rows and answers without a language model."""
    frontier = zip(*stats["frontier"].values(), strict=True)
    best = [(gap, 100 * accuracy) for gap, accuracy in frontier if accuracy is not None]
    panel.plot(
        *zip(*best, strict=True), "--", color=SOFT, linewidth=1, label="best that any answers can have"
    )
    lines = (stats.get("reference_lines") or {"lines": ()})["lines"]
    plain = [
        {"name": line["line"], **{m.key: line[m.key]["value"] for m in (ACCURACY, GAP)}} for line in lines
    ]
    names = dict[tuple[float, float], list[str]]()  # of equal answers together
    for row in (*stats["context"], *plain):
        if row[ACCURACY.key] is not None and row[GAP.key] is not None:
            at = round(row[GAP.key], 2), round(100 * row[ACCURACY.key], 1)
            names.setdefault(at, []).append(row["name"])
    for place, (at, equal) in enumerate(names.items()):
        letter = chr(97 + place)
        label = f"{letter}  {short(', '.join(equal), 60)}"
        panel.plot(*at, "o", color=SOFT, markerfacecolor="none", label=label)
        panel.annotate(letter, at, (4, -9), textcoords="offset points", fontsize=7, color=SOFT)
    right = [gap for gap, _ in names]
    for place, arm in enumerate(stats["arms"]):
        gap, accuracy = arm[GAP.key], arm[ACCURACY.key]
        if gap["value"] is not None and accuracy["value"] is not None:
            at = gap["value"], 100 * accuracy["value"]
            errors = _error(accuracy, "value", 100), _error(gap, "value", 1)
            colour = COLOURS[place % len(COLOURS)]
            panel.errorbar(*at, *errors, fmt="o", color=colour, label=short(arm["arm"]))
            right.append(gap["high"] or gap["value"])
    panel.set(xlabel=GAP.title, ylabel="accuracy %", title=_TRADEOFF, xlim=(-0.02, max(right) + 0.05))
    panel.legend(**_LEGEND)


def _draw_repeats(stats: Mapping[str, Any], panel: "Axes", metric: Any) -> None:
    """Each repeat's own value, an arm a line, with the value over all repeats and its interval."""
    arms = stats["arms"]
    for place, arm in enumerate(arms):
        colour = COLOURS[place % len(COLOURS)]
        own = [metric.scale * value for value in arm[metric.key]["per_repeat"] if value is not None]
        panel.plot(own, [place + 0.25] * len(own), "|", color=colour)
        _point(panel, (arm[metric.key], "value", metric.scale), place, color=colour, fmt="o")
    panel.set_xlabel(metric.title)
    name_lines(panel, [arm["arm"] for arm in arms])


def _point(panel: "Axes", value: tuple[Mapping[str, Any], str, float], y: float, **style: Any) -> None:
    """A value with its interval; `value` is an object, its key and its scale."""
    estimate, name, scale = value
    if estimate[name] is not None:
        panel.errorbar(scale * estimate[name], y, xerr=_error(estimate, name, scale), markersize=5, **style)


def _error(estimate: Mapping[str, Any], name: str, scale: float) -> list[list[float]] | None:
    if estimate["low"] is None:
        return None
    return [
        [scale * max(0.0, estimate[name] - estimate["low"])],
        [scale * max(0.0, estimate["high"] - estimate[name])],
    ]


def plot_comparison(lines: "Sequence[Comparison]", path: str | Path, title: str) -> None:
    """Write bars of distance and of parity violation, the closest strategy on top, as PNG or SVG.

    Errors: `FwcError` as `check_plot`, and when the file cannot be written.
    """
    check_plot(path)
    shown = sorted((line for line in lines if line.distance is not None), key=lambda line: line.distance or 0)
    if not shown:
        raise FwcError("there is nothing to plot: no strategy gave examples")
    colours = ["#0b6e99" if line.strategy == "fwc" else "#b8c2c8" for line in shown]
    labels = {"distance": "Wasserstein distance to the table", "violation": "largest parity violation"}
    with panels([title], [4.5, 4.5], 1.2 + 0.34 * len(shown)) as (figure, drawn):
        for panel, (attribute, label) in zip(drawn, labels.items(), strict=True):
            bars = panel.barh(range(len(shown)), [getattr(bar, attribute) for bar in shown], color=colours)
            panel.bar_label(bars, fmt="%.2f", padding=3)
            panel.set_xlabel(label)
            panel.margins(x=0.15)
            name_lines(panel, [line.strategy for line in shown])
    save(figure, Path(path), 150)
