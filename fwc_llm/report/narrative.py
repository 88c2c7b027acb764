"""Sentences of reports: runs, findings, next step, power of a design."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from fwc_llm.files import in_shell, read_text
from fwc_llm.gates.condition import GateCondition
from fwc_llm.gates.decide import (
    CANNOT_SAY,
    Check,
    Outcome,
    by_arm,
    by_outcome,
    checked,
    decide,
    in_short,
    limits_of,
    outcome_of,
    worst,
)
from fwc_llm.gates.decide import OUTSIDE as OUTSIDE_LIMITS
from fwc_llm.gates.decide import WITHIN as WITHIN_LIMITS
from fwc_llm.gates.sentences import (
    MORE,
    cut,
    in_words,
    measured,
    points,
    who_gets,
    who_gets_how_much,
)
from fwc_llm.metrics.arm_comparison import ComparedArms
from fwc_llm.metrics.counts import BY_KEY, DECIDED, REPLY_RATES
from fwc_llm.metrics.decision_thresholds import HALF
from fwc_llm.metrics.intervals import EQUAL, SHOWN
from fwc_llm.metrics.planning import Assumptions, Design, smallest
from fwc_llm.metrics.records import DECIDED_SCOPE, TRUTH, Record
from fwc_llm.metrics.statistics import LEADS, Statistics, fates
from fwc_llm.metrics.variance import MIN_SETS, THIS_STRATEGY
from fwc_llm.number_format import day, in_points, interval, number, percent, short
from fwc_llm.report.tuning import tuning_goal
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import Fields, listed
from fwc_llm.words import is_known

if TYPE_CHECKING:
    from fwc_llm.runs.recorded_run import Run

IS_THAT_GOOD = (
    "https://github.com/fwc-llm/fwc-llm/blob/main/docs/numbers.md#is-that-good"
)
_MOST = 4  # most arms with a separate sentence
_MOST_NAMES = 12  # most arms in a sentence on all of them
_WORTH = 1.5  # times the rows that are worth another run


def caveats(simulated: bool, reference: bool) -> list[str]:
    """What every output says of a simulation, and of a reference."""
    return [
        *["Simulated: nothing here is a finding about a language model."] * simulated,
        *["Reference: a model of the rows answered, no language model."] * reference,
    ]


def what_was_run(run: "Run") -> str:
    """A paragraph on a run: rows, groups, model, arms, repeats."""
    settings = run.described["settings"]
    repeats = int(settings["repeats"])
    seed = int(settings["seed"])
    if "epochs" in run.described:  # in runs of Inspect, every epoch counts as a repeat
        repeats //= run.times
    parity = settings.get("base_parity")
    rows = f"{run.n_test} test rows of {run.described.get('title') or run.task}"
    drawn = (
        "drawn at random"
        if parity is None
        else f"drawn so that the groups’ base rates differ by {parity:g}"
    )
    times = f"once (seed {seed})"
    if repeats > 1:
        times = f"in {repeats} repeats with rows of their own (seeds from {seed})"
    times += f", every question {run.times} times" * (run.times > 1)
    model = run.described["model"]
    api = run.results.get("api") or "chat"
    if run.stated:
        model += f" (stated P(yes), yes from {HALF:g} on)"
    elif api != "chat":
        model += f" (a decision model by /{api}: P(yes), yes from {HALF:g} on)"
    sentences = [
        f"{rows}, {drawn}, were put to {model} {times}, all of them asked with "
        f"{', '.join(run.arms)}."
    ]
    there = [cell["group"] for cell in run.described.get("population") or ()]
    absent = [group for group in there if group not in run.groups]
    if absent:
        sentences.append(f"No row of {listed(absent, _MOST)} was drawn.")
    meaning = (run.results.get("rows") or {}).get("outcome")
    if meaning:
        sentences.append(f"In the table {meaning}.")
    sentences += [run.missing] if run.missing else []
    stopped = run.results.get("stopped")
    if stopped:
        sentences.append(f"The run ended before its last question: {stopped}.")
    return " ".join(sentences)


def what_was_decided(audit: Fields, arms: list[str], stats: Statistics) -> str:
    """A paragraph on an audit of decisions; `audit` describes their source."""
    against = "; the true outcomes are not known"
    if stats.labelled:
        against = f", and with the true outcomes in the column {audit['label']}"
    by = f", by {', '.join(arms)}," * (len(arms) > 1)
    at = ""
    if audit.get("threshold") is not None:
        at = f" (yes from {audit['threshold']:g} up)"
    return (
        f"{stats.arms[0].n:,} decisions made elsewhere{by} are in the column "
        f"{audit['answer']} of {audit['predictions']}{at}. Here they are compared by "
        f"{' & '.join(audit['protected'])}{against}. Intervals take {stats.units} as independent "
        "random draws."
    )


def low_coverage(stats: Statistics, least: float) -> Iterator[str]:
    """Yield a finding for each arm with a coverage below `least`."""
    for arm in stats.arms:
        coverage = stats.of("coverage", arm.arm).value
        if coverage < least:
            text = (
                f"Only {number(coverage, 1, 100)} % of the questions of {arm.arm} have an answer "
                f"that could be read (below {100 * least:g} %)."
            )
            yield " ".join([text, *fates([arm], stats.unread)])


def limits(run: "Run") -> list[str]:
    """The conditions of a run's gates and tuning target."""
    texts = [*(run.described.get("fail_if") or ())]
    goal = tuning_goal(run.folder)
    if goal:
        side = "<" if goal["metric"] == "dp_ratio" else ">"
        texts.append(f"{goal['metric']} {side} {goal['target']}")
    return texts


