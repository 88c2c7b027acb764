"""The report's sentences: what was run, what it shows, and what a design finds."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fwc_llm.metrics.planning import Assumptions, Design, Smallest, limit_of, smallest
from fwc_llm.metrics.probability_checks import OPPOSITE, THRESHOLD
from fwc_llm.metrics.variance import LEAST_SETS, THESE_EXAMPLES
from fwc_llm.report.format import interval, number, p_value, percent, signed

if TYPE_CHECKING:
    from fwc_llm.report.read import Run

REFERENCE = "the answers come from the rows, not from prompts, so that the arms differ in nothing"


def what_was_run(run: "Run", found: Mapping[str, Any]) -> str:
    """Return one paragraph: rows, groups, model, arms, repeats."""
    settings = run.described["settings"]
    repeats, seed = int(settings["repeats"]), int(settings["seed"])
    if "epochs" in run.described:  # of Inspect every epoch is a repeat
        repeats //= run.times
    parity = settings.get("base_parity")
    rates = ", ".join(f"{group['group']} {group['base_rate']:.0%}" for group in found["groups"])
    rows = f"{settings['n_test']} test rows of {run.described.get('title') or run.task}"
    drawn = (
        "drawn at random" if parity is None else f"drawn so that the groups’ base rates differ by {parity:g}"
    )
    times = (
        f"in {repeats} repeats (seeds {seed} to {seed + repeats - 1}), each with rows of its own"
        if repeats > 1
        else f"once (seed {seed})"
    )
    times += f", every question {run.times} times" if run.times > 1 else ""
    stopped = run.results.get("stopped")
    arms = f"{len(run.arms)} ways of prompting" if len(run.arms) > 1 else "one way of prompting"
    model = f"the model {run.described['model']}{_how(run)}"
    if run.simulated_answers:
        model = f"{run.described['model']}{_how(run)}, a simulation,"
    elif run.reference:
        model = f"{run.described['model']}, a reference and no language model,"
    return (
        f"{rows}, {drawn} (share of true yes: {rates}), were put to {model} {times}, "
        f"with {arms}: {', '.join(run.arms)}."
        + (" Every arm saw the same rows." if len(run.arms) > 1 else "")
        + (f" {run.missing}" if run.missing else "")
        + (f" The run ended before its last question: {stopped}." if stopped else "")
        + "".join(f" {arm}: {said}." for arm, said in (run.described.get("untrue") or {}).items())
    )


def _how(run: "Run") -> str:
    """That a decision model was asked, and how."""
    api = run.results.get("api") or "chat"
    return "" if api == "chat" else f" (a decision model by /{api}: P(yes), yes from {THRESHOLD:g} on)"


def what_was_decided(audit: Mapping[str, Any], arms: list[str], found: Mapping[str, Any]) -> str:
    """Return the same for decisions that were made elsewhere; `audit` says where they stand."""
    rates = ", ".join(f"{group['group']} {group['base_rate']:.0%}" for group in found["groups"])
    at = f", yes from {audit['threshold']:g} up" if audit.get("threshold") is not None else ""
    who = f" Who decided: {', '.join(arms)}." if len(arms) > 1 else ""
    return (
        f"{found['arms'][0]['n']:,} decisions that were made elsewhere stand in the column {audit['answer']} "
        f"of {audit['predictions']}{at}. Here they are set against {audit['label']}, by "
        f"{' & '.join(audit['protected'])} (share of true yes: {rates}).{who} Nothing is assumed about how "
        "the rows were drawn: their labels count as random."
    )


def findings(found: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what a reader should take away: each arm (`arm`) with the rest of its sentence (`text`).

    The first arm against noise, every other against the first; last, what a perfect classifier would show.
    """
    first = found["arms"][0]
    sentences = [{"arm": first["arm"], "text": _against_chance(first)}]
    for test in found["comparisons"]:
        if test["first"] == first["arm"]:
            other = next(arm for arm in found["arms"] if arm["arm"] == test["second"])
            sentences.append({"arm": other["arm"], "text": _against_first(first, test)})
    if against := _against_lines(found):
        sentences.append({"arm": "", "text": against})
    oracle = next((row for row in found["context"] if row["name"] == "oracle"), None)
    if oracle and (oracle["demographic_parity_difference"] or 0) > 0:
        gap = number(oracle["demographic_parity_difference"], 2)
        text = f"On these rows a perfect classifier has a DP gap of {gap}: even right answers have one."
        sentences.append({"arm": "", "text": text})
    return sentences


def _against_chance(arm: Mapping[str, Any]) -> str:
    gap = arm["demographic_parity_difference"]
    if gap["value"] is None:
        reason = arm["reasons"].get("demographic_parity_difference", "it is not defined")
        return f"has no DP gap to give: {reason}."
    shown, floor = number(gap["value"], 3), number(gap["noise_95"], 3)
    ends = interval((gap["low"], gap["high"]), 3)
    alike = f"groups treated alike would differ by less than {floor}"
    chance = f"{alike} in 95 of 100 such runs (the noise floor)"
    if gap["p_value"] is None or gap["p_value"] >= 0.05:
        chance += ": it may be chance, and is not significant"
    else:
        chance += ": it is significant"
    return f"has a DP gap of {shown} (95 % interval {ends}); {chance}."


