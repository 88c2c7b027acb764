"""Charts of runs as files, by matplotlib (extra `plot`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.gates.sentences import in_words
from fwc_llm.metrics.records import TRUTH, Record
from fwc_llm.metrics.statistics import Statistics
from fwc_llm.notebook import badges
from fwc_llm.number_format import percent
from fwc_llm.plotting import COLOURS, MARKERS, SOFT, name_lines, panels, save, short
from fwc_llm.runs.folder import file_name
from fwc_llm.sanitize import Fields

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_COLUMN = 3.5  # inches: a journal's column
_LINE = 0.4  # inches for an arm
_MOST_GROUPS = 10  # most groups in a figure
_LONGEST = 20  # characters of a name
_LEGEND: Any = {
    "frameon": False,
    "fontsize": 7,
    "loc": "outside lower center",
    "ncols": 2,
}


def overview(
    models: Sequence[tuple[str, Statistics]], title: Sequence[str]
) -> "Figure":
    """Who gets how much: a line for each arm, with each group's rate of yes and true answers.

    Of several models (label, statistics), each has a panel; the last one has the true answers.
    """
    stats = models[-1][1]
    by_size = sorted(stats.groups, key=lambda group: -group.n)
    largest = {group.group for group in by_size[:_MOST_GROUPS]}
    groups = [group.group for group in stats.groups if group.group in largest]
    heights = [_LINE * len(of.arms) for _, of in models]
    heights[-1] += _LINE * stats.labelled
    around = 1.2 + 0.3 * len(models) + 0.08 * len(groups)
    with panels(title, [_COLUMN], heights, around) as (figure, drawn):
        for (label, of), panel in zip(models, drawn, strict=True):
            is_last = panel is drawn[-1]
            _draw(of, panel, groups, is_last)
            panel.tick_params(labelbottom=is_last)
            if len(models) > 1:
                panel.set_title(short(label), loc="left", fontsize=8, weight="bold")
        handles, labels = panel.get_legend_handles_labels()
        first = dict(zip(labels[::-1], handles[::-1], strict=True))
        named = labels[: len(first)]
        figure.legend([first[group] for group in named], named, **_LEGEND)
    return figure


def write_figures(document: Fields, folder: str | Path) -> list[Path]:
    """Write a figure of all runs with the same groups as SVG and PDF; return the paths."""
    folder = Path(folder)
    alike = dict[tuple[str, ...], list[Fields]]()
    for run in document["runs"]:
        groups = tuple(group.group for group in run["statistics"].groups)
        alike.setdefault(groups, []).append(run)
    written = list[Path]()
    for number, runs in enumerate(alike.values(), 1):
        label = runs[0]["label"]
        prefix = f"{number}-{file_name(str(label))}-" if len(alike) > 1 else ""
        title = label if len(runs) == 1 else document["title"]
        marked = [any(run[mark] for run in runs) for mark in ("simulated", "reference")]
        models = [(str(run["label"]), run["statistics"]) for run in runs]
        figure = overview(models, [title, *badges(*marked)])
        for suffix in (".pdf", ".svg"):
            written.append(folder / f"{prefix}rates{suffix}")
            save(figure, written[-1])
    return written


def _draw(
    stats: Statistics, panel: "Axes", groups: Sequence[str], with_truth: bool
) -> None:
    """Draw a dot for each group on an arm's line, joined by the gap; hollow for true answers."""
    names = list[str]()
    truth = [TRUTH] * (with_truth and stats.labelled)
    for line, arm in enumerate([*(arm.arm for arm in stats.arms), *truth]):
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
    panel.set(xlim=(0, 100))
    if with_truth:
        hollow_means = (
            ", with 95 % intervals" + "\nhollow: true answers" * stats.labelled
        )
        left_out = f" (the {len(groups)} largest of {len(stats.groups)} groups)"
        some = len(groups) < len(stats.groups)
        panel.set_xlabel(f"yes, %{left_out if some else hollow_means}")
    name_lines(panel, names)


def _error(record: Record, scale: float) -> Any:
    """Distances (2, 1) from the value to the ends of its interval, or None."""
    if record.low != record.low:
        return None
    ends = [[record.value - record.low], [record.high - record.value]]
    return scale * np.maximum(ends, 0.0)
