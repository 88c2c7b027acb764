"""Matplotlib figures (extra `plot`): common style, panels, and atomic saving."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.files import failing_as, write_whole
from fwc_llm.notebook import in_notebook, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS_MATPLOTLIB = "figures need matplotlib: pip install 'fwc-llm[plot]'"
SOFT = "#8a8780"
COLOURS = (
    *("#a45a00", "#00766b", "#6d45b5", "#bb2f3a", "#1c64d1"),
    *("#5f6d00", "#a31560", "#0e7490", "#7c4a21", "#55606f"),
)
MARKERS = "oDs^"
_LONGEST = 30
_CHARACTERS = 12  # of a title's line, an inch
_STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "text.parse_math": False,
    "svg.hashsalt": "fwc-llm",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def require_matplotlib() -> None:
    """Raise `FwcError` if matplotlib is missing."""
    try:
        for name in ("matplotlib", "matplotlib.figure"):
            import_module(name)
    except ImportError:
        raise FwcError(NEEDS_MATPLOTLIB) from None


@contextmanager
def panels(
    lines: Sequence[str],
    widths: Sequence[float],
    heights: Sequence[float],
    around: float = 0.0,
) -> "Iterator[tuple[Figure, list[Axes]]]":
    """Yield a figure titled `lines`, and its panels, a row for each height (inches).

    `around` is the height of titles, axes and legend.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    size = sum(widths), sum(heights) + around
    longest = int(_CHARACTERS * sum(widths))
    title = [fill(short(line, 110), longest) for line in lines]
    with rc_context(_STYLE):
        # pyplot registers how a notebook shows figures; closing it avoids a second output
        if in_notebook():
            from matplotlib import pyplot

            figure = pyplot.figure(figsize=size, layout="constrained")
            pyplot.close(figure)
        else:
            figure = Figure(figsize=size, layout="constrained")
        figure.suptitle("\n".join(title), fontsize=10)
        ratios: Any = {"width_ratios": widths, "height_ratios": heights}
        drawn = figure.subplots(len(heights), len(widths), squeeze=False, **ratios)
        yield figure, list(drawn.flat)


def name_lines(panel: "Axes", names: Sequence[Any]) -> None:
    """Label the rows of a panel (its y axis) with `names` from the top down."""
    panel.set_yticks(range(len(names)), [short(name) for name in names])
    panel.set_ylim(len(names) - 0.4, -0.6)


def short(name: Any, longest: int = _LONGEST) -> str:
    """A name cut to `longest` characters, with invisible characters escaped."""
    text = visible(str(name))
    if len(text) <= longest:
        return text
    return text[: longest - 1] + "…"


def save(figure: "Figure", path: Path, dpi: int = 200) -> None:
    """Write a figure atomically, without a date: the same numbers give the same bytes."""
    from matplotlib import rc_context

    drawn = io.BytesIO()
    with failing_as(FwcError, f"cannot write {path}: "):
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = path.suffix.lower().lstrip(".")
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        with rc_context(_STYLE):
            figure.savefig(drawn, format=kind or None, dpi=dpi, metadata=metadata)
    write_whole(drawn.getvalue(), path)
