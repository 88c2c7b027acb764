"""Sentences of reports: runs, findings, next step, power of a design."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fwc_llm.gates.decide import WITHIN as WITHIN_LIMITS
from fwc_llm.metrics.adverse_impact import BELOW, CANNOT_SAY, Impact, ImpactView
from fwc_llm.metrics.counts import BY_KEY, REPLY_RATES
from fwc_llm.metrics.decision_thresholds import HALF
from fwc_llm.metrics.intervals import DIFFERS, EQUAL, SHOWN, TOO_FEW, UNREAD
from fwc_llm.metrics.planning import Assumptions, Design, smallest
from fwc_llm.metrics.records import TRUTH, Record, Records
from fwc_llm.metrics.statistics import Statistics
from fwc_llm.metrics.variance import MIN_SETS, THESE_EXAMPLES
from fwc_llm.report.number_format import DASH, day, interval, number
from fwc_llm.report.tuning import tuning_goal
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import listed

if TYPE_CHECKING:
    from fwc_llm.runs.recorded_run import Run

_WATCH = "watch further decisions (`fwc-llm monitor`)"
_MOST = 4  # most arms with a separate sentence
_MOST_BELOW = 3  # most groups below four fifths in a sentence


def what_was_run(run: "Run", stats: Statistics) -> str:
    """A paragraph on a run: rows, groups, model, arms, repeats."""
    settings = run.described["settings"]
    repeats = int(settings["repeats"])
    seed = int(settings["seed"])
    if "epochs" in run.described:  # in runs of Inspect, every epoch counts as a repeat
        repeats //= run.times
    parity = settings.get("base_parity")
    rates = _base_rates(stats)
    rows = f"{run.n_test} test rows of {run.described.get('title') or run.task}"
    drawn = (
        "drawn at random"
        if parity is None
        else f"drawn so that the groups’ base rates differ by {parity:g}"
    )
    times = f"once (seed {seed})"
    if repeats > 1:
        times = (
            f"in {repeats} repeats (seeds {seed} to {seed + repeats - 1}), each with its own rows"
        )
    times += f", every question {run.times} times" if run.times > 1 else ""
    several = len(run.arms) > 1
    if several:
        arms = f"{len(run.arms)} ways of prompting"
    else:
        arms = "one way of prompting"
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
    meaning = (run.results.get("rows") or {}).get("outcome")
    if meaning:
        sentences.append(f"In the table {meaning}.")
    sentences += [run.missing] if run.missing else []
    stopped = run.results.get("stopped")
    if stopped:
        sentences.append(f"The run ended before its last question: {stopped}.")
    return " ".join(sentences)


def _how(run: "Run") -> str:
    api = run.results.get("api") or "chat"
    if api == "chat":
        return ""
    return f" (a decision model by /{api}: P(yes), yes from {HALF:g} on)"


def what_was_decided(audit: Mapping[str, Any], arms: list[str], stats: Statistics) -> str:
    """A paragraph on an audit of decisions; `audit` describes their source."""
    names = " & ".join(audit["protected"])
    against = f"between groups, by {names}; the true outcomes are not known"
    if stats.labelled:
        rates = _base_rates(stats)
        against = f"with {audit['label']}, by {names} (share of true yes: {rates})"
    if audit.get("threshold") is not None:
        at = f" (yes from {audit['threshold']:g} up)"
    else:
        at = ""
    if len(arms) > 1:
        who = f" Decided by: {', '.join(arms)}."
    else:
        who = ""
    return (
        f"{stats.arms[0].n:,} decisions made elsewhere are in the column {audit['answer']} "
        f"of {audit['predictions']}{at}. Here they are compared {against}.{who} Intervals take "
        f"rows as "
        "independent random draws."
    )


def _base_rates(stats: Statistics) -> str:
    """Each group's share of true yes."""
    found = {group.group: stats.of("selection_rate", TRUTH, group.group) for group in stats.groups}
    return ", ".join(f"{_cut(name)} {rate.value:.0%}" for name, rate in found.items())


