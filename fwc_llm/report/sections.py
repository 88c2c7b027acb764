"""Builds the sections of a report from statistics; all output formats share them.

Every table is a pivot of the records: its rows and columns are named here, its cells are looked up.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fwc_llm.gates.decide import CANNOT_SAY, OUTSIDE, WITHIN, by_arm, checked, limits_of
from fwc_llm.gates.sentences import bounds_of, in_words
from fwc_llm.metrics.counts import BY_KEY, DECIDED, REPLIES, TABLE, Metric
from fwc_llm.metrics.intervals import ALIKE
from fwc_llm.metrics.records import (
    CHANGED_ATTRIBUTE,
    DECIDED_SCOPE,
    NAMES,
    TRUTH,
    Record,
)
from fwc_llm.metrics.statistics import Statistics, fates
from fwc_llm.metrics.variance import THESE_EXAMPLES, THIS_STRATEGY
from fwc_llm.number_format import DASH, mean_and_sd, number, p_value, percent
from fwc_llm.report.narrative import lost_lines
from fwc_llm.report.table_model import (
    Cells,
    Row,
    Scale,
    Section,
    TableCell,
    difference,
    metric_cell,
    rates_cell,
    valued,
)
from fwc_llm.sanitize import Fields
from fwc_llm.words import is_known

HEADLINE = [metric for metric in TABLE if metric.headline]
_COMPARISON = (
    "Arms",
    "Metric",
    "Difference",
    "p (adjusted)",
    "Verdict",
    "Holds for",
    "Answers",
)
DEFINITIONS = {  # of terms in headings
    "Accuracy %": "the share of answers that agree with the true outcome.",
    "DP gap": "the largest rate of yes of any group less the smallest (demographic parity "
    "difference).",
    "Gap at equal labels": "the mean, over true no and true yes, of the difference in rates of yes "
    "between groups; 0 for perfect answers.",
    "Limits": "whether the numbers keep to the limits of all gates, by their whole intervals; "
    "without gates, whether the first gap is within the margin.",
    "DP ratio": "the smallest rate of yes of any group divided by the largest (demographic parity "
    "ratio).",
    "EO gap": "the larger of the gaps in true and in false positive rates (equalized odds "
    "difference). Its interval allows for both gaps, so it is wider than theirs.",
    "Refer gap": "the largest share of cases referred to a person of any group less the smallest.",
    "TPR gap": "the gap in true positive rates (equal opportunity).",
    "FPR gap": "the gap in false positive rates.",
    "Precision gap": "the gap in precision, the share of true yes among answers of yes (predictive "
    "parity).",
    "Coverage": "the share of replies that contain a yes or a no; other numbers use these replies "
    "alone.",
    "Selected, %": "the share of yes among the rows with an answer.",
    "Impact ratio": "a group's selection rate divided by the highest group's.",
    "Four fifths": "whether the impact ratio is below 0.8, a rule of practice.",
    "Shortfall": "how many more of a group would have to be selected for an impact ratio of 1.",
    "AUC": "how often a row with a true yes has a higher P(yes) than a row with a true no; 0.5 is "
    "chance.",
    "Brier score": "the mean squared error of P(yes); always 0.5 scores 0.25.",
    "Calibration error": "how far P(yes) is from the share of true yes, on average over ten bins.",
    "p (adjusted)": "the p-value of the replies that were read, adjusted for the number of "
    "comparisons.",
    "Verdict": "the conclusion from the interval in the same row.",
}


# Several runs: label, statistics, conditions.
Models = Sequence[tuple[str, Statistics, Sequence[str]]]
_MARKS = {"": "", WITHIN: "✓", OUTSIDE: "✗", CANNOT_SAY: "?"}
_INTERVALS = "Gaps are in points, with 95 % intervals."
_LEGEND = (
    "✓ within all limits   ✗ outside of one   ? cannot say   "
    "= all answers are alike, so that the gap tells nothing."
)


def first(stats: Statistics, conditions: Sequence[str] = ()) -> Section:
    """The first table: who gets how much by each way of asking, the smallest gap first.

    Then the true answers. Without `conditions`, the limit is the margin of the leading gap.
    """

    def by_gap(arm: str) -> tuple[bool, bool, float]:
        gap = stats.of(stats.lead, arm)
        return gap.verdict == ALIKE, not gap.known, gap.value

    metrics = [BY_KEY[key] for key in stats.leading]
    outcomes = by_arm(checked(stats, conditions))
    limits = limits_of(stats, conditions)
    true = stats.shares(TRUTH)
    rows: list[Row] = []
    for arm in (
        *sorted((arm.arm for arm in stats.arms), key=by_gap),
        *[TRUTH] * bool(true),
    ):
        cells: Cells = [
            metric_cell(stats.of(metric.key, arm), metric, bounds_of(limits, metric))
            for metric in metrics
        ]
        hollow = {} if arm == TRUTH else true
        yes = rates_cell(stats.shares(arm), hollow, of_unknown_groups(stats, arm))
        outcome = outcomes.get(arm, DASH * (arm != TRUTH))
        rows.append([in_words(arm), outcome, yes, *cells])
    titles = (metric.title for metric in metrics)
    headings = ["Asked", "Limits", "Yes, %", *titles]
    if not stats.with_examples:
        headings[0] = "Decided by"
    notes = [_INTERVALS, *_undefined(stats, metrics)]
    return Section("Who gets how much", headings, rows, notes, name="arms")


def of_unknown_groups(stats: Statistics, arm: str) -> Iterator[str]:
    """The rate of yes and the number of people whose group is not known, who are not judged."""
    for group in stats.groups:
        rate = stats.of("selection_rate", arm, group.group)
        if not is_known(group.group) and rate.known:
            yield f"{group.group} {number(rate.value, 1, 100)} (of {group.n:,}, not judged)"


def metrics_of(stats: Statistics) -> list[Metric]:
    """The metrics that some arm has."""
    arms = [arm.arm for arm in stats.arms]
    return [
        metric
        for metric in TABLE
        if any(stats.of(metric.key, arm).known for arm in arms)
    ]


def results(stats: Statistics) -> Section:
    """All metrics of every arm, with verdicts."""
    metrics = metrics_of(stats)
    rows: list[Row] = []
    for arm in stats.arms:
        for metric in metrics:
            record = stats.of(metric.key, arm.arm)
            rows.append(
                [arm.arm, metric.title, metric_cell(record, metric), record.verdict]
            )
        for key, metric in DECIDED.items():
            record = stats.of(key, arm.arm, scope=DECIDED_SCOPE)
            if record.known:
                title = f"{metric.title}, {DECIDED_SCOPE}"
                cell = metric_cell(record, metric)
                rows.append([arm.arm, title, cell, record.verdict])
    notes = [_INTERVALS, *_reading(stats), *_undefined(stats, TABLE), *stats.notes]
    headings = ["Arm", "Metric", "Value", "Verdict"]
    return Section("All metrics", headings, rows, notes, keys=2, name="results")


def overview(models: Models) -> Section:
    """Who gets how much by each model and way of asking, then the true answers."""
    tables = {label: first(stats, limits) for label, stats, limits in models}
    rows: list[Row] = []
    for label, table in tables.items():
        rows += [
            [f"{label}: {row[0]}", *row[1:]] for row in table.rows if row[0] != TRUTH
        ]
    found = list(tables.values())
    rows += [row for row in found[0].rows if row[0] == TRUTH]
    return replace(found[0], rows=rows, notes=found[0].notes[:1])


def grid(models: Models) -> Section:
    """The leading gap with the outcome, the DP gap, and the accuracy: models × ways of asking."""
    _, stats, _ = models[0]
    arms = dict.fromkeys(arm.arm for _, of, _ in models for arm in of.arms)
    tables = []
    for key in stats.leading:
        rows: list[Row] = []
        for label, of, conditions in models:
            told = by_arm(checked(of, conditions)) if key == stats.lead else {}
            limits = bounds_of(limits_of(of, conditions), BY_KEY[key])
            cells = (
                _marked(of.of(key, arm), told.get(arm, ""), limits) for arm in arms
            )
            rows.append([label, *cells])
        tables.append(
            Section(
                BY_KEY[key].title, ["Model", *map(in_words, arms)], rows, name="grid"
            )
        )
    return replace(tables[0], notes=[_LEGEND, _INTERVALS], parts=tables[1:])


def _marked(record: Record, outcome: str, limits: Sequence[float]) -> TableCell:
    cell = valued(record, limits=limits)
    if not record.known:
        return cell
    mark = "=" if record.verdict == ALIKE else _MARKS[outcome]
    return replace(cell, text=f"{cell.text} {mark}".rstrip())


def _undefined(stats: Statistics, metrics: Sequence[Metric]) -> list[str]:
    found = []
    for arm in stats.arms:
        for metric in metrics:
            record = stats.of(metric.key, arm.arm)
            if record.reason:
                found.append(f"{DASH} {metric.title} of {arm.arm}: {record.reason}.")
    return found


def _reading(stats: Statistics) -> Iterator[str]:
    if stats.repeats > 1:
        yield "A gap compares each group's rate averaged over the repeats."
    kinds = {
        THESE_EXAMPLES: "Intervals cover other rows with these examples.",
        THIS_STRATEGY: "Intervals cover other rows and other draws of the examples.",
    }
    for of, covers in kinds.items():
        arms = [arm.arm for arm in stats.arms if arm.scope == of]
        if arms:
            yield (
                covers
                if len(arms) == len(stats.arms)
                else f"{', '.join(arms)}: {covers}"
            )


def rates(stats: Statistics) -> Section:
    """The groups: rows, true share of yes, rates of yes with intervals."""
    arms = [arm.arm for arm in stats.arms]
    told = {"selection_rate": "Yes"}
    if stats.refers:
        told["refer_rate"] = "Referred"
    rows = list[Row]()
    for group in stats.groups:
        base = stats.of("selection_rate", TRUTH, group.group).value
        size = [f"{group.n:,}", *[percent(base)] * stats.labelled]
        cells: Cells = [
            valued(stats.of(rate, arm, group.group)) for rate in told for arm in arms
        ]
        rows.append([group.group, *size, *cells])
    size = ["Rows", *["True share of yes"] * stats.labelled]
    of_arms = [f"{title}, {arm}" for title in told.values() for arm in arms]
    headings = ["Group", *size, *of_arms]
    notes = [
        "In per cent, with 95 % intervals. The DP gap is the largest rate less the smallest of the "
        "groups that are judged."
    ]
    columns = range(1 + len(size), len(headings))
    scales = dict.fromkeys(columns, Scale(0.0, 1.0, factor=100.0))
    title = "Rate of yes per group"
    return Section(title, headings, rows, notes, name="rates", scales=scales)


def paper(stats: Statistics) -> Section:
    """The paper's summary: mean ± SD over repeats of the metrics per repeat."""
    arms = stats.arms if stats.repeats > 1 else ()
    rows: list[Row] = []
    for arm in arms:
        cells: Cells = []
        for metric in HEADLINE:
            values = stats.records.per_repeat(metric.key, arm.arm)
            cells.append(mean_and_sd(values, metric.scale, metric.digits))
        rows.append([arm.arm, *cells])
    intro = (
        "Mean ± standard deviation over the repeats. The mean of the gaps is at least the gap of "
        "the mean rates: noise raises it, and raises it more with fewer rows per repeat."
    )
    headings = ["Arm", *(metric.title for metric in HEADLINE)]
    return Section("The paper’s summary", headings, rows, intro=intro, name="repeats")


