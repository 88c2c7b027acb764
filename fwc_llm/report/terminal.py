"""The terminal's tables: the paper's layout, and the audit with intervals, noise floor and comparisons."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fwc_llm.metrics.sample import THESE_EXAMPLES, THIS_STRATEGY
from fwc_llm.report.lost import lost_lines
from fwc_llm.report.numbers import DASH, interval, mean_and_sd, number, p_value, percent, signed
from fwc_llm.report.probes import NO_PROBABILITY, probes
from fwc_llm.report.tables import lines, spread
from fwc_llm.report.tables.probability import probability_notes, short_calibration, short_thresholds
from fwc_llm.report.wordings import wording_lines

if TYPE_CHECKING:
    from fwc_llm.report.read import Run

# Column headings of the metrics, in the paper's order; accuracy in percent as in the paper, gaps as shares.
_METRICS = (
    ("accuracy", "accuracy %", 100.0, 2),
    ("demographic_parity_difference", "DP gap", 1.0, 3),
    ("demographic_parity_ratio", "DP ratio", 1.0, 2),
    ("equalized_odds_difference", "EO gap", 1.0, 3),
)
FEW = 10
REFERENCE = "the answers come from the rows, not from prompts, so that the arms differ in nothing"
TITLE = "Values with 95 % intervals, and what is more than noise"


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
    if results.get("reference"):
        title.append("  REFERENCE, NO LANGUAGE MODEL", style="bold black on cyan")
    columns = [
        (heading, [mean_and_sd(arm.get(key), arm.get(f"{key}_sd"), scale, digits) for arm in arms])
        for key, heading, scale, digits in _METRICS
    ]
    columns.append(("coverage", [percent(arm["coverage"]) for arm in arms]))
    columns += [(f"yes | {group}", [number(arm["rates"].get(group), 3) for arm in arms]) for group in groups]
    names = [str(arm["arm"]) for arm in arms]
    return Group(title, _Columns(names, columns), *_footnotes(results))


def models_table(runs: "Sequence[Run]") -> RenderableType:
    """Return the arms of several models that were asked the same questions, for rich to print.

    Values have 95 % intervals. What lies between two models is the comparison's to say.
    """
    from fwc_llm.metrics.statistics import statistics

    names: list[str] = []
    columns: dict[str, list[str]] = {}
    for run in runs:
        found = statistics(run.answered)
        mark = " (simulated)" if run.simulated_answers else " (reference)" if run.reference else ""
        names += [f"{run.label}{mark} · {arm['arm']}" for arm in found["arms"]]
        for heading, cells in audit_columns({**found, "comparisons": []}):
            columns.setdefault(heading, []).extend(cells)
        columns.setdefault("coverage", []).extend(percent(arm["coverage"]) for arm in found["arms"])
    title = Text(f"{runs[0].task} · {len(runs)} models", style="bold")
    if any(run.simulated for run in runs):
        title.append("  SIMULATED", style="bold black on yellow")
    notes = [
        _how(runs[0].results),
        "In brackets 95 % intervals; noise floor: groups treated alike show less.",
    ]
    if len(runs) > 1:
        folders = " ".join(quote(str(run.folder)) for run in runs[:2])
        notes.append(f"Whether two models differ by more than noise: fwc-llm compare {folders}")
    return Group(title, _Columns(names, list(columns.items())), *(Text(note, style="dim") for note in notes))


def as_text(renderable: RenderableType, width: int = 120) -> str:
    """Return what rich would print, as plain text without colours; lines end where their text ends."""
    console = Console(width=width, force_terminal=False, force_jupyter=False, color_system=None)
    with console.capture() as captured:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def statistics_lines(folder: str | Path) -> RenderableType:
    """Return `statistics_table` of a run's folder; raises `FwcError` as `read_run` does."""
    from fwc_llm.metrics.statistics import statistics
    from fwc_llm.report.lines import references_of
    from fwc_llm.report.read import read_run

    run = read_run(folder)
    found = statistics(run.answered, references_of(run))
    asked = (run.described.get("parameters") or {}).get("logprobs")
    unanswered = asked and not any(arm["probabilities"] for arm in found["arms"])
    notes = [Text(f"\n{NO_PROBABILITY}.")] if unanswered else []
    return Group(statistics_table(found), *notes)