def low_coverage(stats: Statistics, least: float) -> Iterator[dict[str, str]]:
    """Yield a finding (as in `findings`) for each arm with a coverage below `least`."""
    for arm in stats.arms:
        coverage = stats.of("coverage", arm.arm).value
        if coverage < least:
            text = (
                f"Only {coverage:.0%} of the replies of {arm.arm} hold an answer that could be read"
            )
            yield {
                "arm": "",
                "text": f"{text} (below {least:.0%}): all numbers are about these replies alone.",
            }


def keeping(run: "Run", stats: Statistics) -> frozenset[str] | None:
    """The arms that pass a run's gates and tuning target; None if the run has neither."""
    from fwc_llm.gates.condition import UNTIL_VERDICT

    until = run.described["settings"].get("until_decided") or ()
    texts = [
        *(run.described.get("fail_if") or ()),
        *(text for text in until if text != UNTIL_VERDICT),
    ]
    goal = tuning_goal(run.folder)
    if goal:
        side = "<" if goal["metric"] == "dp_ratio" else ">"
        texts.append(f"{goal['metric']} {side} {goal['target']}")
    return keeping_to(texts, stats)


def keeping_to(conditions: Sequence[str], stats: Statistics) -> frozenset[str] | None:
    """The arms that have conditions and keep to all of them; None without conditions."""
    from fwc_llm.gates import decide, parse_condition

    if not conditions:
        return None
    kept = dict[str, bool]()
    for condition in map(parse_condition, conditions):
        for check in decide(condition, stats):
            kept[check.arm] = kept.get(check.arm, True) and check.outcome == WITHIN_LIMITS
    return frozenset(arm for arm in kept if kept[arm])


def findings(
    stats: Statistics, created: str = "", kept: Collection[str] | None = None
) -> list[dict[str, str]]:
    """The findings, the best arm's first: `text`, and the `arm` it is about, or ""."""
    base = stats.base
    best = best_arm(stats, kept)
    telling = [arm.arm for arm in stats.arms if not arm.alike]
    sentences = list[dict[str, str]]()
    if telling:
        lead = best or (base if base in telling else telling[0])
        answer = _rates_and_gap(stats, lead)
        true = stats.of(stats.lead, TRUTH)
        if true.known and true.value:  # that at equal labels is 0 by definition
            answer += f"; true answers have {_the_gap(stats)} of {_points(true.value)}"
        answer += f".{_accuracy(stats, lead)} {asked(stats, created)}."
        opening = _verdict_on_arms(stats, best, kept)
        if not best and lead != "answers":  # "answers" is the only arm of an audit without arms
            opening += f"{lead}: "
        if not opening.endswith(": "):
            answer = answer[0].upper() + answer[1:]
        sentences.append({"arm": "", "text": opening + answer})
        others = [name for name in telling if name != lead]
        others.sort(key=lambda name: stats.of(stats.lead, name).value)
        named_arms = others if len(others) <= _MOST else [name for name in others if name == base]
        for name in named_arms:
            text = f"{_rates_and_gap(stats, name)}.{_accuracy(stats, name)}"
            sentences.append({"arm": name, "text": text})
        more = len(others) - len(named_arms)
        if more:
            sentences.append({"arm": "", "text": f"{more} more arms are in the table."})
    sentences += all_alike(stats)
    sentences += [sentence for arm in stats.arms for sentence in _silence(stats, arm.arm)]
    sentences += [{"arm": "", "text": text} for text in _undecided(stats)]
    return sentences


def _verdict_on_arms(stats: Statistics, best: str | None, kept: Collection[str] | None) -> str:
    """Which arm is best, or which rule keeps any arm from being the best; "" for one arm."""
    if best:
        return f"Best: {best}{', which keeps to the limits set' * (kept is not None)}. "
    if len(stats.arms) < 2:
        return "" if kept is None else f"The limits set are {'' if kept else 'not '}kept. "
    base = _in_words(stats.base)
    if kept is not None:
        better = f"be better than {base} and to " if kept else ""
        return f"No arm is shown to {better}keep to the limits set. "
    fairer = [name for name in _others(stats) if _is_fairer(stats, name)]
    if not fairer:
        return f"No arm is shown to be fairer than {base}. "
    names = listed(fairer, _MOST, _cut)
    rule = f"that its accuracy is at most {100 * stats.margin:g} points lower is not shown"
    return f"{names} is fairer than {base}, but {rule}. "


