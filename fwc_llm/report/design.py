"""What a design finds and misses, in sentences: before a run, and beside its results."""

import math

from fwc_llm.metrics.planning import (
    Assumptions,
    Design,
    Smallest,
    limit_of,
    smallest,
)
from fwc_llm.metrics.sample import LEAST_SETS, THESE_EXAMPLES
from fwc_llm.report.numbers import number


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
