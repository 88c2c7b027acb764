"""Builds the sections of a report from statistics; all output formats share them.

`stats` is the return value of `metrics.statistics.statistics`; `run` is one entry of a document's
`runs`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fwc_llm.metrics.counts import BY_KEY, REPLIES, TABLE, Metric
from fwc_llm.metrics.intervals import DIFFERS, INCONCLUSIVE, NOT_SHOWN, SHOWN, WITHIN, Verdict
from fwc_llm.metrics.variance import THESE_EXAMPLES, THIS_STRATEGY, scope_words
from fwc_llm.report.narrative import lost_lines
from fwc_llm.report.number_format import DASH, interval, mean_and_sd, number, p_value, percent
from fwc_llm.report.table_model import Row, Scale, Section, TableCell, difference, valued

Stats = Mapping[str, Any]
HEADLINE = [metric for metric in TABLE if metric.headline]
ACCURACY, GAP, ODDS_GAP = map(
    BY_KEY.__getitem__, ("accuracy", "dp_gap", "eo_gap")
)
PLAIN = [metric for metric in HEADLINE if metric.kind != "ratio"]  # metrics of reference lines
COMPARED = (
    (ACCURACY.key, 1, 100.0),
    (GAP.key, 3, 1.0),
)  # (metric, decimals, scale of a difference)
_COMPARISON = (
    *("Arms", "Accuracy, points", "p (adjusted)", "Verdict"),
    *("DP gap", "p (adjusted)", "Verdict", "Holds for", "Answers"),
)
MARKS = {DIFFERS: "≠", WITHIN: "≠≈", NOT_SHOWN: "≈", INCONCLUSIVE: "?", None: ""}
ALIKE = "†"  # marks an arm with (nearly) the same answer to all rows; its gaps have no verdict
DEFINITIONS = {  # of terms in headings
    "Accuracy %": "the share of answers that agree with the true outcome.",
    "DP gap": "the largest rate of yes of any group less the smallest (demographic parity "
    "difference).",
    "DP ratio": "the smallest rate of yes of any group divided by the largest (demographic parity "
    "ratio).",
    "EO gap": "the larger of the gaps in true and in false positive rates (equalized odds "
    "difference).",
    "TPR gap": "the gap in true positive rates (equal opportunity).",
    "FPR gap": "the gap in false positive rates.",
    "Precision gap": "the gap in precision, the share of true yes among answers of yes (predictive "
    "parity).",
    "Coverage": "the share of replies that contain a yes or a no; other numbers use these replies "
    "alone.",
    "Selection rate": "the share of yes among the rows with an answer.",
    "Impact ratio": "a group's selection rate divided by the highest group's.",
    "Four fifths": "whether the impact ratio is below 0.8, a rule of practice.",
    "Shortfall": "how many more of a group would have to be selected for an impact ratio of 1.",
    "AUC": "how often a row with a true yes has a higher P(yes) than a row with a true no; 0.5 is "
    "chance.",
    "Brier score": "the mean squared error of P(yes); always 0.5 scores 0.25.",
    "Calibration error": "how far P(yes) is from the share of true yes, on average over ten bins.",
    "p (adjusted)": "the p-value, adjusted for the number of comparisons.",
    "Verdict": "the conclusion from the interval, widened for the number of comparisons.",
}
_MOST_GROUPS = 3  # most groups with a column in the first table
_BESIDE = 4  # most arms with a column in the table of groups


def first(stats: Stats) -> Section:
    """The first table: arms by increasing gap, then the true answers."""

    def by_gap(arm: Stats) -> tuple[bool, bool, float]:
        gap = arm[GAP.key]["value"]
        return bool(arm["alike"]), gap is None, gap or 0.0

    labelled = stats["labelled"]
    arms = sorted(stats["arms"], key=by_gap)
    judged = [group["group"] for group in stats["groups"] if group["judged"]]
    few = len(judged) <= _MOST_GROUPS
    shown = [GAP, *[ACCURACY] * labelled]
    coverage = any(arm["coverage"] < 1 for arm in arms)
    rows: list[Row] = [
        [
            arm["arm"],
            *_group_rates({name: arm["groups"][name]["rate"] for name in judged}, few),
            *_values(arm, shown),
            *[percent(arm["coverage"])] * coverage,
        ]
        for arm in arms
    ]
    true_gap = next((row[GAP.key] for row in stats["context"] if row["name"] == "oracle"), None)
    if labelled:
        base = {group["group"]: group["base_rate"] for group in stats["groups"] if group["judged"]}
        perfect = [*_group_rates(base, few), number(true_gap, GAP.digits), "100", *[""] * coverage]
        rows.append(["true answers", *perfect])
    if few:
        headings = ["Arm", *(f"Yes, {name} %" for name in judged)]
    else:
        headings = ["Arm", "Lowest rate %", "Highest rate %"]
    headings += [*(metric.title for metric in shown), *["Coverage"] * coverage]
    place = headings.index(GAP.title)
    ends = [
        end
        for arm in arms
        for end in (arm[GAP.key]["high"], arm[GAP.key]["value"])
        if end is not None
    ]
    end = next(
        (end for end in (0.1, 0.2, 0.3, 0.4, 0.5) if max([*ends, true_gap or 0.0]) <= end), 1.0
    )
    scales = {place: Scale(0.0, end, true_gap, stats["margin"])}
    if labelled:
        scales[place + 1] = Scale(0.0, 1.0, factor=100.0)
    marks = {cell.mark for row in rows for cell in row if isinstance(cell, TableCell)}
    notes = [legend(stats["margin"], marks), *_undefined(stats, shown)]
    return Section("Results", headings, rows, notes, name="arms", scales=scales)


def _group_rates(rates: Mapping[str, float | None], few: bool) -> list[str]:
    """Rates of yes in percent: of each group (`few`), or lowest and highest."""
    known = {name: rate for name, rate in rates.items() if rate is not None}
    if few or not known:
        if few:
            return [number(rate, 1, 100) for rate in rates.values()]
        return [DASH, DASH]
    ends = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    return [f"{number(known[name], 1, 100)} {name}" for name in ends]


def results(stats: Stats) -> Section:
    """The arms with headline metrics; a mark after a gap is its verdict."""
    metrics = [metric for metric in HEADLINE if stats["labelled"] or metric.rates == ("rate",)]
    rows = [[arm["arm"], *_values(arm, metrics), percent(arm["coverage"])] for arm in stats["arms"]]
    rest = [
        metric for metric in metrics if metric not in (GAP, ACCURACY)
    ]  # the first table has these two
    notes = [legend(stats["margin"]), *_reading(stats), *_undefined(stats, rest), *stats["notes"]]
    perfect = stats.get("perfect_gap")
    if perfect:  # DP gap of correct answers in a designed sample
        notes.insert(0, f"In this design even correct answers have a DP gap of {perfect:.2f}.")
    titles = [metric.title for metric in metrics]
    return Section(
        "All headline metrics", ["Arm", *titles, "Coverage"], rows, notes, name="results"
    )


def _values(arm: Stats, metrics: Sequence[Metric]) -> Iterator[TableCell | str]:
    for metric in metrics:
        value = arm.get(metric.key)  # missing for AUC and Brier gaps without P(yes)
        if value:
            mark = _mark(arm, metric, value.get("verdict"))
        else:
            mark = ""
        yield valued(value, metric.digits, metric.scale, mark) if value else DASH


def _mark(arm: Stats, metric: Metric, verdict: Verdict | None) -> str:
    alike = bool(verdict and arm["alike"]) and metric.source == "answers"
    return ALIKE if alike else MARKS[verdict]


def _undefined(stats: Stats, metrics: Sequence[Metric]) -> list[str]:
    return [
        f"{DASH} {BY_KEY[key].title} of {arm['arm']}: {reason}."
        for arm in stats["arms"]
        for key, reason in arm["reasons"].items()
        if BY_KEY.get(key) in metrics
    ]


def further(stats: Stats) -> Section:
    """The gaps that are not headline metrics; AUC and Brier score per group, if known."""
    arms = stats["arms"]
    rest = [metric for metric in TABLE if not metric.headline]
    shown = [
        m for m in rest if any((arm.get(m.key) or {}).get("value") is not None for arm in arms)
    ]
    if shown:
        rows = [[arm["arm"], *_values(arm, shown)] for arm in arms]
    else:
        rows = []
    notes = [
        "TPR gap: equal opportunity. Precision gap: predictive parity.",
        *_undefined(stats, shown),
    ]
    ranked = [
        (metric.title.removesuffix(" gap"), *metric.rates)
        for metric in rest
        if metric.source == "p_yes"
    ]
    scores = [
        [name, arm["arm"], *(valued(group, 3, key=rate, ends=f"{rate}_") for _, rate in ranked)]
        for arm in arms
        for name, group in arm["groups"].items()
        if any(group.get(rate) is not None for _, rate in ranked)
    ]
    headings = ["Group", "Arm", *(title for title, _ in ranked)]
    parts = [Section("AUC and Brier score per group", headings, scores, keys=2)]
    intro = "In brackets 95 % intervals; the marks are verdicts, as above."
    headings = ["Arm", *(metric.title for metric in shown)]
    return Section("Further gaps", headings, rows, notes, intro, name="further", parts=parts)


def overview(runs: Sequence[tuple[str, Stats]], title: str) -> Section:
    """The arms of several runs (label, statistics) in one table, without comparisons."""
    tables = [(label, results(stats)) for label, stats in runs]
    rows = [[label, *row] for label, table in tables for row in table.rows]
    return Section(title, ["Run", *tables[0][1].headings], rows, keys=2, name="overview")


def _reading(stats: Stats) -> Iterator[str]:
    if stats["repeats"] > 1:
        yield "The DP gap compares each group's rate averaged over the repeats."
    kinds = {
        THESE_EXAMPLES: "Intervals cover other rows with these examples (with several repeats, "
        "also other "
        "examples).",
        THIS_STRATEGY: "Intervals cover other rows and other draws of the examples.",
    }
    for of, covers in kinds.items() if stats["with_examples"] else ():
        arms = [arm["arm"] for arm in stats["arms"] if arm["of"] == of]
        if arms:
            yield covers if len(arms) == len(stats["arms"]) else f"{', '.join(arms)}: {covers}"


def legend(margin: float, marks: Collection[str] | None = None) -> str:
    """The legend of intervals and of `marks`; by default, of all marks."""
    meanings = {
        "≠": "groups differ",
        "≠≈": "groups differ, by less than the margin",
        "≈": f"no difference that matters (under {margin:g})",
        "?": "not settled by these data",
        ALIKE: "(nearly) all answers alike: the gap says nothing",
    }
    shown = (
        f"   {mark} {words}" for mark, words in meanings.items() if marks is None or mark in marks
    )
    return f"Intervals: 95 %.{''.join(shown)}"


def rates(stats: Stats) -> Section:
    """The groups: rows, true share of yes, rates of yes with intervals."""
    arms = stats["arms"]
    rows = list[Row]()
    beside = len(arms) <= _BESIDE
    for group in stats["groups"]:
        name = group["group"]
        few = " (few)" if group["small"] else ""
        shown = [valued(arm["groups"][name], 3, key="rate") for arm in arms]
        leading = [f"{group['n']:,}{few}", *[percent(group["base_rate"])] * stats["labelled"]]
        if beside:
            rows.append([name, *leading, *shown])
        else:
            rows += [
                [name, arm["arm"], *leading, cell] for arm, cell in zip(arms, shown, strict=True)
            ]
    leading = ["Rows", *["True share of yes"] * stats["labelled"]]
    headings = ["Group", *leading, *(f"Yes, {arm['arm']}" for arm in arms)]
    if beside:
        headings = headings
    else:
        headings = ["Group", "Arm", *leading, "Rate of yes"]
    notes = [
        "Shares of yes, with 95 % intervals. The DP gap is the largest share less the smallest."
    ]
    sizes = [
        group["n"] for group in stats["groups"] for _ in range(len(rows) // len(stats["groups"]))
    ]
    title = "Rate of yes per group"
    keys = 1 if beside else 2
    scales = {column: Scale(0.0, 1.0) for column in range(keys + len(leading), len(headings))}
    return Section(
        title, headings, rows, notes, keys=keys, name="rates", sizes=sizes, scales=scales
    )


def paper(stats: Stats) -> Section:
    """The paper's summary: mean ± SD over repeats of the metrics per repeat."""

    def cell(arm: Mapping[str, Any], metric: Metric) -> str:
        own = arm[metric.key]["paper_summary"]
        return mean_and_sd(own["mean"], own["sd"], metric.scale, metric.digits)

    if stats["repeats"] > 1:
        arms = stats["arms"]
    else:
        arms = ()
    rows = [[arm["arm"], *(cell(arm, metric) for metric in HEADLINE)] for arm in arms]
    intro = (
        "Mean ± standard deviation over the repeats. The mean of the gaps is at least the gap of "
        "the mean "
        "rates: noise raises it, and raises it more with fewer rows per repeat."
    )
    headings = ["Arm", *(metric.title for metric in HEADLINE)]
    return Section("The paper’s summary", headings, rows, intro=intro, name="repeats")


