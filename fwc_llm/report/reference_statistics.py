"""Reference lines: what plain models answer to the same rows, beside the arms (docs/statistics.md).

They are no arms: they add nothing to the comparisons of the arms, nor to Holm's correction over those.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fwc_llm.metrics.answers import Answered, Answers, one_name, samples_of
from fwc_llm.metrics.arm_comparison import adjust, compare_estimates
from fwc_llm.metrics.arm_estimates import Estimate, Estimates, estimate
from fwc_llm.metrics.counts import METRICS, Floats

OF = "these rows"


@dataclass(frozen=True)
class Line:
    """One reference line's answers (n,), 1 or 0, in the order of the first arm's questions.

    `uses_protected` says that the protected attribute is among the features, `by_group` that a threshold for
    each group decides; `limit` is the gap that those were to keep, None for none.
    """

    name: str
    model: str
    answer: Floats
    uses_protected: bool
    by_group: bool = False
    limit: float | None = None


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
        answers = {str(place): _as_answers(first, line.answer) for place, line in enumerate(self.lines)}
        samples = samples_of({"": first, **answers}, run.groups, run.labels_fixed, run.min_group)
        lines = [estimate(samples[str(place)]) for place in range(len(self.lines))]
        tests = [
            compare_estimates(own, estimates[arm]) | {"line": line.name, "arm": arm}
            for line, own in zip(self.lines, lines, strict=True)
            if not line.by_group
            for arm in run.arms
        ]
        adjust(tests, run.margin)
        return {
            **self.about,
            "lines": [_described(line, own, run.groups) for line, own in zip(self.lines, lines, strict=True)],
            "comparisons": tests,
        }


def _as_answers(asked: Answers, answer: Floats) -> Answers:
    n = len(answer)
    return replace(
        asked,
        answer=answer,
        reason=one_name("", n),
        p_yes=np.full(n, np.nan),
        examples=one_name("", n),
    )


def _described(line: Line, found: Estimates, groups: Sequence[str]) -> dict[str, Any]:
    rates = found.rates()
    return {
        "line": line.name,
        "model": line.model,
        "uses_protected": line.uses_protected,
        "by_group": line.by_group,
        "limit": line.limit,
        "of": OF,
        **{metric: _ends(found[metric]) for metric in METRICS},
        "groups": {
            name: {"rate": one.value, "low": one.low, "high": one.high}
            for name, one in ((name, rates.at(place)) for place, name in enumerate(groups))
        },
    }


def _ends(found: Estimate) -> dict[str, Any]:
    return {"value": found.value, "low": found.low, "high": found.high}