def _others(stats: Statistics) -> list[str]:
    """The arms compared with the baseline whose answers are not all alike."""
    return [pair.second for pair in stats.pairs if pair.first == stats.base and not pair.alike]


def _is_fairer(stats: Statistics, arm: str) -> bool:
    """Whether an arm's leading gap is shown to be smaller than the baseline's."""
    gap = stats.of(f"{stats.lead}_difference", arm, against=stats.base)
    return gap.verdict in SHOWN and gap.value < 0


def best_arm(stats: Statistics, kept: Collection[str] | None = None) -> str | None:
    """The best of the arms that are shown to be better than the first, or None.

    Without gates and target (`kept` None), better means a smaller gap without a loss of accuracy
    beyond the margin. Otherwise, better means in `kept`, with a higher accuracy if the first arm is
    in `kept`, else with a smaller gap.
    """

    def is_better(arm: str) -> bool:
        accuracy = stats.of("accuracy_difference", arm, against=stats.base)
        if kept is None:
            loses = stats.labelled and not accuracy.low >= -stats.margin
            return _is_fairer(stats, arm) and not loses
        if stats.base in kept:
            return arm in kept and accuracy.verdict in SHOWN and accuracy.value > 0
        return arm in kept and _is_fairer(stats, arm)

    better = [arm for arm in _others(stats) if is_better(arm)]
    if kept is None or not stats.labelled:
        return min(better, key=lambda arm: stats.of(stats.lead, arm).value, default=None)
    return max(better, key=lambda arm: stats.of("accuracy", arm).value, default=None)


def asked(stats: Statistics, created: str = "") -> str:
    """The number of rows asked about, and the date."""
    rows = f"{stats.arms[0].n // stats.repeats:,} rows"
    rows += f" in each of {stats.repeats} repeats" if stats.repeats > 1 else ""
    return ", ".join(filter(None, (rows, day(created))))


def _the_gap(stats: Statistics) -> str:
    return "a gap at equal labels" if stats.lead == "label_gap" else "a gap"


def _rates_and_gap(stats: Statistics, arm: str) -> str:
    """The lowest and highest rate of yes, the gap, its change from the baseline."""
    gap = stats.of(stats.lead, arm)
    rates = stats.rates(arm)
    if not gap.known or not rates:
        return f"no gap: {gap.reason or 'it is not defined'}"
    order = sorted(rates, key=lambda name: rates[name].value)
    low, high = (
        f"{number(rates[name].value, 0, 100)} % of {_cut(name)}" for name in (order[0], order[-1])
    )
    of = f", the lowest and highest of {len(rates)} groups" if len(rates) > 2 else ""
    text = f"yes for {low} and {high}{of}, {_the_gap(stats)} of {_points(gap.value)}"
    ends = interval(gap.ends, 0, 100)
    if ends != DASH:
        text += f" ({ends})"
    if gap.verdict and gap.verdict != DIFFERS:
        text += f", {gap.verdict}"
    return text + _change(stats, stats.lead, arm)


def _accuracy(stats: Statistics, arm: str) -> str:
    accuracy = stats.of("accuracy", arm)
    if not accuracy.known:
        return ""
    return f" {number(accuracy.value, 0, 100)} % right{_change(stats, 'accuracy', arm)}."


def _points(value: float) -> str:
    points = number(value, 0, 100)
    return f"{points} point" + "s" * (points != "1")


def _change(stats: Statistics, metric: str, arm: str) -> str:
    """A difference from the baseline that is shown, with its interval, or ""."""
    test = stats.of(f"{metric}_difference", arm, against=stats.base)
    if test.verdict not in SHOWN:
        return ""
    ends = sorted(map(abs, test.ends))
    more = "more" if test.value > 0 else "less"
    size = f"{number(abs(test.value), 0, 100)} {more} than {_in_words(stats.base)}"
    return f", {size} ({interval(ends, 0, 100)})"