def comparisons(stats: Stats) -> Section:
    """Compared pairs of arms: differences, p-values, verdicts and scope."""
    intro = (
        "All arms were asked about the same rows, so differences are taken row by row. A "
        "comparison that "
        "holds for “this strategy” covers other draws of the examples and counts repeats. A "
        "comparison that "
        "holds for “these examples” covers only the prompts that were sent and counts rows."
    )
    if not stats["with_examples"]:
        intro = "All arms decided about the same rows, so differences are taken row by row."
    notes = ["Verdicts use intervals widened for the number of comparisons."]
    rows = _compared(stats, ("first", "second"), stats["with_examples"])
    return Section("Which arms differ", _COMPARISON, rows, notes, intro)


def _compared(stats: Stats, names: tuple[str, str], with_examples: bool) -> list[Row]:
    rows: list[Row] = []
    for test in stats["comparisons"]:
        cells: list[TableCell | str] = [f"{test[names[1]]} vs {test[names[0]]}"]
        for metric, digits, scale in COMPARED:
            cells += [difference(test[metric], digits, scale), p_value(test[metric]["p_adjusted"])]
            cells.append(verdict_on(test[metric]))
        rows.append([*cells, scope_words(test["of"], with_examples), f"{test['n']}"])
    return rows


def verdict_on(test: Mapping[str, Any]) -> str:
    """The verdict on a difference in words."""
    if test["difference"] is not None:
        return SHOWN[test["verdict"] or INCONCLUSIVE]
    return "undefined"