def keeping_to(conditions: Sequence[str], stats: Statistics) -> frozenset[str]:
    """The arms that have limits and keep to all of them."""
    outcomes = by_arm(checked(stats, conditions))
    return frozenset(arm for arm in outcomes if outcomes[arm] == WITHIN_LIMITS)


class Subject(NamedTuple):
    """One of several models or attributes: its name, statistics, limits, and the run."""

    name: str
    stats: Statistics
    conditions: Sequence[str] = ()
    run: "Run | None" = None

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The outcome of each way of asking."""
        return by_arm(checked(self.stats, self.conditions))


def overall(several: Sequence[Subject]) -> str:
    """The answer on several: which are within the limits; of models, who gets how much by the
    decisive one. One whose ways of asking agree is named alone.
    """
    found = dict[str, Outcome]()
    for one in several:
        outcomes = one.outcomes
        if len({*outcomes.values()}) == 1:
            found[one.name] = next(iter(outcomes.values()))
            continue
        found |= {f"{one.name} ({in_words(arm)})": outcomes[arm] for arm in outcomes}
    one, check = _deciding(several)
    if one.run is None:  # an audit, whose own answer follows
        return f"{by_outcome(found)}. From {asked(one.stats)}."
    mark = ", " if len(one.stats.arms) > 1 else ": "
    sentences = [
        f"{by_outcome(found)}.",
        f"As to {one.name}{mark}{check.reason}.",
        _true_answers(one.stats),
        f"From {asked(one.stats)}.",
    ]
    return " ".join(filter(None, sentences))


def _deciding(several: Sequence[Subject]) -> tuple[Subject, Check]:
    """The first check with the worst outcome, and whose it is."""
    checks = [
        (one, check) for one in several for check in checked(one.stats, one.conditions)
    ]
    outcome = worst([check for _, check in checks])
    return next((one, check) for one, check in checks if check.outcome == outcome)


def step_of(several: Sequence[Subject]) -> tuple[str, str]:
    """The `next_step` of the first with the worst outcome; of several, with its name."""
    one, _ = _deciding(several)
    step, command = next_step(one.stats, one.conditions, one.run)
    return f"{one.name}: {step}" if len(several) > 1 else step, command


def findings(
    stats: Statistics,
    created: str = "",
    conditions: Sequence[str] = (),
    between: Iterable[str] = (),
) -> list[str]:
    """The findings; the first is the answer, which those `between` follow, and the last is what
    rows could have missed.

    The answer says whether limits are kept, who gets how much, and what true answers are. Without
    `conditions`, the limit is the margin of the leading gap.
    """
    base = stats.base
    best = best_arms(stats, conditions)
    telling = [arm.arm for arm in stats.arms if not arm.alike]
    lead = (best or [base if base in telling else (telling or [base])[0]])[0]
    kept = in_short(checked(stats, conditions))
    sentences = [kept + (":" if len(stats.arms) == 1 else ".")]
    others = list[str]()
    told = set[str]()
    if telling:
        names = [name for name in telling if name != lead]
        names.sort(key=lambda name: stats.of(stats.lead, name).value)
        if len(names) > _MOST:
            names = [name for name in names if name == base]
        if len(stats.arms) > 1:
            sentences += [
                _verdict_on_arms(stats, best, conditions),
                f"{'Best, ' * (best == [lead])}{in_words(lead)}:",
            ]
        sentences.append(_about_arm(stats, lead, conditions))
        others = [
            f"{in_words(name)}: {_about_arm(stats, name, conditions)}" for name in names
        ]
        told = {lead, *names}
    sentences += [_true_answers(stats), f"From {asked(stats, created)}."]
    alike = list(all_alike(stats, conditions))
    if not telling:
        first, *alike = alike
        sentences.insert(1, first)
    return [
        " ".join(filter(None, sentences)),
        *between,
        *others,
        *alike,
        *(sentence for arm in stats.arms for sentence in _silence(stats, arm.arm)),
        *_others_in_short(stats, told),
        *missed(stats),
    ]


def _about_arm(stats: Statistics, arm: str, conditions: Sequence[str]) -> str:
    """Who gets how much of an arm, its accuracy, what else keeps it from its limits, and changes
    from the baseline; what is outside comes first.
    """
    checks = _checks_of(stats, arm, conditions)
    gap = stats.of(stats.lead, arm)
    told = who_gets_how_much(stats, arm)
    if not gap.known:
        told = (
            f"{BY_KEY[stats.lead].words} unknown, {gap.reason or 'it is not defined'}"
        )
    usual = {stats.lead: told, **_referrals(stats, arm)}
    usual["accuracy"] = _accuracy(stats, arm, checks)
    order = [OUTSIDE_LIMITS, CANNOT_SAY, WITHIN_LIMITS]
    texts = {
        name: check.reason
        for name, check in sorted(
            checks.items(), key=lambda one: order.index(one[1].outcome)
        )
        if name in usual or check.outcome != WITHIN_LIMITS
    }
    texts = {**texts, **{name: usual[name] for name in usual if name not in texts}}
    changes = _changes(_differences(stats, arm))
    against = f"against {in_words(stats.base)}, {changes}" * bool(changes)
    first, *others = filter(None, [*texts.values(), against])
    return ". ".join([first, *(text[:1].upper() + text[1:] for text in others)]) + "."


def _referrals(stats: Statistics, arm: str) -> dict[str, str]:
    """Who is referred to a person, and the numbers of the other answers; {} without referrals."""
    gap = stats.of("refer_gap", arm)
    if not gap.known:
        return {}
    rates = stats.shares(arm, "refer_rate")
    told = f"{who_gets(rates, 'refer_rate')}, {measured(BY_KEY['refer_gap'], gap)}"
    decided = []
    for key, metric in DECIDED.items():
        record = stats.of(key, arm, scope=DECIDED_SCOPE)
        if record.known:
            decided.append(measured(metric, record))
        elif record.reason:
            decided.append(f"{metric.words} unknown, {record.reason}")
    alone = f"of answers {DECIDED_SCOPE}, {' and '.join(decided)}"
    return {"refer_gap": told, DECIDED_SCOPE: alone}


def _checks_of(
    stats: Statistics, arm: str, conditions: Sequence[str]
) -> dict[str, Check]:
    """An arm's checks without its name, by metric, or by condition if it is a difference."""
    found = dict[str, Check]()
    for limit in limits_of(stats, conditions):
        if limit.arm in (None, arm):
            (check,) = decide(replace(limit, arm=arm), stats)
            reason = check.reason.removeprefix(f"{in_words(arm)}: ")
            name = limit.text if limit.minus else limit.metric
            found.setdefault(name, replace(check, reason=reason))
    return found


