"""Reference lines: what plain models answer to the same rows, beside the arms (docs/statistics.md).

They are no arms: they add nothing to the comparisons of the arms, nor to Holm's correction over those.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fwc_llm.metrics.answers import Answered, one_name, samples_of
from fwc_llm.metrics.arm_comparison import adjust, compare_estimates
from fwc_llm.metrics.arm_estimates import Estimate, Estimates, estimate
from fwc_llm.metrics.counts import METRICS, Floats


@dataclass(frozen=True)
class Line:
    """One reference line's answers (n,), 1 or 0, in the order of the first arm's questions.

    `about`, ready for JSON: `line` (its name), `model`, `uses_protected` (the protected attribute is among
    the features), `by_group` (a threshold for each group decides) and `limit`, the gap that those keep.
    """

    answer: Floats
    about: Mapping[str, Any]


@dataclass(frozen=True)
class References:
    """Reference lines, and how they were made (`about`, ready for JSON)."""

    lines: Sequence[Line]
    about: Mapping[str, Any]

    def described(self, run: Answered, estimates: Mapping[str, Estimates]) -> dict[str, Any]:
        """Return each line's values with intervals, and every arm less every line of one threshold.

        Thresholds per group are compared with nothing. The correction runs over these comparisons alone.
        """
        first = run.answers[run.arms[0]]
        none = one_name("", len(first))
        unknown = np.full(len(first), np.nan)
        answers = {
            str(place): replace(first, answer=line.answer, reason=none, p_yes=unknown, examples=none)
            for place, line in enumerate(self.lines)
        }
        samples = samples_of({"": first, **answers}, run.groups, run.labels_fixed, run.min_group)
        lines = [estimate(samples[place]) for place in answers]
        tests = [
            compare_estimates(own, estimates[arm]) | {"line": line.about["line"], "arm": arm}
            for line, own in zip(self.lines, lines, strict=True)
            if not line.about["by_group"]
            for arm in run.arms
        ]
        adjust(tests, run.margin)
        described = [_described(line, own, run.groups) for line, own in zip(self.lines, lines, strict=True)]
        return {**self.about, "lines": described, "comparisons": tests}


def _described(line: Line, estimates: Estimates, groups: Sequence[str]) -> dict[str, Any]:
    rates = estimates.rates()
    return {
        **line.about,
        "of": "these rows",
        **{metric: _ends(estimates[metric], "value") for metric in METRICS},
        "groups": {name: _ends(rates.at(place), "rate") for place, name in enumerate(groups)},
    }


def _ends(estimate: Estimate, name: str) -> dict[str, Any]:
    return {name: estimate.value, "low": estimate.low, "high": estimate.high}