def references(stats: Stats) -> Section:
    """The reference lines: values, and each arm's difference from each line."""
    lines = stats.get("reference_lines")
    if lines is None:
        return Section("Reference lines")
    values: list[Row] = [
        [
            line["line"],
            *(valued(line[m.key], 1 if m is ACCURACY else m.digits, m.scale) for m in PLAIN),
        ]
        for line in lines["lines"]
    ]
    compared = _compared(lines, ("line", "arm"), stats["with_examples"])
    tests = Section("Arms minus reference lines", _COMPARISON, compared, name="lines")
    intro = "Reference models (no language models), trained on the table, answer the same rows."
    least, most = lines["trained_on"]
    if least == most:
        rows = f"{most:,}"
    else:
        rows = f"{least:,} to {most:,}"
    how = "once, without the test rows of any repeat" if lines["one_fit"] else "in each repeat"
    notes = [
        f"Trained {how}, on {rows} rows of the pool; {lines['left_out']:,} further rows are left "
        f"out: test "
        "rows, and rows equal to a test row. Numbers are standardised; every category has its own "
        "column.",
        f"Models without {', '.join(lines['protected'])} do not get these columns; other columns "
        f"may still "
        "reveal them. An answer is yes if its probability is at least 0.5. Differences are taken "
        "row by row; "
        "their verdicts are adjusted for these comparisons alone.",
    ]
    headings = ["Line", *(metric.title for metric in PLAIN)]
    return Section(
        "Reference lines", headings, values, notes, intro, parts=[tests], name="references"
    )


