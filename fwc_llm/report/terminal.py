"""The terminal's tables: the paper's layout, and under it what can be told from noise."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fwc_llm.report.numbers import DASH, interval, mean_and_sd, number, p_value, percent, signed

# Column headings of the metrics, in the paper's order; accuracy in percent as in the paper, gaps as shares.
_METRICS = (
    ("accuracy", "accuracy %", 100.0, 2),
    ("demographic_parity_difference", "DP gap", 1.0, 3),
    ("demographic_parity_ratio", "DP ratio", 1.0, 2),
    ("equalized_odds_difference", "EO gap", 1.0, 3),
)
FEW = 10


def results_table(results: Mapping[str, Any]) -> RenderableType:
    """Return the main table of a run for rich to print; `results` is the content of results.json.

    One line an arm: mean ± standard deviation over repeats, coverage, and the rate of yes per group. An
    undefined value is a dash, explained below the table.
    """
    arms: Sequence[Mapping[str, Any]] = results["arms"]
    groups = list(dict.fromkeys(group for arm in arms for group in arm["rates"]))
    title = Text(f"{results['task']} · {results['model']}", style="bold")
    if results["simulated"]:
        what = "ANSWERS" if _simulated_answers(results) else "TABLE"
        title.append(f"  SIMULATED {what}", style="bold black on yellow")
    columns = [
        (heading, [mean_and_sd(arm.get(key), arm.get(f"{key}_sd"), scale, digits) for arm in arms])
        for key, heading, scale, digits in _METRICS
    ]
    columns.append(("coverage", [percent(arm["coverage"]) for arm in arms]))
    columns += [(f"yes | {group}", [number(arm["rates"].get(group), 3) for arm in arms]) for group in groups]
    names = [str(arm["arm"]) for arm in arms]
    return Group(title, _Columns(names, columns), *_footnotes(results))


def as_text(renderable: RenderableType, width: int = 120) -> str:
    """Return what rich would print, as plain text without colours; lines end where their text ends."""
    console = Console(width=width, force_terminal=False, force_jupyter=False, color_system=None)
    with console.capture() as captured:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def statistics_lines(folder: str | Path) -> RenderableType:
    """Return `statistics_table` of a run's folder; raises `FwcError` as `read_run` does."""
    from fwc_llm.metrics.statistics import statistics
    from fwc_llm.report.read import read_run

    return statistics_table(statistics(read_run(folder).answered))


def statistics_table(found: Mapping[str, Any]) -> RenderableType:
    """Return what can be told from noise, for rich to print; `found` is what `statistics(run)` returns.

    Per arm the intervals, the noise floor of the DP gap and the verdicts against the first arm; below, what
    to know before believing a number.
    """
    lines = []
    first = found["arms"][0]["arm"]
    tests = {test["second"]: test for test in found["comparisons"] if test["first"] == first}
    for arm in found["arms"]:
        accuracy, gap = arm["accuracy"], arm["demographic_parity_difference"]
        test = tests.get(arm["arm"])
        chance = number(gap["noise_95"], 3)
        if gap["p_value"] is not None:
            chance = f"{'above' if gap['p_value'] < 0.05 else 'within'} {chance}"
        lines.append(
            (
                interval((accuracy["low"], accuracy["high"]), 1, 100),
                interval((gap["low"], gap["high"]), 3),
                chance,
                _verdict(test and test["accuracy"], 1, 100),
                _verdict(test and test["demographic_parity_difference"], 3, 1),
            )
        )
    notes = [Text(note, style="dim") for note in found["notes"]]
    how = (
        "by chance: the gap that groups treated alike stay below 95 times in 100; a DP gap within it may be "
        "chance; p-values are Holm's"
    )
    headings = ("accuracy %", "DP gap", "by chance", f"accuracy vs {first}", f"DP gap vs {first}")
    columns = list(zip(headings, map(list, zip(*lines, strict=True)), strict=True))
    if not tests:  # one arm: nothing to be told apart from
        columns = columns[:3]
    title = Text("95 % intervals, and what is more than noise", style="bold")
    return Group(
        title, _Columns([arm["arm"] for arm in found["arms"]], columns), Text(how, style="dim"), *notes
    )


class _Columns:
    """A line an arm, a heading a column; as many tables below each other as the terminal's width asks for."""

    def __init__(self, arms: Sequence[str], columns: Sequence[tuple[str, Sequence[str]]]) -> None:
        self.arms, self.columns = arms, columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        start, unlimited = 0, options.update_width(10_000)
        while start < len(self.columns):
            end = len(self.columns)
            table = self._table(self.columns[start:end])
            while end > start + 1 and Measurement.get(console, unlimited, table).maximum > options.max_width:
                end -= 1
                table = self._table(self.columns[start:end])
            yield table
            start = end

    def _table(self, columns: Sequence[tuple[str, Sequence[str]]]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("arm", style="bold", no_wrap=True)
        for heading, _ in columns:
            table.add_column(Text(heading), justify="right", no_wrap=True)
        for position, arm in enumerate(self.arms):
            table.add_row(Text(arm), *(cells[position] for _, cells in columns))
        return table


def _verdict(test: Mapping[str, Any] | None, digits: int, scale: float) -> str:
    if not test or test["difference"] is None:
        return ""
    mark = "≠" if test["distinguishable"] else "≈"
    return f"{mark} {signed(test['difference'], digits, scale)} (p {p_value(test['p_adjusted'])})"


def _footnotes(results: Mapping[str, Any]) -> list[Text]:
    notes = [_how(results)]
    headings = {key: heading for key, heading, _, _ in _METRICS}
    for arm in results["arms"]:
        for key, heading in headings.items():
            if arm.get(key) is None:
                reason = (arm.get("undefined") or {}).get(key, "not defined for these answers")
                notes.append(f"{DASH} {heading} of {arm['arm']}: {reason}")
    if results["simulated"]:
        source = "the answers come from an offline surrogate, not from a language model"
        if not _simulated_answers(results):
            source = "the rows are of no real people"
        notes.append(f"Simulated: {source}; nothing here is a finding about a language model.")
    return [Text(note, style="dim") for note in notes]


def _simulated_answers(results: Mapping[str, Any]) -> bool:
    return bool(results.get("simulated_answers", results["simulated"]))


def _how(results: Mapping[str, Any]) -> str:
    parity = results.get("base_parity")
    drawn = "drawn at random" if parity is None else f"base-rate parity {parity:g}"
    repeats = int(results["repeats"])
    spread = f"mean ± sd over {repeats} repeats" if repeats > 1 else "1 repeat"
    return f"{results['n_test']} test rows, {drawn}{_smallest(results)}; {spread}; seed {results['seed']}"


def _smallest(results: Mapping[str, Any]) -> str:
    """The smallest group's rows a repeat; said to be few under ten."""
    sizes = results["arms"][0].get("sizes") or {}
    if not sizes:
        return ""
    name = min(sizes, key=lambda group: sizes[group])
    rows = sizes[name] / int(results["repeats"])
    return f", smallest group {name} with {rows:g}{' (few)' if rows < FEW else ''}"