def _undecided(stats: Statistics) -> Iterator[str]:
    """Yield sentences on the arms that are not shown to differ from the baseline."""
    by_reason = dict[str, list[str]]()
    for pair in stats.pairs:
        if pair.first != stats.base:
            continue
        tests = [
            stats.of(f"{key}_difference", pair.second, against=pair.first)
            for key in ("accuracy", stats.lead)
        ]
        verdicts = {test.verdict for test in tests} - {""}
        if verdicts & set(SHOWN) or (pair.alike and not pair.same):
            continue
        why = "{}: no difference from {} is shown."
        if pair.same:
            why = "{}: the same answers as {}."
        elif verdicts == {EQUAL}:
            why = "{}: no difference from {} that matters."
        elif pair.compared.reason:
            why = f"{{}}: a difference from {{}} {pair.compared.reason}."
        by_reason.setdefault(why, []).append(pair.second)
    for why, names in by_reason.items():
        yield why.format(listed(names, _MOST, _cut), _in_words(stats.base))


def smallest_found(found: Sequence[Record]) -> str:
    """The largest of the smallest differences detected with power 80 %, in points."""
    sizes = [record.value for record in found if record.known]
    if sizes:
        return number(min(1.0, max(sizes)), 1, 100)
    return ""


def missed(stats: Statistics) -> Iterator[str]:
    """Yield a sentence on the differences with a power below 80 %."""
    sizes = []
    scope = ""
    for key in (stats.lead, "accuracy"):
        found = []
        for pair in stats.pairs:
            name = f"{key}_difference_detectable"
            found.append(stats.of(name, pair.second, against=pair.first))
            scope = found[-1].scope or scope
        size = smallest_found(found)
        if size:
            sizes.append(f"{size} points of {BY_KEY[key].words}")
    parts = list[str]()
    if sizes:
        parts.append(f"differences between arms ({scope}) under {' or '.join(sizes)}")
    telling = [arm.arm for arm in stats.arms if not arm.alike]
    alone = smallest_found([stats.of(f"{stats.lead}_detectable", arm) for arm in telling])
    if alone:
        parts.append(f"gaps{' of one arm' * bool(sizes)} under {alone} points")
    if parts:
        yield f"What these rows could have missed: {'; '.join(parts)}."


def next_step(
    stats: Statistics, kept: Collection[str] | None = None, run: "Run | None" = None
) -> str:
    """The next step; what makes numbers doubtful comes before what they show."""
    telling = [arm.arm for arm in stats.arms if not arm.alike]
    judged = [stats.of(stats.lead, arm) for arm in telling]
    for key in (stats.lead, "accuracy"):
        name = f"{key}_difference"
        judged += [stats.of(name, arm, against=stats.base) for arm in _others(stats)]
    verdicts = {record.verdict for record in judged} - {""}
    unequal = [stats.of(key, arm).verdict for arm in telling for key in (stats.lead, "eo_gap")]
    best = best_arm(stats, kept) if run else None
    leads = [best] if best else [arm.arm for arm in stats.arms]
    ranks = [stats.of("auc", arm.arm).low > 0.5 for arm in stats.arms if arm.alike]
    least = (run.described["settings"] if run else {}).get("min_coverage", Settings().min_coverage)
    suspects = [name for name in run.table_checks if name] if run else []
    same = [pair.same for pair in stats.pairs if not pair.alike]
    if run and (run.simulated_answers or run.reference):
        step = "ask a language model (--model)"
    elif run and any(arm.unanswered for arm in stats.arms):
        step = "get the replies that are missing"
    elif UNREAD in verdicts or any(_lacks_answers(stats, arm, least) for arm in leads):
        step = "find out why answers are lacking: fewer unread replies would settle more"
    elif suspects:
        step = f"check column {_cut(suspects[0])} first"
    elif best:
        step = f"build your prompts as {_cut(best)} does, and watch what is decided"
    elif run and run.at_threshold and len(telling) < len(stats.arms):
        step = "read the results at the threshold"
    elif run and not run.at_threshold and any(ranks):
        step = "use --threshold: P(yes) ranks rows where an arm's answers are alike"
    elif not telling:
        step = "try other prompts or another model: answers that are all alike tell nothing"
    elif same and all(same):
        step = "try other examples: these change no answer"
    elif kept is not None and set(kept) >= {arm.arm for arm in stats.arms}:
        step = _WATCH
    elif TOO_FEW in verdicts:
        step = "get more rows: four times as many show differences half as large"
    elif not verdicts:
        step = "get answers about at least two groups: a gap needs two"
    elif DIFFERS not in unequal and kept is None:
        step = _WATCH
    elif run:
        step = "compare other ways of prompting (--shots)"
    else:
        step = "find out the cause of the gap, with people who know these decisions"
    return f"Next: {step}."


