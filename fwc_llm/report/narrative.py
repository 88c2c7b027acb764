"""Sentences of reports: runs, findings, next step, power of a design."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fwc_llm.metrics.arm_comparison import COMPARED
from fwc_llm.metrics.counts import REPLIES
from fwc_llm.metrics.decision_thresholds import HALF
from fwc_llm.metrics.intervals import DIFFERS, INCONCLUSIVE, NOT_SHOWN, WITHIN, verdict
from fwc_llm.metrics.planning import Assumptions, Design, smallest
from fwc_llm.metrics.variance import MIN_SETS, THESE_EXAMPLES, scope_words
from fwc_llm.report.number_format import day, interval, number
from fwc_llm.report.tuning import tuning_goal
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import listed

if TYPE_CHECKING:
    from fwc_llm.metrics.run_answers import RunAnswers
    from fwc_llm.runs.recorded_run import Run

GAP = COMPARED[1]
_UNEQUAL = GAP, "eo_gap"
_WATCH = "watch further decisions (`fwc-llm monitor`)"
_MOST = 4  # most arms with a separate sentence
_MOST_BELOW = 3  # most groups below four fifths in a sentence


def what_was_run(run: "Run", stats: Mapping[str, Any]) -> str:
    """A paragraph on a run: rows, groups, model, arms, repeats."""
    settings = run.described["settings"]
    repeats = int(settings["repeats"])
    seed = int(settings["seed"])
    if "epochs" in run.described:  # in runs of Inspect, every epoch counts as a repeat
        repeats //= run.times
    parity = settings.get("base_parity")
    rates = ", ".join(
        f"{_cut(group['group'])} {group['base_rate']:.0%}" for group in stats["groups"]
    )
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


def what_was_decided(audit: Mapping[str, Any], arms: list[str], stats: Mapping[str, Any]) -> str:
    """A paragraph on an audit of decisions; `audit` describes their source."""
    names = " & ".join(audit["protected"])
    against = f"between groups, by {names}; the true outcomes are not known"
    if stats["labelled"]:
        rates = ", ".join(f"{group['group']} {group['base_rate']:.0%}" for group in stats["groups"])
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
        f"{stats['arms'][0]['n']:,} decisions made elsewhere are in the column {audit['answer']} "
        f"of {audit['predictions']}{at}. Here they are compared {against}.{who} Intervals take "
        f"rows as "
        "independent random draws."
    )


def low_coverage(arms: Sequence[Mapping[str, Any]], least: float) -> Iterator[dict[str, str]]:
    """Yield a finding (as in `findings`) for each arm with a coverage below `least`."""
    for arm in arms:
        coverage = arm["coverage"]
        if coverage is not None and coverage < least:
            text = (
                f"Only {coverage:.0%} of the replies of {arm['arm']} hold an answer that could be "
                f"read"
            )
            yield {
                "arm": "",
                "text": f"{text} (below {least:.0%}): all numbers are about these replies alone.",
            }


def keeping(run: "Run") -> frozenset[str] | None:
    """The arms that pass a run's gates and tuning target; None if the run has neither."""
    from fwc_llm.gates.condition import UNTIL_VERDICT

    until = run.described["settings"].get("until_decided") or ()
    texts = [
        *(run.described.get("fail_if") or ()),
        *(text for text in until if text != UNTIL_VERDICT),
    ]
    goal = tuning_goal(run.folder)
    if goal:
        texts.append(
            f"{goal['metric']} {'<' if goal['metric'] == 'dp_ratio' else '>'} {goal['target']}"
        )
    return keeping_to(texts, run.answered)


def keeping_to(conditions: Sequence[str], answered: "RunAnswers") -> frozenset[str] | None:
    """The arms that have conditions and pass all of them; None without conditions."""
    from fwc_llm.gates import decide, parse_condition

    kept = dict[str, bool]()
    for condition in map(parse_condition, conditions):
        checks = decide(condition, answered)
        for arm, check in zip(
            (condition.arm,) if condition.arm else answered.arms, checks, strict=True
        ):
            kept[arm] = kept.get(arm, True) and check.outcome == "passed"
    if conditions:
        return frozenset(arm for arm in kept if kept[arm])
    return None