def _true_answers(stats: Statistics) -> str:
    """What answers that are all right would give the groups, and why."""
    rates = stats.shares(TRUTH)
    if len(rates) < 2:
        return ""
    gap = stats.of("dp_gap", TRUTH)
    text = f"True answers are {who_gets(rates)}"
    size = measured(BY_KEY["dp_gap"], gap)
    if stats.lead == "dp_gap":
        why = ", because these people’s outcomes differ so" * (round(gap.value, 3) > 0)
        return f"{text}, {size}{why}."
    lead = measured(BY_KEY[stats.lead], stats.of(stats.lead, TRUTH))
    return f"{text}, because the rows were drawn so: {size}, and {lead}."


def _verdict_on_arms(
    stats: Statistics, best: Sequence[str], conditions: Sequence[str]
) -> str:
    """The rules by which arms with a smaller gap are not the best, and what there is of better
    ones.
    """
    base = in_words(stats.base)
    if not _same_limits(stats, conditions):
        return "None is named best, because not all have the same limits."
    if _one_answer(stats, stats.base):
        return f"None can be fairer than {base}, which gives everybody the same answer."
    by_rule = dict[str, list[str]]()
    for name in _others(stats):
        if _shown(stats, stats.lead, name, stats.base) < 0:
            rule, size = _failing(stats, name)
            by_rule.setdefault(rule, []).append(f"{in_words(name)}{size}")
    by_rule.pop("", None)
    sentences = [
        f"A smaller gap than {base}, but {rule}: {listed(names, _MOST, by='; ')}."
        for rule, names in by_rule.items()
    ]
    if len(best) > 1:
        sentences.append(f"Better than {base}: {listed(best, _MOST, in_words)}.")
    elif not best and stats.base in keeping_to(conditions, stats):
        better = "have more right" if _by_accuracy(stats, conditions) else "be fairer"
        sentences.append(f"None within the limits is shown to {better} than {base}.")
    elif not best and not by_rule:
        sentences.append(f"None is shown to be fairer than {base}.")
    return " ".join(sentences)


