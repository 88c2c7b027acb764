"""Charts of runs as files, by matplotlib (extra `plot`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.gates.sentences import in_words
from fwc_llm.metrics.records import TRUTH, Record
from fwc_llm.metrics.statistics import Statistics
from fwc_llm.number_format import percent
from fwc_llm.plotting import COLOURS, MARKERS, SOFT, name_lines, panels, save, short
from fwc_llm.runs.folder import file_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_COLUMN = 3.5  # inches: a journal's column
_MOST_GROUPS = 10  # most groups in a figure
_LONGEST = 20  # characters of a name
_LEGEND: Any = {
    "frameon": False,
    "fontsize": 7,
    "loc": "outside lower center",
    "ncols": 2,
}


def marks(simulated: bool, reference: bool) -> list[str]:
    """The marks that every figure needs: simulated, reference."""
    return ["SIMULATED: no finding about a model"] * simulated + [
        "REFERENCE, NO LANGUAGE MODEL"
    ] * reference


def overview(stats: Statistics, title: Sequence[str]) -> "Figure":
    """Who gets how much: a line for each arm, with each group's rate of yes and true answers."""
    height = (
        1.5 + 0.4 * (len(stats.arms) + 1) + 0.08 * min(len(stats.groups), _MOST_GROUPS)
    )
    with panels([*title], [_COLUMN], height) as (figure, (panel,)):
        _draw(stats, panel)
    return figure


def write_figures(document: Mapping[str, Any], folder: str | Path) -> list[Path]:
    """Write the figure of each of a document's runs as SVG and PDF; return their paths."""
    folder = Path(folder)
    written = list[Path]()
    labels = [file_name(str(run["label"])) for run in document["runs"]]
    for number, (run, label) in enumerate(
        zip(document["runs"], labels, strict=True), 1
    ):
        prefix = "" if len(labels) == 1 else f"{label}-"
        if labels.count(label) > 1:
            prefix = f"{number}-{label}-"
        title = [run["label"], *marks(run["simulated"], run["reference"])]
        figure = overview(run["statistics"], title)
        for suffix in (".pdf", ".svg"):
            written.append(folder / f"{prefix}rates{suffix}")
            save(figure, written[-1])
    return written


def _draw(stats: Statistics, panel: "Axes") -> None:
    """Draw a dot for each group on an arm's line, joined by the gap; hollow for true answers."""
    by_size = sorted(stats.groups, key=lambda group: -group.n)
    largest = {group.group for group in by_size[:_MOST_GROUPS]}
    groups = [group.group for group in stats.groups if group.group in largest]
    names = list[str]()
    for line, arm in enumerate(
        [*(arm.arm for arm in stats.arms), *[TRUTH] * stats.labelled]
    ):
        rates = {group: stats.of("selection_rate", arm, group) for group in groups}
        known = [100 * rate.value for rate in rates.values() if rate.known]
        if known:
            panel.plot(
                [min(known), max(known)],
                [line, line],
                color=SOFT,
                linewidth=3,
                alpha=0.4,
            )
        for number, (group, rate) in enumerate(rates.items()):
            true = stats.of("selection_rate", TRUTH, group)
            if true.known and arm != TRUTH:
                hollow: Any = {
                    "markerfacecolor": "none",
                    "color": SOFT,
                    "markersize": 9,
                }
                panel.plot(100 * true.value, line, "o", **hollow)
            style: Any = {"color": COLOURS[number % len(COLOURS)], "markersize": 5}
            style |= {
                "fmt": MARKERS[number % len(MARKERS)],
                "label": short(group, _LONGEST),
            }
            if rate.known:
                panel.errorbar(100 * rate.value, line, xerr=_error(rate, 100), **style)
        right = stats.of("accuracy", arm)
        names.append(
            short(in_words(arm), _LONGEST)
            + f"\n{percent(right.value)} right" * right.known
        )
    left_out = f" (the {len(groups)} largest of {len(stats.groups)} groups)"
    hollow_means = ", with 95 % intervals" + "\nhollow: true answers" * stats.labelled
    panel.set(xlabel=f"yes, %{hollow_means}", xlim=(0, 100))
    if len(groups) < len(stats.groups):
        panel.set(xlabel=f"yes, %{left_out}")
    name_lines(panel, names)
    handles, labels = panel.get_legend_handles_labels()
    first = dict(zip(labels[::-1], handles[::-1], strict=True))
    panel.figure.legend(
        [first[group] for group in labels[: len(first)]],
        labels[: len(first)],
        **_LEGEND,
    )


def _error(record: Record, scale: float) -> Any:
    """Distances (2, 1) from the value to the ends of its interval, or None."""
    if record.low != record.low:
        return None
    ends = [[record.value - record.low], [record.high - record.value]]
    return scale * np.maximum(ends, 0.0)
