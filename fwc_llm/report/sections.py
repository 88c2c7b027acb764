"""The sections of a report, built from the statistics of one run or audit; every output shows the same ones.

`stats` is what `metrics.statistics.statistics` returns, `run` one entry of a document's `runs`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fwc_llm.metrics.arm_estimates import RATIO_MARGIN
from fwc_llm.metrics.intervals import DIFFERS, NOT_SHOWN, UNTOLD
from fwc_llm.metrics.variance import THESE_EXAMPLES, THIS_STRATEGY, of_words
from fwc_llm.report.format import DASH, interval, mean_and_sd, number, p_value, percent
from fwc_llm.report.narrative import REFERENCE, lost_lines
from fwc_llm.report.tables import Cell, Row, Section, difference, valued

Stats = Mapping[str, Any]
# Key, heading, digits and scale of every metric, in the paper's order: accuracy in percent, gaps as shares.
METRICS = (
    ("accuracy", "Accuracy %", 2, 100.0),
    ("demographic_parity_difference", "DP gap", 3, 1.0),
    ("demographic_parity_ratio", "DP ratio", 2, 1.0),
    ("equalized_odds_difference", "EO gap", 3, 1.0),
)
ACCURACY, GAP = METRICS[0][0], METRICS[1][0]
_COMPARED = ((ACCURACY, 1, 100.0), (GAP, 3, 1.0))
_COMPARISON = (
    *("Arms", "Accuracy, points", "p (adjusted)", "Verdict"),
    *("DP gap", "p (adjusted)", "Verdict", "Speaks of", "Answers"),
)
MARKS = {DIFFERS: "≠", NOT_SHOWN: "≈", UNTOLD: "?", None: ""}
_BESIDE = 4  # arms that stand beside each other where groups are rows
NO_PROBABILITY = (
    "--logprobs: no reply came with the probabilities of its words, so that there is no P(yes) to judge"
)
_PARTS = (
    *(("rows", "Test rows"), ("examples", "Examples"), ("order", "Order"), ("wording", "Wording")),
    *(("order_and_wording", "Order × wording"), ("repetition", "Asked again")),
)


def results(stats: Stats) -> Section:
    """Return the arms with their values and 95 % intervals; a mark is the verdict on the gap before it."""
    rows = []
    for arm in stats["arms"]:
        cells: list[Cell | str] = [arm["arm"]]
        for metric, _, digits, scale in METRICS:
            cells.append(valued(arm[metric], digits, scale, MARKS[arm[metric].get("verdict")]))
        rows.append([*cells, percent(arm["coverage"])])
    headings = ["Arm", *_headings(stats.get("perfect_gap")), "Coverage"]
    return Section("Results", headings, rows, [*_reading(stats), *_footnotes(stats)], name="results")


def _headings(perfect: float | None) -> list[str]:
    """The metrics' names; of designed rows with the DP gap that a `perfect` model has there."""
    beside = f" (perfect model: {perfect:.2f})" if perfect else ""
    return [heading + beside if metric == GAP else heading for metric, heading, *_ in METRICS]


def overview(runs: Sequence[tuple[str, Stats]], title: str) -> Section:
    """Return the arms of several runs, by label and statistics, in one table without comparisons."""
    rows, headings = [], [""]
    for label, stats in runs:
        table = results(stats)
        headings = ["Run", *table.headings]
        rows += [[label, *row] for row in table.rows]
    return Section(title, headings, rows, keys=2, name="overview")


def _reading(stats: Stats) -> Iterator[str]:
    """How to read the results, in sentences that hold for these."""
    if len(stats["arms"][0]["accuracy"]["per_repeat"]) > 1:
        yield "The DP gap is that of the mean rates; noise does not add to it as it does to a mean of gaps."
    drawn = [arm["arm"] for arm in stats["arms"] if arm["of"] == THIS_STRATEGY]
    these = [arm["arm"] for arm in stats["arms"] if arm["of"] == THESE_EXAMPLES]
    if not stats["with_examples"]:
        yield "In brackets 95 % intervals: they hold for other rows, answered in the same way."
    elif these:
        arms = ", ".join(these)
        how = "asked in the same way (these examples)"
        yield f"In brackets 95 % intervals. Those of {arms} hold for other rows, {how}."
    if drawn:
        yield (
            f"In brackets 95 % intervals. Those of {', '.join(drawn)} hold for other rows and other draws of "
            "the examples (this strategy)."
        )
    yield legend(stats)