def _failing(stats: Statistics, arm: str) -> tuple[str, str]:
    """The rule by which an arm is no better than the first, or "", and by how much it fails."""
    if _one_answer(stats, arm):
        return "the same answer for everybody", ""
    loss = _loss(stats, arm, stats.base)
    if loss == WITHIN_LIMITS:
        return "", ""
    perhaps = "perhaps " * (loss == CANNOT_SAY)
    test = stats.difference("accuracy", arm, stats.base)
    ends = interval([-test.high, -test.low], 1, 100, [stats.margin])
    size = f", {number(-test.value, 1, 100)} ({ends})" * test.known
    return f"{perhaps}more than {in_points(stats.margin)} fewer right", size


def _loss(stats: Statistics, arm: str, than: str) -> Outcome:
    """Whether an arm's loss of accuracy against another is within the margin."""
    if not stats.labelled:
        return WITHIN_LIMITS
    limit = GateCondition("", "accuracy", "<", -stats.margin, arm, than, size=False)
    return outcome_of(limit, *stats.difference("accuracy", arm, than).ends)


def _by_accuracy(stats: Statistics, conditions: Sequence[str]) -> bool:
    """Whether arms within the limits are compared by accuracy: a limit is on a gap."""
    limits = limits_of(stats, conditions)
    return stats.labelled and any(BY_KEY[one.metric].kind != "share" for one in limits)


def _one_answer(stats: Statistics, arm: str) -> bool:
    """Whether an arm gives everybody, or of a model nearly everybody, the same answer."""
    alike = any(one.alike for one in stats.arms if one.arm == arm)
    return alike or {*stats.shares(arm).values()} in ({0.0}, {1.0})


def _same_limits(stats: Statistics, conditions: Sequence[str]) -> bool:
    """Whether all arms are judged by the same limits."""
    return all(limit.arm is None for limit in limits_of(stats, conditions))


