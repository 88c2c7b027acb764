"""What a reader must know before believing a number, in sentences that are true of these very answers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fwc_llm.metrics.answers import Answered
from fwc_llm.metrics.decided import decision_notes
from fwc_llm.metrics.impact import left_out, named
from fwc_llm.metrics.sample import LEAST_SETS, THESE_EXAMPLES, of_words

SMALL = 10  # rows a repeat; a group below says little


def notes(run: Answered, found: Mapping[str, Any]) -> list[str]:
    """Return the notes of a document that `statistics` makes."""
    return [
        *_about_groups(run, found),
        *_about_repeats(run),
        *_about_power(found),
        *_about_arms(run, found),
        *decision_notes(run),
    ]


def _about_groups(run: Answered, found: Mapping[str, Any]) -> Iterator[str]:
    repeats = next(iter(run.samples.values())).repeats
    for group in found["groups"]:
        rows = group["n"] / repeats
        if rows < SMALL:
            counted = f"{rows:g} row{'' if rows == 1 else 's'}"
            yield f"Group {group['group']} has {counted} a repeat: too few to say much about it."
    if apart := left_out(run.groups, run.attributes, next(iter(run.samples.values()))):
        yield f"DP gap, DP ratio and EO gap count {named(apart)}, which impact ratios may leave out."
    if len(run.groups) < 2:
        yield "All rows are of one group: there is no disparity to measure."


def _about_repeats(run: Answered) -> Iterator[str]:
    sample = next(iter(run.samples.values()))
    rows = sample.rows
    if run.times > 1:
        yield (
            f"Every prompt was asked {run.times} times: {len(sample.row):,} questions are about {rows:,} "
            "rows. An answer that only comes again adds nothing to what the intervals know."
        )
    elif rows < len(sample.row):
        yield (
            f"Repeats share test rows: {len(sample.row):,} questions are about {rows:,} rows. The "
            "more alike the answers to one row, the less it counts that it was asked again."
        )
    drawn = {arm: len(set(one.sets.tolist())) for arm, one in run.samples.items() if one.sets is not None}
    if few := [arm for arm, sets in drawn.items() if sets < LEAST_SETS]:
        yield (
            f"Intervals of {', '.join(few)} speak of {min(drawn.values())} draws of examples, those "
            f"that were made; it takes {LEAST_SETS} to speak of the strategy."
        )


def _about_power(found: Mapping[str, Any]) -> Iterator[str]:
    """What this design would miss, by what the arms' own answers show."""
    tests = [test["these_examples"] if test["reason"] else test for test in found["comparisons"]]
    missed = []
    if between := [
        *_below([test["demographic_parity_difference"] for test in tests], "{:.3f} of DP gap"),
        *_below([test["accuracy"] for test in tests], "{:.1f} points of accuracy", 100),
    ]:
        of = THESE_EXAMPLES if found["comparisons"][0]["reason"] else found["comparisons"][0]["of"]
        of_what = of_words(of, found["with_examples"])
        missed.append(f"differences between two arms below {' and '.join(between)} ({of_what})")
    missed += _below(
        [arm["demographic_parity_difference"] for arm in found["arms"]], "one arm's DP gap below {:.3f}"
    )
    if missed:
        yield f"In 1 of 5 such runs or more this design would miss {', and '.join(missed)}."


def _below(tests: Sequence[Mapping[str, Any]], words: str, scale: int = 1) -> list[str]:
    """The largest of the smallest differences that are found, in words; none where none is known."""
    known = [test["smallest_found"] for test in tests if not np.isnan(test["smallest_found"])]
    return [words.format(scale * min(1.0, max(known)))] if known else []


def _about_arms(run: Answered, found: Mapping[str, Any]) -> Iterator[str]:
    if len(run.arms) < 2:
        yield "There is one arm: nothing to compare it with."
    for arm in found["arms"]:
        silent = [name for name, group in arm["groups"].items() if group["coverage"] == 0]
        if silent:
            yield f"{arm['arm']}: no parsed answer in group {' and '.join(silent)}."
    unanswered = sum(arm["unanswered"] for arm in found["arms"])
    if unanswered:
        have = "question has" if unanswered == 1 else "questions have"
        yield f"{unanswered} {have} no reply at all and count{'s' * (unanswered == 1)} as unparsed."
    if reasons := {test["reason"] for test in found["comparisons"] if test["reason"]}:
        yield f"Which arm is better {reasons.pop()}."