def comparisons(stats: Statistics) -> Section:
    """Compared pairs of arms: differences, p-values, verdicts and scope."""
    intro = (
        "All arms were asked about the same rows, so differences are taken row by row. A "
        "comparison that holds for “this strategy” covers other draws of the examples and counts "
        "repeats. A comparison that holds for “these examples” covers only the prompts that were "
        "sent and counts rows."
    )
    if not stats.with_examples:
        intro = (
            "All arms decided about the same rows, so differences are taken row by row."
        )
    notes = [
        "In points. Intervals are widened, and p-values adjusted, for the number of comparisons."
    ]
    pairs = [(pair.second, pair.first) for pair in stats.pairs]
    rows = compared(stats, pairs)
    return Section("Which arms differ", _COMPARISON, rows, notes, intro, keys=2)


def compared(stats: Statistics, pairs: Sequence[tuple[str, str]]) -> list[Row]:
    """Rows with the differences of pairs (arm, against)."""
    rows: list[Row] = []
    for arm, against in pairs:
        for key in reversed(stats.leading):
            metric = BY_KEY[key]
            test = stats.of(f"{key}_difference", arm, against=against)
            change = difference(test)
            verdict = test.verdict or test.reason or "undefined"
            p = p_value(test.p)
            cells: Cells = [p, verdict, test.scope, f"{test.n or 0}"]
            rows.append([f"{arm} vs {against}", metric.title, change, *cells])
    return rows