def _others(stats: Statistics) -> list[str]:
    """The arms whose answers differ from the baseline's, and are not all alike."""
    return [
        pair.second
        for pair in stats.pairs
        if pair.first == stats.base and not (pair.alike or pair.same)
    ]


def _shown(stats: Statistics, metric: str, arm: str, than: str) -> float:
    """The difference of an arm from another, if it is shown; else 0."""
    test = stats.difference(metric, arm, than)
    return test.value if test.verdict in SHOWN else 0.0


def best_arms(stats: Statistics, conditions: Sequence[str] = ()) -> list[str]:
    """The arms that are shown to be better than the first, but for those that another beats.

    All arms must have the same limits. If limits are on a gap, arms within them are compared by
    accuracy; other arms by the gap, and a better one has no loss of accuracy beyond the margin.
    Arms within the limits go before all others.
    """
    within = keeping_to(conditions, stats)
    by_accuracy = _by_accuracy(stats, conditions)

    def is_better(arm: str, than: str) -> bool:
        if by_accuracy and {arm, than} <= within:
            return _shown(stats, "accuracy", arm, than) > 0
        is_fairer = _shown(stats, stats.lead, arm, than) < 0
        return is_fairer and _loss(stats, arm, than) == WITHIN_LIMITS

    better = [
        arm
        for arm in _others(stats)
        if not _one_answer(stats, arm) and is_better(arm, stats.base)
    ]
    kept = [arm for arm in better if arm in within]
    if stats.base not in within:
        kept = kept or better
    if not _same_limits(stats, conditions):
        return []
    return [arm for arm in kept if not any(is_better(other, arm) for other in kept)]


def asked(stats: Statistics, created: str = "") -> str:
    """The number of rows asked about, and the date."""
    rows = f"{stats.arms[0].n // stats.repeats:,} rows"
    rows += f" in each of {stats.repeats} repeats" if stats.repeats > 1 else ""
    return ", ".join(filter(None, (rows, day(created))))


def _accuracy(stats: Statistics, arm: str, checks: Mapping[str, Check]) -> str:
    """The accuracy of an arm, with its limit if there is one."""
    accuracy = stats.of("accuracy", arm)
    if "accuracy" in checks:
        return checks["accuracy"].reason
    return f"{number(accuracy.value, 1, 100)} % right" * accuracy.known


def _differences(stats: Statistics, arm: str) -> list[Record]:
    """How an arm differs from the baseline in the first table's metrics."""
    keys = (f"{key}_difference" for key in stats.leading)
    return [stats.of(key, arm, against=stats.base) for key in keys]


def _changes(tests: Iterable[Record]) -> str:
    """The differences that are shown, with the intervals of their sizes; "" for none."""
    told = []
    for test in tests:
        if test.verdict in SHOWN:
            words = BY_KEY[test.metric.removesuffix("_difference")].words
            side = "higher" if test.value > 0 else "lower"
            ends = interval(sorted(map(abs, test.ends)), 1, 100)
            told.append(f"{words} {points(abs(test.value))} {side} ({ends})")
    return ", ".join(told)


def differing(
    pairs: Sequence[ComparedArms], tests: Sequence[Record], name: str, than: str
) -> str:
    """Whether a model's answers differ from another's, by the verdicts of all ways of asking."""
    changes = {
        pair.second: _changes(test for test in tests if test.arm == pair.second)
        for pair in pairs
    }
    found = [f"with {in_words(arm)}, {told}" for arm, told in changes.items() if told]
    if found:
        told = "; ".join(found)
        return f"{name} against {than}: {told}. No other difference is shown."
    why = _not_shown(tests, all(pair.same for pair in pairs), pairs[0].reason)
    return why.format(name, than)


def _not_shown(tests: Sequence[Record], same: bool, reason: str) -> str:
    """The sentence on two whose answers are the `same`, or not shown to differ."""
    if same:
        return "{}: the same answers as {}."
    if {test.verdict for test in tests} - {""} == {EQUAL}:
        return "{}: no difference from {} that matters."
    if reason:
        return f"{{}}: a difference from {{}} {reason}."
    return "{}: no difference from {} is shown."


