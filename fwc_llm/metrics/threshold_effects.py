"""Effects of a run's threshold: answers at it against the answers as given (docs/protocol.md)."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fwc_llm.metrics.arm_comparison import compare
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.counts import BY_KEY
from fwc_llm.metrics.records import Record
from fwc_llm.metrics.run_answers import ArmAnswers, ByArm, RunAnswers, samples_of
from fwc_llm.metrics.variance import THESE_EXAMPLES, scope_words

METRICS = "accuracy", "dp_gap"


def threshold_records(
    run: RunAnswers, at_threshold: ByArm, ties: Mapping[str, int]
) -> Iterator[Record]:
    """Yield results at the threshold, paired by row, of the arms that `ties` counts."""
    for arm, count in ties.items():
        yield from _of_arm(run, at_threshold[arm], arm, count)


def _of_arm(
    run: RunAnswers, moved: ArmAnswers, arm: str, ties: int
) -> Iterator[Record]:
    answers = run.answers[arm]
    both = {"given": answers, "moved": replace(moved, examples=answers.examples)}
    design = replace(run.design, min_group=1)
    samples = samples_of(both, run.groups, design)
    holds = scope_words(samples["moved"].scope, run.with_examples)
    of: Any = {"arm": arm, "scope": holds}
    yield Record(metric="ties_at_threshold", value=ties, **of)
    if not all(sample.parsed.any() for sample in samples.values()):
        return
    first, second = (ArmEstimates(samples[name]) for name in both)
    yield Record(metric="coverage_at_threshold", value=second["coverage"].value, **of)
    tests = compare((first, second), metrics=METRICS).of_these
    for key in METRICS:
        attribute = run.attribute if BY_KEY[key].kind == "gap" else ""
        found = {
            "": (second[key], holds),
            "_change": (tests[key], scope_words(THESE_EXAMPLES, run.with_examples)),
        }
        for name, (estimate, scope) in found.items():
            if math.isnan(estimate.value):
                continue
            cells: Any = {"arm": arm, "attribute": attribute, "scope": scope}
            cells |= estimate.ends
            yield Record(metric=f"{key}_at_threshold{name}", **cells)