def legend(stats: Stats) -> str:
    """Return what the marks mean."""
    gap = stats["arms"][0][GAP]
    return (
        "The verdict on each gap: ≠ the groups differ (the interval leaves equality out), ≈ no difference "
        f"shown (it ends within {gap['margin']:g}; of a ratio, above {RATIO_MARGIN:g}), ? cannot be told."
    )


def _footnotes(stats: Stats) -> list[str]:
    """Why values are missing, and what to know before believing the rest."""
    headings = {metric: heading for metric, heading, *_ in METRICS}
    missing = [
        f"{DASH} {headings[metric]} of {arm['arm']}: {reason}."
        for arm in stats["arms"]
        for metric, reason in arm["reasons"].items()
        if metric in headings
    ]
    return [*missing, *stats["notes"]]


def rates(stats: Stats) -> Section:
    """Return the groups: rows, true share of yes, and every arm's rate of yes with its interval."""
    arms, rows = stats["arms"], list[Row]()
    beside = len(arms) <= _BESIDE
    for group in stats["groups"]:
        name, few = group["group"], " (few)" if group["small"] else ""
        shown = [valued({**arm["groups"][name], "value": arm["groups"][name]["rate"]}, 3) for arm in arms]
        known = [f"{group['n']:,}{few}", percent(group["base_rate"])]
        if beside:
            rows.append([name, *known, *shown])
        else:
            rows += [[name, arm["arm"], *known, cell] for arm, cell in zip(arms, shown, strict=True)]
    known = ["Rows", "True share of yes"]
    headings = ["Group", *known, *(f"Yes, {arm['arm']}" for arm in arms)]
    headings = headings if beside else ["Group", "Arm", *known, "Rate of yes"]
    notes = ["Shares of yes with 95 % intervals. The DP gap is the largest less the smallest."]
    title = "Rate of yes per group"
    return Section(title, headings, rows, notes, keys=1 if beside else 2, name="rates")


def paper(stats: Stats) -> Section:
    """Return the paper's summary: mean ± standard deviation of each repeat's own metrics."""
    rows = []
    for arm in stats["arms"]:
        if len(arm["accuracy"]["per_repeat"]) > 1:
            own = ((arm[metric]["paper_summary"], digits, scale) for metric, _, digits, scale in METRICS)
            cells = [mean_and_sd(one["mean"], one["sd"], scale, digits) for one, digits, scale in own]
            rows.append([arm["arm"], *cells])
    intro = (
        "Mean ± standard deviation of each repeat’s own value. The mean of gaps is never below the gap of "
        "means; noise adds to it, the more so the fewer rows a repeat has."
    )
    headings = ["Arm", *(heading for _, heading, *_ in METRICS)]
    return Section("The paper’s summary", headings, rows, intro=intro, name="repeats")


def noise(stats: Stats) -> Section:
    """Return each arm's gap beside the mean gap that chance alone shows."""
    rows, two = [], stats["arms"][0]["signed_gap"]
    for arm in stats["arms"]:
        sign = [] if arm["signed_gap"] is None else [valued(arm["signed_gap"], 3)]
        gap = arm[GAP]
        rows.append([arm["arm"], *sign, number(gap["value"], 3), number(gap["noise_expected"], 3)])
    headings = ["Arm", *([two["of"]] if two else []), "DP gap", "Mean by chance"]
    intro = "Groups treated exactly alike still differ in a sample of this size, by the mean shown."
    return Section("The gap beside chance", headings, rows, intro=intro)


def comparisons(stats: Stats) -> Section:
    """Return every pair of arms: differences, intervals, p-values, verdicts, and what they speak of."""
    intro = (
        "All arms were asked about the same rows, so differences are taken row by row. A comparison “of this "
        "strategy” holds for other draws of the examples and counts repeats; one “of these examples” holds "
        "for the prompts that were sent and counts rows."
    )
    if not stats["with_examples"]:
        intro = "All arms decided about the same rows, so differences are taken row by row."
    notes = [
        "The verdict is that of an interval as wide as all comparisons together make it: it leaves out 0 "
        "(differs), ends within the margin (no difference shown), or neither (cannot be told)."
    ]
    rows = _compared(stats, ("first", "second"), stats["with_examples"])
    return Section("Which arms differ", _COMPARISON, rows, notes, intro)