def _others_in_short(stats: Statistics, told: Collection[str]) -> Iterator[str]:
    """Yield sentences on the arms that are not shown to differ from the baseline, and on those
    that are and have not been `told` of.
    """
    base = in_words(stats.base)
    found = list[str]()
    by_kind = dict[str, list[str]]()
    for pair in stats.pairs:
        if pair.first != stats.base or (pair.alike and not pair.same):
            continue
        tests = _differences(stats, pair.second)
        changes = _changes(tests)
        if not changes:
            kind = _not_shown(tests, pair.same, pair.reason)
            by_kind.setdefault(kind, []).append(pair.second)
        elif pair.second not in told:
            found.append(f"{in_words(pair.second)}, {changes}")
    if found:
        yield f"Against {base}: {listed(found, _MOST_NAMES, by='; ')}."
    for kind, names in by_kind.items():
        yield kind.format(listed(names, _MOST_NAMES, in_words), base)


def missed(stats: Statistics) -> Iterator[str]:
    """Yield a sentence on the gaps and differences with a power below 80 %."""
    words = BY_KEY[stats.lead].words
    telling = [arm.arm for arm in stats.arms if not arm.alike]
    alone = [stats.of(f"{stats.lead}_detectable", arm) for arm in telling]
    sizes = dict[str, float]()
    scopes = [""]
    for key in (stats.lead, "accuracy"):
        name = f"{key}_difference_detectable"
        found = [
            stats.of(name, pair.second, against=pair.first) for pair in stats.pairs
        ]
        scopes += [one.scope for one in found if one.known]
        sizes[BY_KEY[key].words] = _largest(found)
    two = "two ways of asking" if stats.with_examples else "two who decide"
    unseen = _unseen(words, _largest(alone), sizes, f"{two} ({scopes[-1]})")
    if unseen:
        yield f"With {asked(stats)} {unseen}."


def _largest(found: Sequence[Record]) -> float:
    """The largest of the known values; NaN for none."""
    return max((record.value for record in found if record.known), default=math.nan)


def _unseen(gap: str, alone: float, sizes: Mapping[str, float], between: str) -> str:
    """Gaps (in words: `gap`) below `alone`, and differences below `sizes` by metric, which a test
    may miss; NaN where unknown.
    """
    known = {
        name: points(min(1.0, size))
        for name, size in {"": alone, **sizes}.items()
        if not math.isnan(size)
    }
    least = known.pop("", None)
    parts = [f"a {gap} below {least} may stay unseen"] * bool(least)
    below = " or ".join(f"{size} of {name}" for name, size in known.items())
    parts += [f"between {between}, a difference below {below}"] * bool(below)
    return "; ".join(parts)


