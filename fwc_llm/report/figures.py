"""Pictures that leave the page, by matplotlib (extra `plot`): a run's charts, strategies compared."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.files import reason
from fwc_llm.notebook import visible
from fwc_llm.runs.folder import file_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fwc_llm.report.strategies import Comparison

FORMATS = (".png", ".svg")
NEEDS_MATPLOTLIB = "figures need matplotlib: pip install 'fwc-llm[plot]'"
_GAP = "demographic_parity_difference"
_SOFT = "#8a8780"
_COLOURS = (
    *("#a45a00", "#00766b", "#6d45b5", "#bb2f3a", "#1c64d1"),
    *("#5f6d00", "#a31560", "#0e7490", "#7c4a21", "#55606f"),
)
_MARKERS, _LONGEST = "oDs^", 30
_STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "text.parse_math": False,
    "svg.hashsalt": "fwc-llm",
    "font.size": 9,
}


def write_figures(document: Mapping[str, Any], folder: str | Path) -> list[Path]:
    """Write the pictures of every run of a document (see `make_document`) as SVG and PNG; return the files.

    The same numbers give the same bytes, with the same version of matplotlib. Raises `FwcError` without
    matplotlib, and for a folder that cannot be written to.
    """
    _require_matplotlib()
    from matplotlib import rc_context

    folder, written = Path(folder), list[Path]()
    labels = [file_name(str(run["label"])) for run in document["runs"]]
    for number, (run, label) in enumerate(zip(document["runs"], labels, strict=True), 1):
        prefix = "" if len(labels) == 1 else f"{label}-" if labels.count(label) == 1 else f"{number}-{label}-"
        with rc_context(_STYLE):
            for name, figure in _figures(run):
                for suffix in FORMATS:
                    written.append(folder / f"{prefix}{name}{suffix}")
                    _save(figure, written[-1], 200)
    return written


def _figures(run: Mapping[str, Any]) -> Iterator[tuple[str, "Figure"]]:
    stats = run["statistics"]
    yield "rates", _rates(run)
    if any(arm["accuracy"]["value"] is not None and arm[_GAP]["value"] is not None for arm in stats["arms"]):
        yield "tradeoff", _tradeoff(run)
    if len(stats["arms"][0]["accuracy"]["per_repeat"]) > 1:
        yield "repeats-accuracy", _repeats(run, "accuracy", "Accuracy", 100)
        yield "repeats-dp-gap", _repeats(run, _GAP, "DP gap", 1)


def _panel(run: Mapping[str, Any], title: str, height: float) -> "tuple[Figure, Axes]":
    """A figure with the run's name, and whether it is simulated, above its one panel."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, height), layout="constrained")
    lines = [title, _shown(run["label"])]
    lines += ["SIMULATED: no finding about a model"] * bool(run["simulated"])
    lines += ["REFERENCE, NO LANGUAGE MODEL"] * bool(run["reference"])
    figure.suptitle("\n".join(lines), fontsize=10)
    panel = figure.subplots()
    panel.spines[["top", "right"]].set_visible(False)
    return figure, panel