def _against_first(first: Mapping[str, Any], test: Mapping[str, Any]) -> str:
    gap, accuracy = test["demographic_parity_difference"], test["accuracy"]
    if gap["difference"] is None or accuracy["difference"] is None:
        return f"cannot be compared with {first['arm']}: too few rows that both answered."
    if test["reason"]:
        size, points = signed(gap["difference"], 3), signed(accuracy["difference"], 1, 100)
        return (
            f"changes the DP gap by {size} and accuracy by {points} points against {first['arm']}; whether "
            f"the strategies differ {test['reason']}."
        )
    verb = "lowers" if gap["difference"] < 0 else "raises"
    size = number(abs(gap["difference"]), 3)
    parity = (
        f"{verb} the DP gap by {size} against {first['arm']} (p\u00a0{_p(gap)})"
        if gap["distinguishable"]
        else f"does not change the DP gap significantly against {first['arm']} (p\u00a0{_p(gap)})"
    )
    points = number(abs(accuracy["difference"]), 1, 100)
    change = "more" if accuracy["difference"] > 0 else "less"
    cost = (
        f"at {points} points {change} accuracy (p\u00a0{_p(accuracy)})"
        if accuracy["distinguishable"]
        else f"and its accuracy does not differ significantly (p\u00a0{_p(accuracy)})"
    )
    return f"{parity}, {cost}."


def _p(test: Mapping[str, Any]) -> str:
    shown = p_value(test["p_adjusted"])
    return shown if shown.startswith("<") else f"=\u00a0{shown}"


def _against_lines(found: Mapping[str, Any]) -> str:
    """Every arm less the last reference line without the protected attribute; empty without lines."""
    references = found.get("reference_lines")
    if references is None:
        return ""
    plain = [one["line"] for one in references["lines"] if not one["uses_protected"]]
    tests = [test for test in references["comparisons"] if plain and test["line"] == plain[-1]]
    noise = {True: "", False: " (not significant)", None: " (cannot be told)"}
    parts = [
        f"{test['arm']} {signed(test['accuracy']['difference'], 1, 100)} points of accuracy"
        f"{noise[test['accuracy']['distinguishable']]}, DP gap "
        f"{signed(test['demographic_parity_difference']['difference'], 3)}"
        f"{noise[test['demographic_parity_difference']['distinguishable']]}"
        for test in tests
        if test["accuracy"]["difference"] is not None
    ]
    return f"On the same rows, against {plain[-1]}: {'; '.join(parts)}." if parts else ""


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
    """Return how many rows of each group were lost and why, and the warning; nothing where none was.

    `rows` is that of results.json.
    """
    if not rows or not rows["lost"]:
        return []
    groups = ", ".join(
        f"{one['group']} {one['lost']:,} of {one['read']:,} ({one['lost'] / one['read']:.1%})"
        for one in rows["groups"]
        if one["read"]
    )
    why = ", ".join(f"{reason} {count:,}" for reason, count in rows["reasons"].items())
    line = f"{rows['lost']:,} of {rows['read']:,} rows were lost before the run: {groups}; {why}."
    return [line, *([f"Warning: {rows['warning']}."] if rows["warning"] else [])]


def power_lines(design: Design, assumptions: Assumptions | None = None) -> list[str]:
    """Return what the design finds four times in five, and what that rests on."""
    given = assumptions or Assumptions()
    lines = ["found 4 times in 5, by tests at 5 %:"]
    lines += [f"  {_finds(one)}" for one in smallest(design, given)]
    if design.repeats < LEAST_SETS:
        lines.append(
            f"  this strategy, with examples drawn anew: cannot be told with fewer than {LEAST_SETS} repeats"
        )
    return [*lines, *_limits(design, given), _assuming(design, given)]


def _finds(one: Smallest) -> str:
    where = "these examples" if one.of == THESE_EXAMPLES else "this strategy, with examples drawn anew"
    accuracy = f"{number(min(1.0, one.accuracy), 1, 100)} points of accuracy"
    if math.isnan(one.gap):
        return f"{where}: {accuracy} between two arms"
    gap, alone = number(min(1.0, one.gap), 3), number(min(1.0, one.gap_of_one), 3)
    return f"{where}: {gap} of DP gap and {accuracy} between two arms; one arm's DP gap of {alone} against 0"


def _limits(design: Design, assumptions: Assumptions) -> list[str]:
    """What the table's size forbids, where repeats ask about rows again."""
    if design.repeats < 2 or assumptions.correlation == 0.0 or len(design.groups) < 2:
        return []
    least = min(
        (size, group, label)
        for group, sizes, asked in zip(
            design.groups, design.table.tolist(), design.rows.tolist(), strict=True
        )
        for label, size, rows in zip(("no", "yes"), sizes, asked, strict=False)
        if rows > 0
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
    if design.repeats >= LEAST_SETS:
        sentence += (
            f"; sets of examples move a difference by a standard deviation of {assumptions.examples_sd:g}"
        )
    return sentence