def findings(
    stats: Mapping[str, Any], created: str = "", kept: Collection[str] | None = None
) -> list[dict[str, str]]:
    """The findings, the best arm's first: `text`, and the `arm` it is about, or ""."""
    arms, base, tests = _against_first(stats)
    best = best_arm(stats, kept)
    alike = list(all_alike(stats))
    telling = [name for name, arm in arms.items() if not arm["alike"]]
    sentences = list[dict[str, str]]()
    if telling:
        lead = best or (base if base in telling else telling[0])
        answer = _rates_and_gap(arms[lead], tests.get(lead), base)
        perfect = [
            row[GAP] for row in stats["context"] if row["name"] == "oracle" and row[GAP] is not None
        ]
        if perfect:
            answer += f"; true answers have a gap of {_points(perfect[0])}"
        answer += f".{_accuracy(arms[lead], tests.get(lead), base)} {asked(stats, created)}."
        named = f"Best: {lead}. " if best else ""
        if best and kept is not None:
            named = f"Best: {lead}, which keeps to the limits set. "
        elif len(arms) > 1 and not best:
            named = f"No arm is clearly better than {_in_words(base)}. "
            if kept is not None:
                better = f"be clearly better than {_in_words(base)} and to " if kept else ""
                named = f"No arm is shown to {better}keep to the limits set. "
        if not best and lead != "answers":  # "answers" is the only arm of an audit without arms
            named += f"{lead}: "
        if named.endswith(": "):
            answer = answer
        else:
            answer = answer[0].upper() + answer[1:]
        sentences.append({"arm": "", "text": named + answer})
        others = sorted(
            (name for name in telling if name != lead),
            key=lambda name: arms[name][GAP]["value"] or 0,
        )
        if len(others) <= _MOST:
            told = others
        else:
            told = [name for name in others if name == base]
        for name in told:
            arm = arms[name]
            test = tests.get(name)
            text = f"{_rates_and_gap(arm, test, base)}.{_accuracy(arm, test, base)}"
            sentences.append({"arm": name, "text": text})
        more = len(others) - len(told)
        if more:
            sentences.append({"arm": "", "text": f"{more} more arms are in the table."})
    sentences += alike
    sentences += [sentence for arm in stats["arms"] for sentence in _silence(arm)]
    sentences += [{"arm": "", "text": text} for text in _undecided(tests, base)]
    return sentences


def best_arm(stats: Mapping[str, Any], kept: Collection[str] | None = None) -> str | None:
    """The best of the arms that are significantly better than the first, or None.

    Without gates and target (`kept` None), better means a smaller DP gap without a loss of accuracy
    beyond the margin. Otherwise, better means in `kept`, with a higher accuracy if the first arm is
    in `kept`, else with a smaller gap.
    """
    arms, base, tests = _against_first(stats)

    def is_better(name: str, test: Mapping[str, Any]) -> bool:
        gap = test[GAP]
        accuracy = test["accuracy"]
        shown = gap["verdict"] in (DIFFERS, WITHIN) and gap["difference"] < 0
        if kept is not None and base in kept:
            return (
                name in kept
                and accuracy["verdict"] in (DIFFERS, WITHIN)
                and accuracy["difference"] > 0
            )
        loses = stats["labelled"] and (
            accuracy["low"] is None or accuracy["low"] < -stats["margin"]
        )
        return shown and (not loses if kept is None else name in kept)

    better = [
        name for name, test in tests.items() if is_better(name, test) and not arms[name]["alike"]
    ]
    if kept is None or not stats["labelled"]:
        return min(better, key=lambda name: arms[name][GAP]["value"], default=None)
    return max(better, key=lambda name: arms[name]["accuracy"]["value"], default=None)