def _compared(stats: Stats, names: tuple[str, str], with_examples: bool) -> list[Row]:
    rows: list[Row] = []
    for test in stats["comparisons"]:
        cells: list[Cell | str] = [f"{test[names[1]]} vs {test[names[0]]}"]
        for metric, digits, scale in _COMPARED:
            cells += [difference(test[metric], digits, scale), p_value(test[metric]["p_adjusted"])]
            cells.append(verdict_on(test[metric]))
        rows.append([*cells, of_words(test["of"], with_examples), f"{test['n']}"])
    return rows


def verdict_on(test: Mapping[str, Any]) -> str:
    """Return the verdict on a difference in words."""
    return test["verdict"] or ("undefined" if test["difference"] is None else UNTOLD)


def references(stats: Stats) -> Section:
    """Return the reference lines: their values, and every arm less every line."""
    lines = stats.get("reference_lines")
    if lines is None:
        return Section("Reference lines")
    metrics = [metric for metric in METRICS if metric[0] != "demographic_parity_ratio"]
    values: list[Row] = [
        [
            line["line"],
            *(
                valued(line[metric], 1 if scale > 1 else digits, scale)
                for metric, _, digits, scale in metrics
            ),
        ]
        for line in lines["lines"]
    ]
    compared = _compared(lines, ("line", "arm"), stats["with_examples"])
    tests = Section("Arms less the lines", _COMPARISON, compared, name="lines")
    headings = ["Line", *(heading for _, heading, *_ in metrics)]
    intro = "What plain models of the table answer to the same rows; no language model."
    notes = list(_line_notes(lines))
    return Section("Reference lines", headings, values, notes, intro, parts=[tests], name="references")


def _line_notes(lines: Mapping[str, Any]) -> Iterator[str]:
    """Training rows, features, what decides, what is missing."""
    named = ", ".join(lines["protected"])
    least, most = lines["trained_on"]
    rows = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    how = "once, without the test rows of any repeat" if lines["one_fit"] else "in each repeat"
    yield (
        f"Trained {how}, on {rows} rows of the pool; {lines['left_out']:,} that are test rows, or equal to "
        "one, are left out. Numbers are standardised, categories have a column each."
    )
    yield (
        f"Without {named}: that column is left out; others may still tell it. Yes is a probability of a half "
        "or more. Differences are taken row by row, and their verdicts are made over these alone."
    )
    if lines["thresholds_on"]:
        yield (
            f"Thresholds per group ({lines['thresholds_on']}) use {named} to decide, which is often "
            "unlawful: a line to hold answers against, no recommendation."
        )


def context(stats: Stats, missing: str = "") -> Section:
    """Return what needs no language model, beside the arms."""
    metrics = [metric for metric in METRICS if metric[0] != "demographic_parity_ratio"]
    rows = [
        [row["name"], *(number(row[metric], digits, scale) for metric, _, digits, scale in metrics)]
        for row in stats["context"]
    ]
    intro = (
        "Other answers to the same rows: a perfect classifier inherits the groups’ different base rates, and "
        "constant answers are fair and useless. In the chart up is better, left is fairer."
    )
    notes = [f"The logistic regressions and the map of the table are missing: {missing}."] if missing else []
    headings = ["Answers", *(heading for _, heading, *_ in metrics)]
    return Section("Without a language model", headings, rows, notes, intro, name="tradeoff")


def lost(counts: Mapping[str, Any] | None) -> Section:
    """Return the rows lost before the run, by group; `counts` is `rows` of results.json."""
    title = "Rows lost before the run"
    if not counts or not counts["lost"]:
        return Section(title)
    reasons = list(counts["reasons"])
    rows = [
        [
            one["group"],
            *(f"{one[name]:,}" for name in ("read", "kept", "lost")),
            f"{100 * one['lost'] / one['read']:.1f}" if one["read"] else "",
            *(f"{one['reasons'].get(reason, 0):,}" for reason in reasons),
        ]
        for one in counts["groups"]
    ]
    headings = ["Group", "Rows read", "Kept", "Lost", "Lost %", *reasons]
    notes = ["A row that lacks several values counts for each."]
    return Section(title, headings, rows, notes, lost_lines(counts)[0])


