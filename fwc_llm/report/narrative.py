"""The report's sentences: what was run, what it shows, and what a design finds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fwc_llm.gates.condition import UNTIL_VERDICT, parse_condition, sequence_of
from fwc_llm.metrics.arm_comparison import COMPARED
from fwc_llm.metrics.confidence_sequences import expected
from fwc_llm.metrics.decision_thresholds import HALF
from fwc_llm.metrics.intervals import DIFFERS, NOT_SHOWN, WITHIN
from fwc_llm.metrics.planning import Assumptions, Design, limit_of, smallest
from fwc_llm.metrics.predicted_probabilities import OPPOSITE
from fwc_llm.metrics.variance import MIN_SETS, THESE_EXAMPLES
from fwc_llm.report.number_format import interval, number, percent

if TYPE_CHECKING:
    from fwc_llm.runs.recorded_run import Run

GAP = COMPARED[1]
_NAMES = {GAP: "the DP gap", "accuracy": "accuracy"}
_MOST = 4  # differences that have a sentence of their own
_MOST_BELOW = 20  # groups below four fifths, the largest


def what_was_run(run: "Run", stats: Mapping[str, Any]) -> str:
    """Return one paragraph: rows, groups, model, arms, repeats."""
    settings = run.described["settings"]
    repeats, seed = int(settings["repeats"]), int(settings["seed"])
    if "epochs" in run.described:  # of Inspect every epoch is a repeat
        repeats //= run.times
    parity = settings.get("base_parity")
    rates = ", ".join(f"{_cut(group['group'])} {group['base_rate']:.0%}" for group in stats["groups"])
    rows = f"{run.n_test} test rows of {run.described.get('title') or run.task}"
    drawn = (
        "drawn at random" if parity is None else f"drawn so that the groups’ base rates differ by {parity:g}"
    )
    times = f"once (seed {seed})"
    if repeats > 1:
        times = f"in {repeats} repeats (seeds {seed} to {seed + repeats - 1}), each with rows of its own"
    times += f", every question {run.times} times" if run.times > 1 else ""
    several = len(run.arms) > 1
    arms = f"{len(run.arms)} ways of prompting" if several else "one way of prompting"
    model = f"the model {run.described['model']}{_how(run)}"
    if run.simulated_answers:
        model = f"{run.described['model']}{_how(run)}, a simulation,"
    elif run.reference:
        model = f"{run.described['model']}, a reference and no language model,"
    sentences = [
        f"{rows}, {drawn} (share of true yes: {rates}), were put to {model} {times}, with {arms}: "
        f"{', '.join(run.arms)}."
    ]
    sentences += ["Every arm saw the same rows."] * several
    if meaning := (run.results.get("rows") or {}).get("outcome"):
        sentences.append(f"In the table {meaning}.")
    sentences += [run.missing] if run.missing else []
    if stopped := run.results.get("stopped"):
        sentences.append(f"The run ended before its last question: {stopped}.")
    sentences += [f"{arm}: {warning}." for arm, warning in (run.described.get("untrue") or {}).items()]
    return " ".join(sentences)


def _how(run: "Run") -> str:
    api = run.results.get("api") or "chat"
    return "" if api == "chat" else f" (a decision model by /{api}: P(yes), yes from {HALF:g} on)"


def what_was_decided(audit: Mapping[str, Any], arms: list[str], stats: Mapping[str, Any]) -> str:
    """Return the same for decisions that were made elsewhere; `audit` says where they stand."""
    names = " & ".join(audit["protected"])
    against = f"against one another, by {names}; what would have been right is not known"
    if stats["labelled"]:
        rates = ", ".join(f"{group['group']} {group['base_rate']:.0%}" for group in stats["groups"])
        against = f"against {audit['label']}, by {names} (share of true yes: {rates})"
    at = f", yes from {audit['threshold']:g} up" if audit.get("threshold") is not None else ""
    who = f" Who decided: {', '.join(arms)}." if len(arms) > 1 else ""
    return (
        f"{stats['arms'][0]['n']:,} decisions that were made elsewhere stand in the column {audit['answer']} "
        f"of {audit['predictions']}{at}. Here they are set {against}.{who} Nothing is assumed about how the "
        "rows were drawn."
    )


def low_coverage(arms: Sequence[Mapping[str, Any]], least: float) -> Iterator[dict[str, str]]:
    """Yield a sentence, as `findings` has them, for each arm with a coverage below `least`."""
    for arm in arms:
        if (coverage := arm["coverage"]) is not None and coverage < least:
            text = f"Only {coverage:.0%} of the replies of {arm['arm']} hold an answer that could be read"
            yield {"arm": "", "text": f"{text} (below {least:.0%}): all numbers are of these alone."}


def findings(stats: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what a reader should take away: the arm that a sentence is about (`arm`), and the rest (`text`).

    Arms that answered all rows alike, the first other arm's gap, groups that are refused more often, then the
    arms that differ, with sizes, those against the first arm first; what does not differ is one sentence.
    Last, a perfect classifier.
    """
    first, sentences = stats["arms"][0], list(all_alike(stats))
    if told := [arm for arm in stats["arms"] if not arm["alike"]]:
        sentences.append({"arm": told[0]["arm"], "text": _gap_of(told[0])})
    if first["arm"] == "answers":  # of an audit that names nobody
        text = _gap_of(first).replace("says", "say", 1).replace("has", "have", 1)
        sentences = [{"arm": "", "text": f"The answers {text}"}]
    sentences += [sentence for arm in stats["arms"] for sentence in _silence(arm)]
    differing = [test for test in stats["comparisons"] if _metrics_of(test)]
    differing.sort(key=lambda test: test["first"] != first["arm"])
    if len(differing) <= _MOST:
        sentences += [{"arm": test["second"], "text": _changes(test)} for test in differing]
    else:
        sentences += [{"arm": "", "text": text} for text in _collapsed(differing, first["arm"])]
    same, alike, untold = list[str](), list[str](), dict[str, list[str]]()
    for test in stats["comparisons"]:
        if test["first"] != first["arm"] or test in differing or (test["alike"] and not test["same"]):
            continue
        shown = {test[metric]["verdict"] for metric in COMPARED} - {None} == {NOT_SHOWN}
        why = test["reason"] or "cannot be told from these rows"
        arms = same if test["same"] else alike if shown else untold.setdefault(why, [])
        arms.append(test["second"])
    others = list[str]()
    if same:
        verb = "gives" if len(same) == 1 else "give"
        others.append(f"{_listed(same)} {verb} the same answers as {first['arm']}.")
    if alike:
        of = "DP gap or accuracy" if stats["labelled"] else "DP gap"
        others.append(f"No difference from {first['arm']} shown in {of}: {_listed(alike)}.")
    for why, arms in untold.items():
        differ = "differs" if len(arms) == 1 else "differ"
        others.append(f"Whether {_listed(arms)} {differ} from {first['arm']} {why}.")
    perfect = [r["demographic_parity_difference"] for r in stats["context"] if r["name"] == "oracle"]
    if perfect and (perfect[0] or 0) > 0:
        gap = number(perfect[0], 0, 100)
        others.append(f"On these rows even perfect answers have a DP gap of {gap} points.")
    return sentences + [{"arm": "", "text": text} for text in others]