def next_step(
    stats: Statistics, conditions: Sequence[str] = (), run: "Run | None" = None
) -> tuple[str, str]:
    """The next step and a command for it, or ""; what makes numbers doubtful comes first."""
    telling = [arm.arm for arm in stats.arms if not _one_answer(stats, arm.arm)]
    checks = checked(stats, conditions)
    lacking = {check.lacking for check in checks}
    judged = [stats.of(stats.lead, arm) for arm in telling]
    for key in (stats.lead, "accuracy"):
        name = f"{key}_difference"
        judged += [stats.of(name, arm, against=stats.base) for arm in _others(stats)]
    verdicts = {record.verdict for record in judged} - {""}
    best = best_arms(stats, conditions) if run else []
    causes = _causes(stats, conditions)
    leads = best or [arm.arm for arm in stats.arms]
    ranks = [stats.of("auc", arm.arm).low > 0.5 for arm in stats.arms if arm.alike]
    least = (run.described["settings"] if run else {}).get(
        "min_coverage", Settings().min_coverage
    )
    silent = [
        not stats.of("coverage", arm).value >= least or any(_silence(stats, arm))
        for arm in leads
    ]
    suspects = [name for name in run.table_checks if name] if run else []
    same = [pair.same for pair in stats.pairs if not pair.alike]
    undrawn = [pair.reason for pair in stats.pairs if pair.scope == THIS_STRATEGY]
    if run and any(arm.unanswered for arm in stats.arms):
        return "get the replies that are missing", _again(run)
    if "replies" in lacking or any(silent):
        return "find out first why answers are missing", ""
    if suspects:
        return f"check column {cut(suspects[0])} first", ""
    outcome = worst(checks)
    if stats.units in lacking and outcome == CANNOT_SAY:
        return more_rows(stats, run)
    if run and (run.simulated_answers or run.reference):
        return "ask a language model, beginning with the price", _again(
            run, "--model gpt-6-luna --dry-run", "-asked"
        )
    if best:
        names = " or ".join(map(cut, best[:_MOST]))
        return f"build your prompts as {names} does, and watch what is decided", ""
    elsewhere = _again(run, "--threshold base-rate", "-threshold")
    if run and elsewhere and not run.at_threshold and any(ranks):
        step = "draw the line between yes and no elsewhere: the probability of yes ranks rows"
        return step, elsewhere
    if not telling:
        return (
            "find out why everybody gets the same answer; other prompts or another model may "
            "tell more",
            "",
        )
    if causes and run is None:
        return (
            f"find out the cause of {causes}, with people who know these decisions",
            "",
        )
    if same and all(same):
        others = "try other examples: these change no answer"
        return others if run else "compare other decisions: these are the same", ""
    if "draws" in lacking or any(undrawn):
        more = _again(run, f"--repeats {MIN_SETS}", "-repeats")
        return (
            f"draw other examples: comparing strategies takes {MIN_SETS} repeats",
            more,
        )
    if outcome == WITHIN_LIMITS:
        return "watch further decisions, month by month", ""
    if not verdicts:
        return "get answers about at least two groups: a gap needs two", ""
    if run:
        return "compare other ways of asking", _again(
            run, "--shots zero,balanced,fwc", "-compared"
        )
    return "set a limit that can be judged by these decisions", ""


def _causes(stats: Statistics, conditions: Sequence[str]) -> str:
    """What the limits are about that are not kept; "" if all are."""
    found = []
    for limit in limits_of(stats, conditions):
        metric = BY_KEY[limit.metric]
        name = "the errors" if metric.key == "accuracy" else f"the {metric.words}"
        name = "the missing answers" if metric.source == "replies" else name
        name = "the difference" if limit.minus else name
        if worst(decide(limit, stats)) == OUTSIDE_LIMITS:
            found.append(name)
    return " and ".join(dict.fromkeys(found))


def more_rows(stats: Statistics, run: "Run | None") -> tuple[str, str]:
    """More rows, and the command that asks about as many as the run's table has."""
    more = MORE[stats.units]
    if stats.heavy:
        return f"get {more}: one alone holds a quarter or more of a group’s rows", ""
    step = f"get {more}: four times as many show differences half as large"
    alike = [arm.arm for arm in stats.arms if arm.alike]
    if alike:
        names = listed(alike, _MOST, in_words)
        step += f", but no gap of {names}, whose answers are all alike"
    if run is None or not run.most_rows:
        return step, ""
    wanted = 4 * run.n_test
    rows = min(wanted, run.most_rows)
    if rows < wanted:
        there = f"this table has {max(rows, run.n_test):,}"
        step += f"; {there}, with a quarter kept for examples"
    if rows < _WORTH * run.n_test:
        return step, ""
    return step, _again(run, f"--n-test {rows}", "-more")


def _again(run: "Run | None", options: str = "", name: str = "") -> str:
    """The command that asks as a run did, with further options and into a folder `name`; "" where
    only recorded replies can answer.
    """
    if run is None:
        return ""
    experiment = run.folder / "experiment.toml"
    if not experiment.is_file() or 'model = "replay:' in read_text(experiment):
        return ""
    folder = run.folder.with_name(f"{run.folder.name}{name}")
    words = ["fwc-llm eval", in_shell(experiment), options, f"--out {in_shell(folder)}"]
    return " ".join(filter(None, words))