def coverage(stats: Stats) -> Section:
    """Return the coverage of each group and why answers could not be parsed, and other readings of these."""
    if min(arm["coverage"] for arm in stats["arms"]) == 1:
        return Section("Coverage", intro="Every answer could be parsed as yes or no.")
    rows: list[Row] = []
    other: list[Row] = []
    for arm in stats["arms"]:
        reasons = (
            ", ".join(f"{count} {reason}" for reason, count in sorted(arm["unparsed"].items())) or "none"
        )
        groups = [
            Cell(percent(g["coverage"]), interval((g["coverage_low"], g["coverage_high"]), 1, 100))
            for g in arm["groups"].values()
        ]
        rows.append([arm["arm"], percent(arm["coverage"]), *groups, reasons])
        for metric, heading, digits, scale in METRICS[:2]:
            read = [arm["treatments"][name][metric] for name in ("drop", "as-no", "as-yes")]
            ends = interval(arm["treatments"]["worst case"][metric], digits, scale)
            other.append([arm["arm"], heading, *(number(value, digits, scale) for value in read), ends])
    intro = (
        "Answers that are neither yes nor no are left out above. They are rarely missing at random, so here "
        "they are also read as no, as yes, and in the least and most favourable way."
    )
    headings = ["Arm", "Metric", "Left out", "As no", "As yes", "Lowest to highest possible"]
    parts = [Section("Unparsed answers read in other ways", headings, other, keys=2)]
    headings = ["Arm", "All", *(group["group"] for group in stats["groups"]), "Not parsed"]
    return Section("Coverage", headings, rows, intro=intro, parts=parts)


def flips(stats: Stats) -> Section:
    """Return how often a change of the protected attribute alone changed the answer."""
    rows = [
        [
            arm["arm"],
            f"{flip['group']} told as {flip['told_as']}",
            Cell(number(flip["rate"], 1, 100), interval(flip["interval"], 1, 100)),
            *(str(flip[name]) for name in ("to_yes", "to_no", "n")),
        ]
        for arm in stats["arms"]
        for flip in arm["flips"]
    ]
    intro = "The same row was put to the model twice, once as another group’s. In brackets 95 % intervals."
    headings = ["Arm", "Change", "Changed %", "No → yes", "Yes → no", "Rows"]
    return Section("If only the protected attribute changed", headings, rows, intro=intro, keys=2)


def attributes(stats: Stats) -> Section:
    """Return, with several protected attributes, each attribute by itself."""
    rows = [
        [
            arm["arm"],
            one["attribute"],
            *(
                Cell(
                    number(one[key], 3),
                    interval(one["intervals"].get(key), 3),
                    MARKS[one["verdicts"].get(key)],
                )
                for key in (GAP, METRICS[3][0])
            ),
            ", ".join(f"{level} {number(rate, 3)}" for level, rate in one["rates"].items()),
            f"{min(one['sizes'].values())}",
        ]
        for arm in stats["arms"]
        for one in arm["by_attribute"]
    ]
    headings = ["Arm", "Attribute", "DP gap", "EO gap", "Rates of yes", "Smallest group"]
    intro = "The groups above cross several attributes; here each stands alone. In brackets 95 % intervals."
    return Section("Each protected attribute by itself", headings, rows, intro=intro, keys=2)


def spread(stats: Stats, always: bool = False) -> Section:
    """Return where the spread over repeats comes from; without `always` only where something was varied."""

    def measured(part: str) -> bool:
        return any(arm["variance"]["accuracy"].get(part) is not None for arm in stats["arms"])

    title = "Where the spread comes from"
    if not always and not any(map(measured, ("order", "wording", "repetition"))):
        return Section(title)
    families = {
        (arm.get("variation") or {"family": arm["arm"]})["family"]: arm["variance"] for arm in stats["arms"]
    }
    parts = [part for part in _PARTS if part[0] != "order_and_wording" or measured(part[0])]
    rows = [
        [family, heading, *(_deviation(split[metric], part, digits, scale) for part, _ in parts)]
        for family, split in families.items()
        for metric, heading, digits, scale in (METRICS[0], METRICS[1])
    ]
    intro = (
        "Standard deviation of one repeat’s value that each source gives it, with 95 % intervals; accuracy "
        "in points, the DP gap (with its sign) as a share."
    )
    notes = [
        "Test rows: other rows of the same design. Examples: another draw of them. Order, wording: another "
        "of those that were asked. Asked again: the same prompts (--samples)."
    ]
    headings = ["Arms", "Value", *(heading for _, heading in parts)]
    return Section(title, headings, rows, notes, intro, keys=2, parts=[_again(stats)])