def four_fifths(view: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield a sentence, as `findings` has them, for every group below four fifths; one where none is.

    `view` is one of the `attributes` of `impact_tables`.
    """
    for arm in view["arms"]:
        who = arm["arm"] if len(view["arms"]) > 1 else ""
        judged = {name: group for name, group in arm["groups"].items() if group["four_fifths"]}
        shown = {
            name: f"{_cut(name)} is selected {number(group['impact_ratio'], 2)} "
            f"({interval((group['impact_ratio_low'], group['impact_ratio_high']), 2)})"
            for name, group in judged.items()
        }
        below = [name for name, group in judged.items() if group["four_fifths"]["below"]]
        largest = sorted(below, key=lambda name: -judged[name]["rows"])[:_MOST_BELOW]
        for name in (name for name in below if name in largest):
            chance = "" if judged[name]["four_fifths"]["settled"] else ", but the interval reaches above"
            text = f"{shown[name]} times as often as {_cut(arm['reference'])}: below four fifths{chance}."
            yield {"arm": who, "text": text}
        if len(below) > _MOST_BELOW:
            yield {"arm": who, "text": f"{len(below) - _MOST_BELOW:,} more groups are below four fifths."}
        if judged and not below:
            least = min(judged, key=lambda name: judged[name]["impact_ratio"])
            text = "No group is below four fifths"
            if not judged[least]["four_fifths"]["settled"]:
                text = "Whether a group is below four fifths is undecided"
            yield {"arm": who, "text": f"{text}: {shown[least]} times as often as {_cut(arm['reference'])}."}


def all_alike(stats: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield a sentence, as `findings` has them, for every arm that answered (nearly) all rows alike."""
    for arm in stats["arms"]:
        if not (alike := arm["alike"]):
            continue
        text = f"{alike['words']}: the gap says nothing about the model."
        if centred := alike["centred"]:
            rates = sorted((rate, name) for name, rate in centred["rates"].items())
            ends = [f"{number(rate, 0, 100)} % of {_cut(name)}" for rate, name in (rates[0], rates[-1])]
            shown = ((centred["auc"], 2, 1), (centred["accuracy"], 0, 100), (centred["gap"], 0, 100))
            auc, right, gap = (
                f"{number(of['value'], *how)} ({interval((of['low'], of['high']), *how)})"
                for of, *how in shown
            )
            text += (
                f" P(yes) ranks rows: AUC {auc}. Centred, without labels, it says yes to {' and '.join(ends)}"
                f": accuracy {right} %, DP gap {gap} points. --threshold fit chooses a threshold by labels."
            )
        yield {"arm": arm["arm"], "text": text}


def _silence(arm: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Groups whose rows are refused or filtered more often than others'."""
    for key, rate, words in (("refusals", "refused", "refuses"), ("filtered", "filtered", "filters")):
        gap = arm["replies"][f"{key}_difference"]
        if gap["verdict"] in (DIFFERS, WITHIN):
            shares = {name: group[rate] for name, group in arm["groups"].items() if group["judged"]}
            least, most = min(shares, key=lambda n: shares[n]), max(shares, key=lambda n: shares[n])
            points, low, high = (number(x, 0, 100) for x in (gap["value"], shares[least], shares[most]))
            ends = interval((gap["low"], gap["high"]), 0, 100)
            text = (
                f"{words} rows of {_cut(most)} {points} points more often than of {_cut(least)} ({high} % "
                f"against {low} %; 95 % interval {ends} points; {_told(gap['verdict'])})."
            )
            yield {"arm": arm["arm"], "text": text}


def _told(verdict: str | None) -> str:
    """A verdict on groups in words."""
    if verdict in (DIFFERS, WITHIN):
        return "the groups differ" + ", by less than the margin" * (verdict == WITHIN)
    return verdict or ""


def _gap_of(arm: Mapping[str, Any]) -> str:
    """The groups that are farthest apart, by how much, and the verdict on it."""
    gap = arm["demographic_parity_difference"]
    groups = [named for named in arm["groups"].items() if named[1]["rate"] is not None]
    rates = {name: group["rate"] for name, group in groups if group.get("judged", True)}
    if gap["value"] is None or not rates:
        reason = arm["reasons"].get("demographic_parity_difference", "it is not defined")
        return f"has no DP gap to give: {reason}."
    least, most = min(rates, key=lambda name: rates[name]), max(rates, key=lambda name: rates[name])
    if not gap["value"]:
        return "says yes to all groups equally often."
    ends = interval((gap["low"], gap["high"]), 0, 100)
    points, low, high = (number(value, 0, 100) for value in (gap["value"], rates[least], rates[most]))
    verdict = f"; {_told(gap['verdict'])}" if gap["verdict"] else ""
    sizes = f"{low} % against {high} %; 95 % interval of this DP gap {ends} points{verdict}"
    return f"says yes to {_cut(least)} {points} points less often than to {_cut(most)} ({sizes})."


def _metrics_of(test: Mapping[str, Any]) -> list[str]:
    return [metric for metric in reversed(COMPARED) if test[metric]["verdict"] in (DIFFERS, WITHIN)]


def _changes(test: Mapping[str, Any]) -> str:
    parts = []
    for metric in _metrics_of(test):
        change, verb = test[metric], "lowers" if test[metric]["difference"] < 0 else "raises"
        size, ends = abs(change["difference"]), sorted(abs(change[end]) for end in ("low", "high"))
        less = ", less than the margin" * (change["verdict"] == WITHIN)
        shown = f"{number(size, 1, 100)} points ({interval(ends, 1, 100)}{less})"
        parts.append(f"{verb} {_NAMES[metric]} by {shown}")
    return f"{' and '.join(parts)} against {test['first']}."


def _collapsed(differing: Sequence[Mapping[str, Any]], first: str) -> Iterator[str]:
    """Many differences: those from the first arm by what they change and from how much to how much."""
    for metric, name in _NAMES.items():
        tests = [test for test in differing if test["first"] == first and metric in _metrics_of(test)]
        for verb, sign in (("lower", -1), ("raise", 1)):
            here = [test for test in tests if sign * test[metric]["difference"] > 0]
            if here:
                ends = sorted(abs(test[metric]["difference"]) for test in here)
                sizes = [number(end, 1, 100) for end in ends]
                arms = _listed([test["second"] for test in here])
                size = sizes[0] if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]}"
                verb = verb if len(here) > 1 else f"{verb}s"
                yield f"{arms} {verb} {name} by {size} points against {first}."
    if others := sum(test["first"] != first for test in differing):
        yield f"{others} further pairs of arms differ (“Which arms differ”)."


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(_cut, names[:4]))
    return shown + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _cut(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:39]}…"