def _rates(run: Mapping[str, Any]) -> "Figure":
    """Each arm's rate of yes per group with intervals, and the groups' true shares above."""
    stats = run["statistics"]
    groups, arms = stats["groups"], stats["arms"]
    lines = [("true share of yes", [{"rate": group["base_rate"], "low": None} for group in groups])]
    lines += [(arm["arm"], [arm["groups"][group["group"]] for group in groups]) for arm in arms]
    figure, panel = _panel(run, "Rate of yes per group, with 95 % intervals", 1.5 + 0.4 * len(lines))
    for place, (_, rates) in enumerate(lines):
        for number, (group, one) in enumerate(zip(groups, rates, strict=True)):
            y = place + 0.5 * ((number + 0.5) / len(groups) - 0.5)
            colour = _COLOURS[number % len(_COLOURS)]
            label = _shown(group["group"]) if place == 0 else None
            _point(panel, (one, "rate", 100), y, colour, label, _MARKERS[number % len(_MARKERS)])
    panel.set(xlabel="share of yes, %", xlim=(0, 100))
    _name_lines(panel, [name for name, _ in lines])
    panel.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _tradeoff(run: Mapping[str, Any]) -> "Figure":
    """Accuracy against the DP gap, with the frontier of these rows and answers without a language model."""
    stats = run["statistics"]
    figure, panel = _panel(run, "Accuracy against the DP gap, with 95 % intervals", 4.5)
    best = [(gap, 100 * a) for gap, a in zip(*stats["frontier"].values(), strict=True) if a is not None]
    panel.plot(
        *zip(*best, strict=True), "--", color=_SOFT, linewidth=1, label="best that any answers can have"
    )
    lines = (stats.get("reference_lines") or {"lines": ()})["lines"]
    plain = [{"name": one["line"], **{m: one[m]["value"] for m in ("accuracy", _GAP)}} for one in lines]
    for row in (*stats["context"], *plain):
        if row["accuracy"] is not None and row[_GAP] is not None:
            panel.plot(row[_GAP], 100 * row["accuracy"], "o", color=_SOFT, markerfacecolor="none")
            panel.annotate(
                _shown(row["name"]), (row[_GAP], 100 * row["accuracy"]), (4, -9), textcoords="offset points",
                fontsize=7, color=_SOFT,
            )  # fmt: skip
    for place, arm in enumerate(stats["arms"]):
        gap, accuracy = arm[_GAP], arm["accuracy"]
        if gap["value"] is not None and accuracy["value"] is not None:
            at = gap["value"], 100 * accuracy["value"]
            errors = _error(accuracy, "value", 100), _error(gap, "value", 1)
            colour = _COLOURS[place % len(_COLOURS)]
            panel.errorbar(*at, *errors, fmt="o", color=colour, label=_shown(arm["arm"]))
    panel.set(xlabel="DP gap", ylabel="accuracy %")
    panel.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _repeats(run: Mapping[str, Any], metric: str, name: str, scale: float) -> "Figure":
    """Each repeat's own value, an arm a line, with the value over all repeats and its interval."""
    arms = run["statistics"]["arms"]
    figure, panel = _panel(
        run, f"{name} of each repeat, and over all with 95 % intervals", 1.5 + 0.35 * len(arms)
    )
    for place, arm in enumerate(arms):
        colour = _COLOURS[place % len(_COLOURS)]
        own = [scale * value for value in arm[metric]["per_repeat"] if value is not None]
        panel.plot(own, [place + 0.25] * len(own), "|", color=colour)
        _point(panel, (arm[metric], "value", scale), place, colour)
    panel.set_xlabel(f"{name.lower()} %" if scale > 1 else name)
    _name_lines(panel, [arm["arm"] for arm in arms])
    return figure


def _point(
    panel: "Axes",
    value: tuple[Mapping[str, Any], str, float],
    y: float,
    colour: str,
    label: str | None = None,
    marker: str = "o",
) -> None:
    """A value with its interval; `value` is an object, its key and its scale."""
    one, name, scale = value
    if one[name] is not None:
        error = _error(one, name, scale)
        panel.errorbar(scale * one[name], y, xerr=error, fmt=marker, color=colour, label=label, markersize=5)


def _error(one: Mapping[str, Any], name: str, scale: float) -> list[list[float]] | None:
    if one["low"] is None:
        return None
    return [[scale * max(0.0, one[name] - one["low"])], [scale * max(0.0, one["high"] - one[name])]]


def _name_lines(panel: "Axes", names: Sequence[str]) -> None:
    panel.set_yticks(range(len(names)), [_shown(name) for name in names])
    panel.invert_yaxis()


def check_plot(path: str | Path) -> None:
    """Raise `FwcError` before the work for a plot that cannot be drawn: another suffix, or no matplotlib."""
    if Path(path).suffix.lower() not in FORMATS:
        raise FwcError(f"cannot plot to {path}: give a name that ends in {' or '.join(FORMATS)}")
    _require_matplotlib()


def _require_matplotlib() -> None:
    try:
        for name in ("matplotlib", "matplotlib.figure"):
            import_module(name)
    except ImportError:
        raise FwcError(NEEDS_MATPLOTLIB) from None


def _shown(name: Any) -> str:
    text = visible(str(name))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def plot_comparison(lines: "Sequence[Comparison]", path: str | Path, title: str) -> None:
    """Write bars of distance and of parity violation, the closest strategy on top, as PNG or SVG.

    Errors: `FwcError` as `check_plot`, and when the file cannot be written.
    """
    check_plot(path)
    from matplotlib.figure import Figure

    shown = sorted(
        (line for line in lines if line.distance is not None), key=lambda line: -(line.distance or 0.0)
    )
    if not shown:
        raise FwcError("there is nothing to plot: no strategy gave examples")
    figure = Figure(figsize=(9, 1.2 + 0.34 * len(shown)), layout="constrained")
    figure.suptitle(title)
    panels = figure.subplots(1, 2, sharey=True)
    colours = ["#0b6e99" if line.strategy == "fwc" else "#b8c2c8" for line in shown]
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
    _save(figure, Path(path), 150)


def _save(figure: "Figure", path: Path, dpi: int) -> None:
    """Write a figure whole or not at all, without a date, so that the same numbers give the same bytes."""
    partial = path.with_name(f"{path.stem}.partial{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        figure.savefig(partial, dpi=dpi, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        partial.replace(path)
    except OSError as error:
        raise FwcError(f"cannot write {path}: {reason(error)}") from None