def _against_first(stats: Mapping[str, Any]) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """(arms by name, baseline's name, comparisons with the baseline by arm)."""
    arms = {arm["arm"]: arm for arm in stats["arms"]}
    if stats["comparisons"]:
        base = stats["comparisons"][0]["first"]
    else:
        base = next(iter(arms))
    return (
        arms,
        base,
        {test["second"]: test for test in stats["comparisons"] if test["first"] == base},
    )


def asked(stats: Mapping[str, Any], created: str = "") -> str:
    """The number of rows asked about, and the date."""
    repeats = stats["repeats"]
    rows = f"{stats['arms'][0]['n'] // repeats:,} rows"
    rows += f" in each of {repeats} repeats" if repeats > 1 else ""
    return ", ".join(filter(None, (rows, day(created))))


def _rates_and_gap(arm: Mapping[str, Any], test: Mapping[str, Any] | None, base: str) -> str:
    """The lowest and highest rate of yes, the gap, its change from the baseline."""
    gap = arm[GAP]
    groups = [
        group
        for group in arm["groups"].items()
        if group[1]["rate"] is not None and group[1]["judged"]
    ]
    if gap["value"] is None or not groups:
        return f"no DP gap: {arm['reasons'].get(GAP, 'it is not defined')}"
    rates = {name: group["rate"] for name, group in groups}
    order = sorted(rates, key=lambda name: rates[name])
    low, high = (
        f"{number(rates[name], 0, 100)} % of {_cut(name)}" for name in (order[0], order[-1])
    )
    if len(rates) > 2:
        of = f", the lowest and highest of {len(rates)} groups"
    else:
        of = ""
    text = f"yes for {low} and {high}{of}, a gap of {_points(gap['value'])}"
    why = "too few rows to tell whether the groups differ"
    if gap["low"] is not None:
        text += f" ({interval((gap['low'], gap['high']), 0, 100)})"
        if _for_lack_of_answers(gap):
            why = "not settled because of replies without an answer"
    text += {
        NOT_SHOWN: ", no difference that matters",
        WITHIN: ", less than the margin",
        INCONCLUSIVE: f", {why}",
    }.get(gap["verdict"], "")
    return text + _change(test, GAP, base)


def _for_lack_of_answers(gap: Mapping[str, Any]) -> bool:
    """Whether a gap's verdict is undecided only because of replies without an answer."""
    settled = (
        gap["low"] is not None and verdict(gap["low"], gap["high"], gap["margin"]) != INCONCLUSIVE
    )
    return settled and gap["verdict"] == INCONCLUSIVE


def _accuracy(arm: Mapping[str, Any], test: Mapping[str, Any] | None, base: str) -> str:
    if arm["accuracy"]["value"] is None:
        return ""
    return f" {number(arm['accuracy']['value'], 0, 100)} % right{_change(test, 'accuracy', base)}."


def _points(value: float) -> str:
    points = number(value, 0, 100)
    return f"{points} point" + "s" * (points != "1")


def _change(test: Mapping[str, Any] | None, metric: str, base: str) -> str:
    """A significant difference from the baseline, with its interval, or ""."""
    if test is None or test[metric]["verdict"] not in (DIFFERS, WITHIN):
        return ""
    change = test[metric]["difference"]
    ends = sorted(abs(test[metric][end]) for end in ("low", "high"))
    size = (
        f"{number(abs(change), 0, 100)} {'more' if change > 0 else 'less'} than {_in_words(base)}"
    )
    return f", {size} ({interval(ends, 0, 100)})"


def _undecided(tests: Mapping[str, Mapping[str, Any]], base: str) -> Iterator[str]:
    """Yield sentences on the arms without a significant difference from the baseline."""
    by_reason = dict[str, list[str]]()
    for name, test in tests.items():
        verdicts = {test[metric]["verdict"] for metric in COMPARED} - {None}
        if verdicts & {DIFFERS, WITHIN} or (test["alike"] and not test["same"]):
            continue
        why = "{}: no clear difference from {}."
        if test["same"]:
            why = "{}: the same answers as {}."
        elif verdicts == {NOT_SHOWN}:
            why = "{}: no difference from {} that matters."
        elif test["reason"]:
            why = f"{{}}: a difference from {{}} {test['reason']}."
        by_reason.setdefault(why, []).append(name)
    yield from (
        why.format(listed(names, _MOST, _cut), _in_words(base)) for why, names in by_reason.items()
    )