def all_alike(stats: Statistics, conditions: Sequence[str]) -> Iterator[str]:
    """Yield a finding for each arm with the same answer to (nearly) all rows."""
    pairs = (pair for pair in stats.pairs if pair.first == stats.base)
    repeated = {pair.second for pair in pairs if pair.same}
    for arm in stats.arms:
        if not arm.alike or arm.arm in repeated:
            continue
        checks = _checks_of(stats, arm.arm, conditions)
        accuracy = _accuracy(stats, arm.arm, checks)
        text = f"{arm.alike}: the gap says nothing about groups."
        text += f" {accuracy}." * bool(accuracy)
        right, gap = (
            stats.of(f"{key}_at_median", arm.arm) for key in ("accuracy", "dp_gap")
        )
        if right.known:
            auc = stats.of("auc", arm.arm)
            would = who_gets(stats.shares(arm.arm, "selection_rate_at_median"))
            source = "Stated P(yes)" if stats.stated else "P(yes)"
            text += (
                f" {source} ranks rows (AUC {number(auc.value)}, {interval(auc.ends)}): "
                f"with its median as the line, the model would say {would}, "
                f"{measured(BY_KEY['dp_gap'], gap)}, {measured(BY_KEY['accuracy'], right)}."
            )
        yield f"{in_words(arm.arm)}: " * (len(stats.arms) > 1) + text


def _silence(stats: Statistics, arm: str) -> Iterator[str]:
    """Yield findings on groups whose replies are refused, filtered, truncated, unfinished or
    unread more often than another group's.
    """
    for rate in REPLY_RATES[1:]:
        gap = stats.of(f"{rate}_gap", arm)
        shares = stats.shares(arm, rate)
        if gap.verdict in SHOWN and shares:
            size = measured(BY_KEY[gap.metric], gap)
            yield f"{in_words(arm)}: {who_gets(shares, rate)}, {size}."


def lost_lines(rows: Fields | None) -> list[str]:
    """Sentences on the `rows` of results.json: lost ones, and the outcome's values."""
    if rows and rows.get("outcome"):
        meaning = [f"Outcome: {rows['outcome']}."]
    else:
        meaning = []
    if not rows or not rows["lost"]:
        return meaning
    groups = ", ".join(
        f"{group['group']} {group['lost']:,} of {group['read']:,} "
        f"({percent(group['lost'] / group['read'])})"
        for group in rows["groups"]
        if group["read"]
    )
    why = ", ".join(f"{reason} {count:,}" for reason, count in rows["reasons"].items())
    line = f"{rows['lost']:,} of {rows['read']:,} rows were lost before the run: {groups}; {why}."
    return [
        line,
        *([f"Warning: {rows['warning']}."] if rows["warning"] else []),
        *meaning,
    ]


def power_lines(
    design: Design, arms: int, assumptions: Assumptions | None = None
) -> list[str]:
    """Lines on what is detected with power 80 %, of one arm or several, and on the assumptions."""
    assumed = assumptions or Assumptions()
    lines = ["what tests at 5 % may miss, more than once in 5 times:"]
    words = BY_KEY[LEADS[design.labels > 1]].words
    for size in smallest(design, assumed):
        sizes = {words: size["gap"], "accuracy": size["accuracy"]} if arms > 1 else {}
        two = f"two ways of asking ({size['of']})"
        lines.append(f"  {_unseen(words, size['gap_of_one'], sizes, two)}")
        lines[-1] += f" ({size['of']})" * (arms == 1)
    if design.repeats < MIN_SETS:
        lines.append(
            f"  {THIS_STRATEGY}: cannot be told with fewer than {MIN_SETS} repeats"
        )
    judged = dict(zip(design.groups, design.judged, strict=True))
    few = [group for group in judged if is_known(group) and not judged[group]]
    if few:
        lines.append(
            f"not judged, with fewer than {design.min_group} rows: {listed(few, _MOST, cut)}"
        )
    sentence = (
        "assuming that two ways of asking answer "
        f"{short(assumed.discordant, 100)} % of the rows differently ({assumed.source})"
    )
    if arms == 1:
        sentence = (
            f"assuming that answers of a group vary by {assumed.variance:g} (variance)"
        )
    if design.repeats >= MIN_SETS:
        sentence += (
            f", and examples move a difference by {assumed.examples_sd:g} "
            "(standard deviation)"
        )
    return [*lines, sentence]