def lost(counts: Mapping[str, Any] | None) -> Section:
    """The rows lost before the run, by group; `counts` is `rows` of results.json."""
    title = "Rows lost before the run"
    if not counts or not counts["lost"]:
        return Section(title)
    reasons = list(counts["reasons"])
    rows = [
        [
            group["group"],
            *(f"{group[name]:,}" for name in ("read", "kept", "lost")),
            f"{100 * group['lost'] / group['read']:.1f}" if group["read"] else "",
            *(f"{group['reasons'].get(reason, 0):,}" for reason in reasons),
        ]
        for group in counts["groups"]
    ]
    headings = ["Group", "Rows read", "Kept", "Lost", "Lost %", *reasons]
    notes = ["A row that lacks several values counts under each of its reasons."]
    return Section(title, headings, rows, notes, lost_lines(counts)[0])


def coverage(stats: Stats) -> Section:
    """Shares of replies by reason for having no answer, by group; other treatments of these."""
    if min(arm["coverage"] for arm in stats["arms"]) == 1:
        return Section("Coverage", intro="Every answer could be parsed as yes or no.")
    rows = list[Row]()
    other = list[Row]()
    notes = list[str]()
    for arm in stats["arms"]:
        for share, gap in zip(REPLIES[::2], REPLIES[1::2], strict=True):
            of_all = arm["replies"][share.key]
            between = arm["replies"][gap.key]
            rate = share.rates[0]
            if share.key == "coverage" or of_all["value"]:
                groups = (
                    valued(group, 1, 100, "", rate, f"{rate}_") for group in arm["groups"].values()
                )
                mark = MARKS[between["verdict"]]
                title = share.title.removesuffix(" %")
                rows.append(
                    [
                        arm["arm"],
                        title,
                        valued(of_all, 1, 100),
                        *groups,
                        valued(between, 3, 1, mark),
                    ]
                )
        if arm["unparsed"]:
            why = ", ".join(
                f"{count} {reason}" for reason, count in sorted(arm["unparsed"].items())
            )
            notes.append(f"{arm['arm']}, without an answer: {why}.")
        for metric in (ACCURACY, GAP):
            read = arm["treatments"]
            how = (metric.digits, metric.scale)
            values = [
                number(value, *how)
                for value in (arm[metric.key]["value"], read["as-no"][metric.key])
            ]
            ends = [
                interval(read[kind][metric.key], *how)
                for kind in ("worst case", "worst case, 95 %")
            ]
            other.append([arm["arm"], metric.title, *values, *ends])
    intro = (
        "Shares of the replies, in percent, with 95 % intervals, and the largest difference "
        "between groups "
        "with its verdict. Replies without an answer are rarely missing at random: verdicts hold "
        "whether "
        "each of them counts as yes or as no, unless an assumption is set."
    )
    headings = ["Arm", "Metric", "Value", "As no", "Lowest to highest", "Its 95 % interval"]
    parts = [Section("Other treatments of replies without an answer", headings, other, keys=2)]
    headings = ["Arm", "Replies", "All", *(group["group"] for group in stats["groups"]), "Gap"]
    return Section("Coverage", headings, rows, notes, intro, keys=2, parts=parts)