def smallest_found(tests: Sequence[Mapping[str, Any]]) -> str:
    """The largest of the tests' smallest differences detected with power 80 %, in points."""
    known = [test["smallest_found"] for test in tests if test["smallest_found"] is not None]
    if known:
        return number(min(1.0, max(known)), 1, 100)
    return ""


def missed(stats: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence on the differences with a power below 80 %."""
    tests = [test["these_examples"] if test["reason"] else test for test in stats["comparisons"]]
    between = [smallest_found([test[metric] for test in tests]) for metric in (GAP, "accuracy")]
    sizes = [
        f"{size} points of {name}"
        for size, name in zip(between, ("DP gap", "accuracy"), strict=True)
        if size
    ]
    parts = list[str]()
    if sizes:
        first = stats["comparisons"][0]
        scope = scope_words(
            THESE_EXAMPLES if first["reason"] else first["of"], stats["with_examples"]
        )
        parts.append(f"differences between arms ({scope}) under {' or '.join(sizes)}")
    alone = smallest_found([arm[GAP] for arm in stats["arms"] if not arm["alike"]])
    if alone:
        parts.append(f"gaps{' of one arm' * bool(sizes)} under {alone} points")
    if parts:
        yield f"What these rows could have missed: {'; '.join(parts)}."


def next_step(
    stats: Mapping[str, Any], kept: Collection[str] | None = None, run: "Run | None" = None
) -> str:
    """The next step; what makes numbers doubtful comes before what they show."""
    arms = stats["arms"]
    tests = [test for test in stats["comparisons"] if not test["alike"]]
    telling = [arm for arm in arms if not arm["alike"]]
    verdicts = {found[GAP]["verdict"] for found in (*telling, *tests)}
    differs = any(arm[key]["verdict"] == DIFFERS for arm in telling for key in _UNEQUAL)
    best = best_arm(stats, kept) if run else None
    leads = [arm for arm in arms if arm["arm"] == best] or arms
    ranks = [
        arm["alike"]["centred"] for arm in arms if arm["alike"]
    ]  # results of ranking by P(yes)
    if run:
        least = run.described["settings"]["min_coverage"]
    else:
        least = Settings().min_coverage
    if run:
        suspects = [name for name in run.table_checks if name]
    else:
        suspects = []
    if run and (run.simulated_answers or run.reference):
        step = "ask a language model (--model)"
    elif run and any(arm["unanswered"] for arm in arms):
        step = "get the replies that are missing"
    elif any(_lacks_answers(arm, least) for arm in leads):
        step = "find out why answers are lacking"
    elif suspects:
        step = f"check column {_cut(suspects[0])} first"
    elif best:
        step = f"build your prompts as {_cut(best)} does, and watch what is decided"
    elif run and run.at_threshold and len(telling) < len(arms):
        step = "read the results at the threshold"
    elif run and not run.at_threshold and any(own and own["auc"]["low"] > 0.5 for own in ranks):
        step = "use --threshold: P(yes) ranks rows where an arm's answers are alike"
    elif not telling:
        step = "try other prompts or another model: answers that are all alike tell nothing"
    elif tests and all(test["same"] for test in tests):
        step = "try other examples: these change no answer"
    elif kept is not None and set(kept) >= {arm["arm"] for arm in arms}:
        step = _WATCH
    elif INCONCLUSIVE in verdicts:
        step = "get more rows: four times as many show differences half as large"
    elif not verdicts - {None}:
        step = "get answers about at least two groups: a gap needs two"
    elif not differs and kept is None:
        step = _WATCH
    elif run:
        step = "compare other ways of prompting (--shots)"
    else:
        step = "find out the cause of the gap, with people who know these decisions"
    return f"Next: {step}."


def _lacks_answers(arm: Mapping[str, Any], least: float) -> bool:
    """Whether replies without an answer, or a coverage below `least`, put an arm's numbers in
    doubt.
    """
    few = arm["coverage"] is None or arm["coverage"] < least
    return few or any(_silence(arm)) or (arm["coverage"] < 1 and _for_lack_of_answers(arm[GAP]))


def four_fifths(view: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield findings by arm on one of the `attributes` of `impact_tables`."""
    for arm in view["arms"]:
        if len(view["arms"]) > 1:
            who = arm["arm"]
        else:
            who = ""
        judged = {name: group for name, group in arm["groups"].items() if group["four_fifths"]}
        order = sorted(judged, key=lambda name: judged[name]["impact_ratio"])
        ratios = {
            name: f"{_cut(name)} {number(judged[name]['impact_ratio'], 2)} "
            f"({interval((judged[name]['impact_ratio_low'], judged[name]['impact_ratio_high']), 2)})"
            for name in order
        }
        settled = [name for name in order if judged[name]["four_fifths"]["settled"]]
        below = [name for name in settled if judged[name]["four_fifths"]["below"]]
        open_ = [name for name in order if name not in settled]
        rate = f"four fifths of the rate of {_cut(arm['reference'] or '')}"
        for names, text in (
            (below, f"Below {rate}"),
            (open_, f"Too few rows to tell whether below {rate}"),
        ):
            if names:
                yield {
                    "arm": who,
                    "text": f"{text}: {listed(names, _MOST_BELOW, ratios.__getitem__)}.",
                }
        if judged and not below and not open_:
            yield {"arm": who, "text": f"No group is below {rate}; the lowest: {ratios[order[0]]}."}


def all_alike(stats: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield a finding for each arm with the same answer to (nearly) all rows."""
    for arm in stats["arms"]:
        alike = arm["alike"]
        if not alike:
            continue
        text = f"{alike['words']}: the gap says nothing about the model."
        centred = alike["centred"]
        if centred:
            rates = sorted((rate, name) for name, rate in centred["rates"].items())
            ends = [
                f"{number(rate, 0, 100)} % of {_cut(name)}" for rate, name in (rates[0], rates[-1])
            ]
            shown = (
                (centred["auc"], 2, 1),
                (centred["accuracy"], 0, 100),
                (centred["gap"], 0, 100),
            )
            auc, right, gap = (
                f"{number(of['value'], *how)} ({interval((of['low'], of['high']), *how)})"
                for of, *how in shown
            )
            text += (
                f" P(yes) ranks rows: AUC {auc}. With the mean log-odds as threshold, the model "
                f"says yes to "
                f"{' and '.join(ends)}: accuracy {right} %, DP gap {gap} points."
            )
        yield {"arm": arm["arm"], "text": text}


def _silence(arm: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield findings on groups whose replies are refused, filtered, truncated, unfinished or
    unread more often than another group's.
    """
    for metric in REPLIES:
        (rate,) = metric.rates
        gap = arm["replies"][metric.key]
        if rate != "coverage" and gap.get("verdict") in (DIFFERS, WITHIN):
            shares = {name: group[rate] for name, group in arm["groups"].items() if group["judged"]}
            least = min(shares, key=lambda n: shares[n])
            most = max(shares, key=lambda n: shares[n])
            points, low, high = (
                number(x, 0, 100) for x in (gap["value"], shares[least], shares[most])
            )
            ends = interval((gap["low"], gap["high"]), 0, 100)
            text = (
                f"replies for {_cut(most)} are {rate} {points} points more often than for "
                f"{_cut(least)} "
                f"({high} % "
                f"against {low} %; {ends})."
            )
            yield {"arm": arm["arm"], "text": text}


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
        asked = f"{at['rows']:,} rows on average, {at['rows'] / most:.0%}"
        lines.append(
            f"  true gap {at['gap']:.2f}: {asked}; decided in {at['decided']:.0%} of such runs"
        )
    return [*lines, *([f"  a fixed sample that decides as often: {fixed:,} rows"] if fixed else [])]