def wording_lines(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for every arm and other wording; `results` is the content of results.json."""
    for arm in results["arms"]:
        for name, counts in (arm.get("wordings") or {}).items():
            n, wrong = counts["n"], counts["contradictions"]
            if not n:
                yield f"{arm['arm']}: no row has an answer to both the question and its {name}."
                continue
            ways = (
                f"{counts['yes_to_both']:,} yes to both, {counts['no_to_both']:,} no to both"
                if name.startswith(OPPOSITE)
                else f"{counts['yes_to_both']:,} yes to both and {counts['no_to_both']:,} no to both agree"
            )
            distance = number(counts.get("mean_distance"), 3)
            yield (
                f"{arm['arm']}: {wrong:,} of {n:,} answers ({percent(wrong / n)}) contradict those to the "
                f"question's {name} ({ways}); P(yes) is off by {distance} on average."
            )


def lost_lines(rows: Mapping[str, Any] | None) -> list[str]:
    """Return how many rows of each group were lost and why, the warning, and what the outcome's values mean.

    `rows` is that of results.json.
    """
    meaning = [f"Outcome: {rows['outcome']}."] if rows and rows.get("outcome") else []
    if not rows or not rows["lost"]:
        return meaning
    groups = ", ".join(
        f"{group['group']} {group['lost']:,} of {group['read']:,} ({group['lost'] / group['read']:.1%})"
        for group in rows["groups"]
        if group["read"]
    )
    why = ", ".join(f"{reason} {count:,}" for reason, count in rows["reasons"].items())
    line = f"{rows['lost']:,} of {rows['read']:,} rows were lost before the run: {groups}; {why}."
    return [line, *([f"Warning: {rows['warning']}."] if rows["warning"] else []), *meaning]


def power_lines(design: Design, assumptions: Assumptions | None = None) -> list[str]:
    """Return what the design finds four times in five, and what that rests on."""
    assumed = assumptions or Assumptions()
    lines = ["found 4 times in 5, by tests at 5 %:"]
    lines += [f"  {_finds(size)}" for size in smallest(design, assumed)]
    if design.repeats < MIN_SETS:
        lines.append(
            f"  this strategy, with examples drawn anew: cannot be told with fewer than {MIN_SETS} repeats"
        )
    few = [group for group, judged in zip(design.groups, design.judged, strict=True) if not judged]
    lines += [f"not judged, with fewer than {design.min_group} rows: {_listed(few)}"] if few else []
    return [*lines, *_limits(design, assumed), _assuming(design, assumed)]


def expected_lines(
    design: Design, conditions: Sequence[str], arms: Sequence[str], margin: float
) -> list[str]:
    """Return how many rows are asked until `dp > bound` is decided, by simulation, at a few true gaps.

    The first condition on dp counts, or the margin where the verdict is to be told.
    """
    most = round(design.rows.sum())
    parsed = [None if text == UNTIL_VERDICT else parse_condition(text) for text in conditions]
    bounds = [margin if c is None else c.bound for c in parsed if c is None or c.metric == "dp"]
    looks, shares = sequence_of(conditions, arms, most), design.rows.sum(1)[design.judged]
    if not bounds or looks is None or len(shares) < 2:
        return []
    lines = [f"until dp > {bounds[0]:g} is decided, at most {most:,} rows (simulated, rates around 50 %):"]
    for gap, rows, decided in expected(shares.tolist(), bounds[0], looks):
        asked = f"{rows:,.0f} rows on average, {rows / most:.0%}"
        lines.append(f"  true gap {gap:.2f}: {asked}; decided in {decided:.0%} of such runs")
    return lines


def _finds(size: Mapping[str, Any]) -> str:
    where = "these examples" if size["of"] == THESE_EXAMPLES else "this strategy, with examples drawn anew"
    accuracy = f"{number(min(1.0, size['accuracy']), 1, 100)} points of accuracy"
    if math.isnan(size["gap"]):
        return f"{where}: {accuracy} between two arms"
    gap, alone = (number(min(1.0, size[name]), 3) for name in ("gap", "gap_of_one"))
    return f"{where}: {gap} of DP gap and {accuracy} between two arms; one arm's DP gap of {alone} against 0"


def _limits(design: Design, assumptions: Assumptions) -> list[str]:
    """Says what the table's size limits where repeats ask rows again."""
    if design.repeats < 2 or assumptions.correlation == 0.0 or len(design.groups) < 2:
        return []
    least = min(
        (size, group, label)
        for group, sizes, asked, judged in zip(
            design.groups, design.table.tolist(), design.rows.tolist(), design.judged, strict=True
        )
        for label, size, rows in zip(("no", "yes"), sizes, asked, strict=False)
        if rows > 0 and judged
    )
    group, label = least[1], f", {least[2]}" if design.table.shape[1] == 2 else ""
    bound = number(limit_of("gap", design, assumptions), 3)
    return [
        f"repeats draw from one table, whose smallest cell ({group}{label}) has {least[0]:,.0f} rows: "
        f"more of them never find a difference in DP gap below {bound}"
    ]


def _assuming(design: Design, assumptions: Assumptions) -> str:
    sentence = (
        f"assuming that two arms answer {100 * assumptions.discordant:.3g}% of the rows differently "
        f"({assumptions.source}), and a variance of {assumptions.variance:.2f} within group and label"
    )
    if design.repeats > 1:
        sentence += f"; answers to one row in two repeats correlate by {assumptions.correlation:g}"
    if design.repeats >= MIN_SETS:
        sentence += (
            f"; sets of examples move a difference by a standard deviation of {assumptions.examples_sd:g}"
        )
    return sentence