def _lacks_answers(stats: Statistics, arm: str, least: float) -> bool:
    """Whether missing answers put an arm's numbers in doubt."""
    coverage = stats.of("coverage", arm).value
    if not coverage >= least or any(_silence(stats, arm)):
        return True
    return stats.of(stats.lead, arm).verdict == UNREAD


def four_fifths(impact: Impact, view: ImpactView, found: Records) -> Iterator[dict[str, str]]:
    """Yield findings by arm on the impact ratios of one attribute."""
    for arm in impact.arms:
        who = arm if len(impact.arms) > 1 else ""
        reference = view.references.get(arm, "")
        ratios = {
            level: found.find("impact_ratio", arm, level, reference, view.attribute)
            for level in view.levels
        }
        judged = {level: ratio for level, ratio in ratios.items() if ratio.known}
        order = sorted(judged, key=lambda level: judged[level].value)
        told = {
            level: f"{_cut(level)} {number(ratio.value, 2)} ({interval(ratio.ends, 2)})"
            for level, ratio in judged.items()
        }
        below = [level for level in order if judged[level].verdict == BELOW]
        not_told = [level for level in order if judged[level].verdict == CANNOT_SAY]
        rate = f"four fifths of the rate of {_cut(reference)}"
        for names, text in (
            (below, f"Below {rate}"),
            (not_told, f"Too few rows to tell whether below {rate}"),
        ):
            if names:
                levels = listed(names, _MOST_BELOW, told.__getitem__)
                yield {"arm": who, "text": f"{text}: {levels}."}
        if judged and not below and not not_told:
            yield {"arm": who, "text": f"No group is below {rate}; the lowest: {told[order[0]]}."}


def all_alike(stats: Statistics) -> Iterator[dict[str, str]]:
    """Yield a finding for each arm with the same answer to (nearly) all rows."""
    for arm in stats.arms:
        if not arm.alike:
            continue
        answer = "yes" if arm.alike.startswith("answered yes") else "no"
        text = f"{arm.alike}: the gap is 0 because all answers are {answer}."
        if "but" in arm.alike:
            text = f"{arm.alike}: the gap says nothing about groups."
        right = stats.of("accuracy", arm.arm)
        if right.known:
            text += f" {number(right.value, 0, 100)} % right{_change(stats, 'accuracy', arm.arm)}."
        of = {name: stats.of(f"{name}_at_median", arm.arm) for name in ("accuracy", "dp_gap")}
        if of["accuracy"].known:
            auc = stats.of("auc", arm.arm)
            rates = stats.rates(arm.arm, "selection_rate_at_median")
            order = sorted(rates, key=lambda name: rates[name].value)
            ends = [
                f"{number(rates[name].value, 0, 100)} % of {_cut(name)}"
                for name in dict.fromkeys((order[0], order[-1]))
            ]
            accuracy, gap = (
                f"{number(r.value, 0, 100)} ({interval(r.ends, 0, 100)})" for r in of.values()
            )
            text += (
                f" P(yes) ranks rows: AUC {number(auc.value, 2)} ({interval(auc.ends, 2)}). With "
                f"its median as threshold, the model would say yes to {' and '.join(ends)}: "
                f"accuracy {accuracy} %, DP gap {gap} points."
            )
        yield {"arm": arm.arm, "text": text}