def lost(counts: Fields | None) -> Section:
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


def coverage(stats: Statistics, unread: str) -> Section:
    """Shares of replies by reason for having no answer, by group.

    `unread` is a sentence on the most frequent replies without an answer.
    """
    arms = [arm for arm in stats.arms if arm.unparsed]
    if not arms:
        return Section("Coverage", intro="Every answer could be parsed as yes or no.")
    rows = list[Row]()
    notes = list[str]()
    for arm in arms:
        for share, gap in zip(REPLIES[::2], REPLIES[1::2], strict=True):
            of_all = stats.of(share.key, arm.arm)
            between = stats.of(gap.key, arm.arm)
            groups = [
                stats.of(share.key, arm.arm, group.group) for group in stats.groups
            ]
            if of_all.value > 0:
                cells: Cells = [valued(record) for record in (of_all, *groups)]
                title = share.title.removesuffix(" %")
                rows.append([arm.arm, title, *cells, valued(between), between.verdict])
        why = ", ".join(
            f"{count} {reason}" for reason, count in sorted(arm.unparsed.items())
        )
        notes.append(f"{arm.arm}, without an answer: {why}.")
    intro = (
        "Shares of the replies, in percent, with 95 % intervals, and the largest difference "
        "between groups with its verdict. Replies without an answer are rarely missing at random. "
        f"{' '.join(fates(arms, stats.unread))}"
    )
    if unread:
        notes.append(f"{unread[0].upper()}{unread[1:]}.")
    headings = [
        "Arm",
        "Replies",
        "All",
        *(group.group for group in stats.groups),
        "Gap",
        "Verdict",
    ]
    return Section("Coverage", headings, rows, notes, intro, keys=2)


