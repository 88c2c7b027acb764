"""The report's sentences: what was run, and what it shows, in words that the numbers carry."""

from collections.abc import Mapping
from typing import Any

from fwc_llm.metrics.decided import THRESHOLD
from fwc_llm.report.numbers import interval, number, p_value, signed
from fwc_llm.report.read import KEY, Run
from fwc_llm.report.tables.lines import line_finding


def what_was_run(run: Run, found: Mapping[str, Any]) -> str:
    """Return one paragraph: rows, groups, model, arms, repeats."""
    if audit := run.described.get(KEY):
        return _what_was_decided(run, audit, found)
    settings = run.described["settings"]
    repeats, seed = int(settings["repeats"]), int(settings["seed"])
    if "samples" not in settings:  # of Inspect every epoch is a repeat
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


def _how(run: Run) -> str:
    """That a decision model was asked, and how."""
    api = run.results.get("api") or "chat"
    return "" if api == "chat" else f" (a decision model by /{api}: P(yes), yes from {THRESHOLD:g} on)"


def _what_was_decided(run: Run, audit: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The same for decisions that were made elsewhere."""
    rates = ", ".join(f"{group['group']} {group['base_rate']:.0%}" for group in found["groups"])
    at = f", yes from {audit['threshold']:g} up" if audit.get("threshold") is not None else ""
    arms = f" Who decided: {', '.join(run.arms)}." if len(run.arms) > 1 else ""
    return (
        f"{found['arms'][0]['n']:,} decisions that were made elsewhere stand in the column {audit['answer']} "
        f"of {audit['predictions']}{at}. Here they are set against {audit['label']}, by "
        f"{' & '.join(audit['protected'])} (share of true yes: {rates}).{arms} Nothing is assumed about how "
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
    if said := line_finding(found):
        sentences.append({"arm": "", "text": said})
    oracle = next((row for row in found["context"] if row["name"] == "oracle"), None)
    if oracle and (oracle["demographic_parity_difference"] or 0) > 0:
        gap = number(oracle["demographic_parity_difference"], 2)
        text = f"On these rows a perfect classifier has a DP gap of {gap}: 0 is not the gap of right answers."
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
