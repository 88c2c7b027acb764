"""The terminal's tables: the paper's layout, and under it what can be told from noise."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from fwc_llm.report.numbers import DASH, mean_and_sd, number, percent

# Column headings of the metrics, in the paper's order; accuracy in percent as in the paper, gaps as shares.
_METRICS = (
    ("accuracy", "accuracy %", 100.0, 2),
    ("demographic_parity_difference", "DP gap", 1.0, 3),
    ("demographic_parity_ratio", "DP ratio", 1.0, 2),
    ("equalized_odds_difference", "EO gap", 1.0, 3),
)


def results_table(results: Mapping[str, Any]) -> RenderableType:
    """Return the main table of a run for rich to print; `results` is the content of results.json.

    One line an arm: mean ± standard deviation over repeats, coverage, and the rate of yes per group. An
    undefined value is a dash, explained below the table.
    """
    arms: Sequence[Mapping[str, Any]] = results["arms"]
    groups = list(dict.fromkeys(group for arm in arms for group in arm["rates"]))
    title = Text(f"{results['task']} · {results['model']}", style="bold")
    if results["simulated"]:
        title.append("  SIMULATED ANSWERS", style="bold black on yellow")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("arm", style="bold")
    for _, heading, _, _ in _METRICS:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("coverage", justify="right", no_wrap=True)
    for group in groups:
        table.add_column(Text(f"yes | {group}"), justify="right")
    for arm in arms:
        cells = [
            mean_and_sd(arm.get(key), arm.get(f"{key}_sd"), scale, digits)
            for key, _, scale, digits in _METRICS
        ]
        rates = [number(arm["rates"].get(group), 3) for group in groups]
        table.add_row(Text(str(arm["arm"])), *cells, percent(arm["coverage"]), *rates)
    return Group(table, *_footnotes(results))


def as_text(renderable: RenderableType, width: int = 120) -> str:
    """Return what rich would print, as plain text without colours; lines end where their text ends."""
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _footnotes(results: Mapping[str, Any]) -> list[Text]:
    notes = [_how(results)]
    headings = {key: heading for key, heading, _, _ in _METRICS}
    for arm in results["arms"]:
        for key, heading in headings.items():
            if arm.get(key) is None:
                reason = (arm.get("undefined") or {}).get(key, "not defined for these answers")
                notes.append(f"{DASH} {heading} of {arm['arm']}: {reason}")
    if results["simulated"]:
        notes.append(
            "Simulated: the answers come from an offline surrogate, not from a language model; "
            "nothing here is a finding about one."
        )
    return [Text(note, style="dim") for note in notes]


def _how(results: Mapping[str, Any]) -> str:
    parity = results.get("base_parity")
    drawn = "drawn at random" if parity is None else f"base-rate parity {parity:g}"
    repeats = int(results["repeats"])
    spread = f"mean ± sd over {repeats} repeats" if repeats > 1 else "1 repeat"
    return f"{results['n_test']} test rows, {drawn}; {spread}; seed {results['seed']}"