def statistics_table(found: Mapping[str, Any], rates: bool = False) -> RenderableType:
    """Return values with intervals, and what is more than noise, for rich to print.

    `found` is what `Audit.to_dict` returns; see `audit_columns`. Below it stands what to
    know before believing a number, and what the counterfactual probe and P(yes) showed.
    """
    title = Text(TITLE, style="bold")
    names = [arm["arm"] for arm in found["arms"]]
    footnotes = (Text(note, style="dim") for note in audit_notes(found))
    parts: list[RenderableType] = [title, _Columns(names, audit_columns(found, rates)), *footnotes]
    for heading, columns, note in probes(found):
        parts += [Text(f"\n{heading}", style="bold"), _Columns(names, columns)]
        parts += [Text(note, style="dim")] if note else []
    return Group(*parts, *_spread(found), *_references(found))


def probability_tables(found: Mapping[str, Any]) -> RenderableType:
    """Return calibration per group and what thresholds would answer, for rich; nothing without P(yes)."""
    parts: list[RenderableType] = []
    for title, heading, (names, columns) in (
        ("Is P(yes) right, in each group?", "group", short_calibration(found)),
        ("What one threshold for all would answer", "threshold", short_thresholds(found)),
    ):
        if names:
            parts += [Text(title, style="bold"), _Columns(names, columns, heading)]
    return Group(*parts, *(Text(note, style="dim") for note in probability_notes(found)))