def _silence(stats: Statistics, arm: str) -> Iterator[dict[str, str]]:
    """Yield findings on groups whose replies are refused, filtered, truncated, unfinished or
    unread more often than another group's.
    """
    for rate in REPLY_RATES[1:]:
        gap = stats.of(f"{rate}_gap", arm)
        shares = stats.rates(arm, rate)
        if gap.verdict in SHOWN and shares:
            order = sorted(shares, key=lambda name: shares[name].value)
            points = number(gap.value, 0, 100)
            low, high = (number(shares[name].value, 0, 100) for name in (order[0], order[-1]))
            text = (
                f"replies for {_cut(order[-1])} are {rate} {points} points more often than for "
                f"{_cut(order[0])} ({high} % against {low} %; {interval(gap.ends, 0, 100)})."
            )
            yield {"arm": arm, "text": text}


def _in_words(arm: str) -> str:
    return "zero-shot" if arm == "zero" else _cut(arm)  # "zero" would read as a number


def _cut(name: str) -> str:
    if len(name) <= 40:
        return name
    return f"{name[:39]}…"


def lost_lines(rows: Mapping[str, Any] | None) -> list[str]:
    """Sentences on the `rows` of results.json: lost ones, and the outcome's values."""
    if rows and rows.get("outcome"):
        meaning = [f"Outcome: {rows['outcome']}."]
    else:
        meaning = []
    if not rows or not rows["lost"]:
        return meaning
    groups = ", ".join(
        f"{group['group']} {group['lost']:,} of {group['read']:,} "
        f"({group['lost'] / group['read']:.1%})"
        for group in rows["groups"]
        if group["read"]
    )
    why = ", ".join(f"{reason} {count:,}" for reason, count in rows["reasons"].items())
    line = f"{rows['lost']:,} of {rows['read']:,} rows were lost before the run: {groups}; {why}."
    return [line, *([f"Warning: {rows['warning']}."] if rows["warning"] else []), *meaning]


def power_lines(design: Design, assumptions: Assumptions | None = None) -> list[str]:
    """Lines on differences detected with power 80 %, and on the assumptions."""
    assumed = assumptions or Assumptions()
    lines = ["differences that tests at 5 % detect 4 times in 5:"]
    for size in smallest(design, assumed):
        if size["of"] == THESE_EXAMPLES:
            where = "these examples"
        else:
            where = "this strategy, with examples drawn anew"
        found = f"{number(min(1.0, size['accuracy']), 1, 100)} points of accuracy between two arms"
        if not math.isnan(size["gap"]):
            gap, alone = (number(min(1.0, size[name]), 3) for name in ("gap", "gap_of_one"))
            found = f"{gap} of DP gap and {found}; one arm's DP gap of {alone} against 0"
        lines.append(f"  {where}: {found}")
    if design.repeats < MIN_SETS:
        lines.append(
            f"  this strategy, with examples drawn anew: cannot be told with fewer than {MIN_SETS} "
            f"repeats"
        )
    few = [group for group, judged in zip(design.groups, design.judged, strict=True) if not judged]
    if few:
        lines.append(
            f"not judged, with fewer than {design.min_group} rows: {listed(few, _MOST, _cut)}"
        )
    sentence = (
        f"assuming that two arms answer {100 * assumed.discordant:.3g}% of the rows differently "
        f"({assumed.source})"
    )
    if design.repeats >= MIN_SETS:
        sentence += (
            f", and examples move a difference by {assumed.examples_sd:g} (standard deviation)"
        )
    return [*lines, sentence]


def expected_lines(expected: Mapping[str, Any] | None) -> list[str]:
    """Lines on the result of `runs.sample_sizes.questions_until_decided`."""
    if expected is None:
        return []
    most = expected["most"]
    fixed = expected["fixed"]
    lines = [
        f"until {expected['condition']} is decided, at most {most:,} rows (simulated, rates around "
        f"50 %):"
    ]
    for at in expected["gaps"]:
        rows_asked = f"{at['rows']:,} rows on average, {at['rows'] / most:.0%}"
        lines.append(
            f"  true gap {at['gap']:.2f}: {rows_asked}; decided in {at['decided']:.0%} of such runs"
        )
    return [*lines, *([f"  a fixed sample that decides as often: {fixed:,} rows"] if fixed else [])]