_CHANGED = {
    CHANGED_ATTRIBUTE: (
        "If only the protected attribute changed",
        "The same row was put to the model twice, once as another group’s.",
    ),
    NAMES: (
        "First names of another group",
        "The same row, once with a first name of one group and once with a first name of another. "
        "It shows the effect of the name in addition to the row; names also hint at age and class, "
        "and the lists are American.",
    ),
}


def changed(stats: Statistics, scope: str) -> Section:
    """How answers change if rows are shown with another attribute, or with other first names."""
    differences = "selection_rate", "accuracy", "mean_p_yes"
    counts = "changed_to_yes", "changed_to_no", "lost"
    rows: list[Row] = []
    for found in stats.records.where(metric="changed", scope=scope):
        of: Any = {"group": found.group, "against": found.against, "scope": scope}
        shares = [stats.of(f"{one}_difference", found.arm, **of) for one in differences]
        cells: Cells = [valued(record) for record in (found, *shares)]
        told = [f"{stats.of(one, found.arm, **of).value:.0f}" for one in counts]
        name = f"{found.against} shown as {found.group}"
        rows.append([found.arm, name, *cells, *told, str(found.n)])
    title, intro = _CHANGED[scope]
    intro += " Changes are in points, with paired 95 % intervals, clustered by row."
    headings = ["Arm", "Change", "Changed %", "Yes", "Accuracy", "P(yes)"]
    headings += ["No → yes", "Yes → no", "Lost", "Rows"]
    return Section(title, headings, rows, intro=intro, keys=2)


def attributes(stats: Statistics) -> Section:
    """Gaps and rates by each single attribute, if several are crossed."""
    rows: list[Row] = []
    for arm in stats.arms:
        for view in stats.views[:-1]:
            record = stats.of(stats.lead, arm.arm, attribute=view.name)
            levels = {
                level: stats.of("selection_rate", arm.arm, level, attribute=view.name)
                for level in view.levels
            }
            told = ", ".join(
                f"{level} {number(rate.value, 1, 100)}"
                for level, rate in levels.items()
            )
            smallest = min(rate.n or 0 for rate in levels.values())
            cells: Cells = [valued(record), record.verdict, told, f"{smallest:,}"]
            rows.append([arm.arm, view.name, *cells])
    title = BY_KEY[stats.lead].title
    headings = ["Arm", "Attribute", title, "Verdict", "Yes, %", "Smallest group"]
    intro = (
        "The groups above cross several attributes; here each attribute is alone. In brackets 95 % "
        "intervals."
    )
    return Section(
        "Each protected attribute alone", headings, rows, intro=intro, keys=2
    )


_RANKED = {
    "auc": "AUC",
    "brier": "Brier score",
    "calibration_error": "Calibration error",
}


def repetition(stats: Statistics) -> Section:
    """Each arm's self-agreement, and the quality of its share of yes as P(yes)."""
    rows: list[Row] = []
    for same in stats.records.where(metric="same_answer"):
        both = stats.of("prompts_with_both_answers", same.arm)
        ranked = [
            stats.of(f"{key}_of_repeated_prompts", same.arm).value for key in _RANKED
        ]
        cells: Cells = [
            valued(same),
            percent(both.value),
            f"{same.n:,}",
            *map(number, ranked),
        ]
        rows.append([same.arm, *cells])
    notes = ["Here P(yes) is the share of yes among a prompt’s answers."]
    headings = [
        "Arm",
        "Same answer twice %",
        "Prompts with both answers %",
        "Prompts",
        *_RANKED.values(),
    ]
    return Section("The same prompt asked again", headings, rows, notes)


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