def flips(stats: Stats) -> Section:
    """How often a change of only the protected attribute changed the answer."""
    rows = [
        [
            arm["arm"],
            f"{flip['group']} shown as {flip['told_as']}",
            TableCell(number(flip["rate"], 1, 100), interval(flip["interval"], 1, 100)),
            *(str(flip[name]) for name in ("to_yes", "to_no", "n")),
        ]
        for arm in stats["arms"]
        for flip in arm["flips"]
    ]
    intro = (
        "The same row was put to the model twice, once as another group’s. In brackets 95 % "
        "intervals."
    )
    headings = ["Arm", "Change", "Changed %", "No → yes", "Yes → no", "Rows"]
    return Section("If only the protected attribute changed", headings, rows, intro=intro, keys=2)


_PROBES = {
    "names": (
        "First names of another group",
        "The same row, once with a first name of one group and once with a first name of another. "
        "It shows "
        "the effect of the name in addition to the row; names also hint at age and class, and the "
        "lists are "
        "American.",
        "row",
    ),
    "proxies": (
        "Exchanged columns that reveal the group",
        "The same row with the columns that reveal the group best, taken from the most similar row "
        "of "
        "another group. It shows their joint effect, part of which may be legitimate.",
        "row",
    ),
}


def probes(stats: Stats) -> list[Section]:
    """The effects of probes on answers, one table each."""
    shown = []
    for kind, (title, intro, cluster) in _PROBES.items():
        rows = [
            [
                arm["arm"],
                " → ".join(filter(None, (probe["group"], probe["told_as"]))),
                *(valued(probe[name], 1, 100) for name in ("changed", "yes", "accuracy", "p_yes")),
                str(probe["n"]),
                str(probe["lost"]),
            ]
            for arm in stats["arms"]
            for probe in arm["probes"]
            if probe["probe"] == kind
        ]
        ends = (
            f"Changes are in percentage points; in brackets paired 95 % intervals, clustered by "
            f"{cluster}."
        )
        headings = ["Arm", "Group", "Changed %", "Yes", "Accuracy", "P(yes)", "Rows", "Lost"]
        shown.append(Section(title, headings, rows, intro=f"{intro} {ends}", keys=2))
    return shown