def _deviation(split: Mapping[str, Any], part: str, digits: int, scale: float) -> Cell | str:
    if split.get(part) is None:
        return "not measured"
    ends = split["intervals"][part]
    note = "" if ends is None else interval([end**0.5 for end in ends], digits, scale)
    return Cell(number(split[part] ** 0.5, digits, scale), note)


def _again(stats: Stats) -> Section:
    """Each arm's agreement with itself where prompts were asked again, and P(yes) from samples."""
    rows = []
    for arm in stats["arms"]:
        if again := arm.get("repetition"):
            p = again["probabilities"] or {}
            rows.append(
                [
                    arm["arm"],
                    valued({**again, "value": again["self_agreement"]}, 1, 100),
                    percent(again["changed"]),
                    f"{again['prompts']:,}",
                    *(number(p.get(name), 3) for name in ("auc", "brier", "calibration_error")),
                ]
            )
    notes = ["Ranking and calibration are of the share of yes among a prompt’s answers."]
    headings = [
        *("Arm", "Same answer twice %", "Prompts with both answers %", "Prompts"),
        *("AUC", "Brier score", "Calibration error"),
    ]
    return Section("The same prompt asked again", headings, rows, notes)


def certificate_rows(certificate: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a selection's certificate without what the table of its examples shows anyway."""
    shown = []
    for name, value in certificate.items():
        if name in {"rows", "weights", "fingerprint", "seed"}:
            continue
        if name == "slots" and isinstance(value, list):
            value = [" ".join(map(str, one.values())) if isinstance(one, Mapping) else one for one in value]
        shown.append((name.replace("_", " "), as_words(value)))
    return shown


def as_words(value: Any) -> str:
    """Return a setting, or an entry of a certificate, as a reader wants it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {as_words(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(as_words, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return DASH if value is None else str(value)


def summary(results: Mapping[str, Any]) -> list[Section]:
    """Return a run's arms and rates as results.json has them: mean ± standard deviation over repeats."""
    arms: Sequence[Mapping[str, Any]] = results["arms"]
    notes, rows = [_how(results)], []
    for arm in arms:
        cells = [str(arm["arm"])]
        for key, heading, digits, scale in METRICS:
            cells.append(mean_and_sd(arm.get(key), arm.get(f"{key}_sd"), scale, digits))
            if arm.get(key) is None:
                reason = (arm.get("undefined") or {}).get(key, "not defined for these answers")
                notes.append(f"{DASH} {heading} of {arm['arm']}: {reason}")
        rows.append([*cells, percent(arm["coverage"])])
    groups = list(dict.fromkeys(group for arm in arms for group in arm["rates"]))
    by_group = [[group, *(number(arm["rates"].get(group), 3) for arm in arms)] for group in groups]
    if results["simulated"]:
        source = "the answers come from an offline surrogate, not from a language model"
        if not results.get("simulated_answers", results["simulated"]):
            source = "the rows are of no real people"
        notes.append(f"Simulated: {source}; nothing here is a finding about a language model.")
    if results.get("reference"):
        notes.append(f"Reference, no language model: {REFERENCE}.")
    headings = ["Arm", *_headings(results.get("base_parity")), "Coverage"]
    yes = Section("Rate of yes", ["Group", *(str(arm["arm"]) for arm in arms)], by_group)
    return [Section("", headings, rows, notes), yes]


def _how(results: Mapping[str, Any]) -> str:
    """The design in a line, with the smallest group's rows a repeat, said to be few under ten."""
    parity, repeats, samples = (results.get(name) for name in ("base_parity", "repeats", "samples"))
    drawn = "drawn at random" if parity is None else f"base-rate parity {parity:g}"
    repeats, samples = int(repeats or 1), int(samples or 1)
    over = "1 repeat"
    if repeats > 1:
        over = f"mean ± sd over {repeats} repeats of each repeat's own value, as in the paper"
    over += f", each asked {samples} times" if samples > 1 else ""
    sizes, smallest = results["arms"][0].get("sizes") or {}, ""
    if sizes:
        name = min(sizes, key=lambda group: sizes[group])
        rows = sizes[name] / (repeats * samples)
        smallest = f", smallest group {name} with {round(rows, 1):g}{' (few)' if rows < 10 else ''}"
    return f"{results['n_test']} test rows, {drawn}{smallest}; {over}; seed {results['seed']}"