def _spread(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Where the spread comes from, for a run that asked in several ways or several times."""
    if not spread.was_varied(found):
        return
    yield Text(f"\n{spread.TITLE}", style="bold").append(f"  {spread.CAPTION}", style="dim")
    yield _columns(
        [f"{family} · {metric}" for family, metric, *_ in spread.spread_rows(found)],
        spread.spread_headings(found)[2:],
        [row[2:] for row in spread.spread_rows(found)],
    )
    yield from (Text(note, style="dim") for note in spread.spread_notes(found))
    if body := spread.again_rows(found):
        yield Text(f"\n{spread.AGAIN_TITLE}", style="bold")
        yield _columns([row[0] for row in body], spread.AGAIN_HEADINGS[1:], [row[1:] for row in body])
        yield Text(spread.AGAIN_NOTE, style="dim")


def _columns(names: Sequence[str], headings: Sequence[str], body: Sequence[Sequence[str]]) -> "_Columns":
    """Rows as a table that turns where the terminal is narrow."""
    return _Columns(
        names, [(heading, [row[place] for row in body]) for place, heading in enumerate(headings)], ""
    )


def _references(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """What plain models answer to the same rows, below the arms."""
    if not found.get("reference_lines"):
        return
    yield Text(f"\n{lines.TITLE}", style="bold").append(f"  {lines.CAPTION}", style="dim")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, heading in enumerate(lines.HEADINGS[:3]):
        table.add_column(heading, style="" if place else "bold", justify="right" if place else "left")
    for row in lines.line_rows(found):  # a long name takes several lines, so that all stand below each other
        table.add_row(Text(row[0]), *(Text(cell, no_wrap=True) for cell in row[1:3]))
    yield table
    yield _Columns(*lines.difference_columns(found), "line")
    yield from (Text(note, style="dim") for note in lines.line_notes(found))


def audit_columns(found: Mapping[str, Any], rates: bool = False) -> list[tuple[str, list[str]]]:
    """Return headings with a cell for each arm.

    Accuracy and DP gap, the noise floor of the gap, the differences from the first arm; with `rates` also the
    other metrics, coverage and each group's rate.
    """
    first = found["arms"][0]["arm"]
    tests = {test["second"]: test for test in found["comparisons"] if test["first"] == first}
    columns = [
        ("accuracy %", [_with_interval(arm["accuracy"], 1, 100) for arm in found["arms"]]),
        ("DP gap", [_with_interval(arm["demographic_parity_difference"], 3) for arm in found["arms"]]),
        ("noise floor (95 %)", [_floor(arm["demographic_parity_difference"]) for arm in found["arms"]]),
    ]
    for metric, name, digits, scale in (
        ("accuracy", "accuracy", 1, 100),
        ("demographic_parity_difference", "DP gap", 3, 1),
    ):
        if tests:  # with one arm there is nothing to compare
            shown = [_verdict(tests.get(arm["arm"]), metric, digits, scale) for arm in found["arms"]]
            columns.append((f"{name} vs {first}", shown))
    return [*columns, *_further(found)] if rates else columns


def selection_table(view: Mapping[str, Any]) -> RenderableType:
    """Return the selection rates and impact ratios of one attribute of `impact_tables`, for rich to print."""
    from fwc_llm.report.tables.audit import selection_cells, selection_notes

    notes = (Text(note, style="dim") for note in selection_notes(view))
    title = Text(f"Who was selected, by {view['attribute']}", style="bold")
    return Group(title, _Columns(*selection_cells(view)), *notes)


def audit_notes(found: Mapping[str, Any]) -> list[str]:
    """Return how to read the columns, why values are missing, and what to know before believing the rest."""
    return [*_reading(found), *_undefined(found), *found["notes"]]


def _with_interval(value: Mapping[str, Any], digits: int, scale: float = 1.0) -> str:
    shown = number(value["value"], digits, scale)
    ends = interval((value["low"], value["high"]), digits, scale)
    return shown if ends == DASH else f"{shown} ({ends})"


def _floor(gap: Mapping[str, Any]) -> str:
    floor = number(gap["noise_95"], 3)
    if gap["p_value"] is None:
        return floor
    return f"{'above' if gap['p_value'] < 0.05 else 'within'} {floor}"


def _further(found: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """The other metrics, coverage, and each group's rate of yes."""
    arms = found["arms"]
    columns = [
        ("DP ratio", [_with_interval(arm["demographic_parity_ratio"], 2) for arm in arms]),
        ("EO gap", [_with_interval(arm["equalized_odds_difference"], 3) for arm in arms]),
        ("coverage", [percent(arm["coverage"]) for arm in arms]),
    ]
    for group in found["groups"]:
        name = group["group"]
        rates = [arm["groups"][name] for arm in arms]
        shown = [_with_interval({**rate, "value": rate["rate"]}, 3) for rate in rates]
        columns.append((f"yes | {name} ({group['n']:,})", shown))
    for place, one in enumerate(arms[0]["by_attribute"]):
        gaps = [arm["by_attribute"][place] for arm in arms]
        metric = "demographic_parity_difference"
        ends = [dict(zip(("low", "high"), gap["intervals"][metric], strict=True)) for gap in gaps]
        shown = [
            _with_interval({"value": gap[metric], **end}, 3) for gap, end in zip(gaps, ends, strict=True)
        ]
        columns.append((f"DP gap by {one['attribute']}", shown))
    return columns


def _reading(found: Mapping[str, Any]) -> Iterator[str]:
    """How to read the table, in sentences that hold for this one."""
    if len(found["arms"][0]["accuracy"]["per_repeat"]) > 1:
        yield "The DP gap is that of the mean rates; noise does not add to it as it does to a mean of gaps."
    drawn = [arm["arm"] for arm in found["arms"] if arm["of"] == THIS_STRATEGY]
    these = [arm["arm"] for arm in found["arms"] if arm["of"] == THESE_EXAMPLES]
    if these:
        yield f"Intervals of {', '.join(these)}: {_same_way(found)}."
    if drawn:
        yield f"Intervals of {', '.join(drawn)}: other rows, and other draws of the examples (this strategy)."
    yield "Noise floor: groups treated alike show a smaller gap in 95 of 100 such runs."
    if found["comparisons"]:
        yield (
            "≠ significant, ≈ not significant (5 %, Holm's correction over all comparisons); "
            f"{_spoken_of(found)}"
        )


def _same_way(found: Mapping[str, Any]) -> str:
    if not found.get("with_examples", True):
        return "other rows, answered in the same way"
    return "other rows, asked in the same way (these examples)"


def _spoken_of(found: Mapping[str, Any]) -> str:
    of = {test["of"] for test in found["comparisons"]}
    if not found.get("with_examples", True):
        return "comparisons speak of rows like these."
    if of == {THESE_EXAMPLES}:
        return "comparisons speak of these examples, not of other draws."
    if of == {THIS_STRATEGY}:
        return "comparisons speak of the strategies, with other draws of the examples."
    return "comparisons speak of strategies where an arm draws examples anew, else of these examples."


def _undefined(found: Mapping[str, Any]) -> Iterator[str]:
    for arm in found["arms"]:
        for key, heading, _, _ in _METRICS:
            if key in arm["reasons"]:
                yield f"{DASH} {heading} of {arm['arm']}: {arm['reasons'][key]}"


class _Columns:
    """A line an arm and a heading a column where the terminal is wide enough, else turned: a column an arm.

    What belongs to one arm stays together: where all arms do not fit beside each other, the rest follow in
    a table of their own.
    """

    def __init__(
        self, arms: Sequence[str], columns: Sequence[tuple[str, Sequence[str]]], heading: str = "arm"
    ) -> None:
        self.arms, self.columns, self.heading = arms, columns, heading

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unlimited = options.update_width(10_000)

        def fits(table: Table) -> bool:
            return Measurement.get(console, unlimited, table).maximum <= options.max_width

        everyone = range(len(self.arms))
        for table in (self._table(), self._turned(everyone, False), self._turned(everyone, True)):
            if fits(table):
                yield table
                return
        start = 0
        while start < len(self.arms):
            end = start + 1
            while end < len(self.arms) and fits(self._turned(range(start, end + 1), True)):
                end += 1
            yield self._turned(range(start, end), True)
            start = end

    def _table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(self.heading, style="bold", no_wrap=True)
        for heading, _ in self.columns:
            table.add_column(Text(heading), justify="right", no_wrap=True)
        for position, arm in enumerate(self.arms):
            table.add_row(Text(arm), *(Text(cells[position]) for _, cells in self.columns))
        return table

    def _turned(self, arms: Sequence[int], broken: bool) -> Table:
        """The table of these arms with a line a heading; `broken` puts brackets on a line of their own."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("", style="bold", overflow="fold")
        for arm in arms:
            table.add_column(Text(self.arms[arm]), justify="right", overflow="fold")
        for heading, cells in self.columns:
            shown = [heading, *(cells[arm] for arm in arms)]
            table.add_row(*(Text(cell.replace(" (", "\n(") if broken else cell) for cell in shown))
        return table


def _verdict(test: Mapping[str, Any] | None, metric: str, digits: int, scale: float) -> str:
    if not test or test[metric]["difference"] is None:
        return ""
    one = test[metric]
    mark = {True: "≠", False: "≈", None: "?"}[one["distinguishable"]]
    shown = f"{mark} {signed(one['difference'], digits, scale)}"
    return shown if one["p_adjusted"] is None else f"{shown} (p {p_value(one['p_adjusted'])})"


def _footnotes(results: Mapping[str, Any]) -> list[Text]:
    notes = [_how(results)]
    headings = {key: heading for key, heading, _, _ in _METRICS}
    for arm in results["arms"]:
        for key, heading in headings.items():
            if arm.get(key) is None:
                reason = (arm.get("undefined") or {}).get(key, "not defined for these answers")
                notes.append(f"{DASH} {heading} of {arm['arm']}: {reason}")
    notes += [f"{arm}: {said}" for arm, said in (results.get("untrue") or {}).items()]
    notes += wording_lines(results)
    if results["simulated"]:
        source = "the answers come from an offline surrogate, not from a language model"
        if not _simulated_answers(results):
            source = "the rows are of no real people"
        notes.append(f"Simulated: {source}; nothing here is a finding about a language model.")
    notes += lost_lines(results.get("rows"))
    if results.get("reference"):
        notes.append(f"Reference, no language model: {REFERENCE}.")
    return [Text(note, style="dim") for note in notes]


def _simulated_answers(results: Mapping[str, Any]) -> bool:
    return bool(results.get("simulated_answers", results["simulated"]))


def _how(results: Mapping[str, Any]) -> str:
    parity = results.get("base_parity")
    drawn = "drawn at random" if parity is None else f"base-rate parity {parity:g}"
    repeats = int(results["repeats"])
    spread = "1 repeat"
    if repeats > 1:
        spread = f"mean ± sd over {repeats} repeats of each repeat's own value, as in the paper"
    if (samples := int(results.get("samples") or 1)) > 1:
        spread += f", each asked {samples} times"
    return f"{results['n_test']} test rows, {drawn}{_smallest(results)}; {spread}; seed {results['seed']}"


def _smallest(results: Mapping[str, Any]) -> str:
    """The smallest group's rows a repeat; said to be few under ten."""
    sizes = results["arms"][0].get("sizes") or {}
    if not sizes:
        return ""
    name = min(sizes, key=lambda group: sizes[group])
    rows = sizes[name] / (int(results["repeats"]) * int(results.get("samples") or 1))
    return f", smallest group {name} with {round(rows, 1):g}{' (few)' if rows < FEW else ''}"