def attributes(stats: Stats) -> Section:
    """Gaps and rates by each single attribute, if several are crossed."""
    rows = [
        [
            arm["arm"],
            attribute["attribute"],
            *(
                TableCell(
                    number(attribute[key]),
                    interval(attribute["intervals"].get(key)),
                    _mark(arm, BY_KEY[key], attribute["verdicts"].get(key)),
                )
                for key in (GAP.key, ODDS_GAP.key)
            ),
            ", ".join(f"{level} {number(rate, 3)}" for level, rate in attribute["rates"].items()),
            f"{min(attribute['sizes'].values())}",
        ]
        for arm in stats["arms"]
        for attribute in arm["by_attribute"]
    ]
    headings = ["Arm", "Attribute", GAP.title, ODDS_GAP.title, "Rates of yes", "Smallest group"]
    intro = (
        "The groups above cross several attributes; here each attribute is alone. In brackets 95 % "
        "intervals."
    )
    return Section("Each protected attribute alone", headings, rows, intro=intro, keys=2)


def repetition(stats: Stats) -> Section:
    """Each arm's self-agreement, and the quality of its share of yes as P(yes)."""
    rows = [
        [
            arm["arm"],
            valued(again, 1, 100, key="self_agreement"),
            percent(again["changed"]),
            f"{again['prompts']:,}",
            *(number((again["probabilities"] or {}).get(name)) for name in _RANKED),
        ]
        for arm in stats["arms"]
        if (again := arm.get("repetition"))
    ]
    notes = ["Here P(yes) is the share of yes among a prompt’s answers."]
    headings = [
        "Arm",
        "Same answer twice %",
        "Prompts with both answers %",
        "Prompts",
        *_RANKED.values(),
    ]
    return Section("The same prompt asked again", headings, rows, notes)


_RANKED = {"auc": "AUC", "brier": "Brier score", "calibration_error": "Calibration error"}


def as_words(value: Any) -> str:
    """Format a setting or a certificate entry as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {as_words(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(as_words, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None:
        return DASH
    return str(value)
