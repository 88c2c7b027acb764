"""The record: half a page of what was simulated and what was found, and a line a population."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from evals.coverage.pairs import LOOKS, table_of_pairs
from evals.coverage.tally import Tally
from evals.coverage.verdicts import LEAST_COVERAGE, MOST_TYPE_I, faults
from evals.record import markdown


def as_json(
    about: Mapping[str, Any],
    tallies: Mapping[str, Tally],
    pairs: Mapping[str, Tally],
    before: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the record as plain objects, with what was recorded `before` of all that is not
    measured now.
    """
    result = dict(about)
    for kind, measured in (("populations", tallies), ("pairs", pairs)):
        known = {one["name"]: one for one in before.get(kind, ())}
        known |= {name: {"name": name, **tally.as_json()} for name, tally in measured.items()}
        result[kind] = list(known.values())
    everything = [*result["populations"], *result["pairs"]]
    wrong = {one["name"]: faults(Tally.from_json(one)) for one in everything}
    return {**result, "faults": wrong, "accepted": not any(wrong.values())}


def as_markdown(result: Mapping[str, Any]) -> str:
    """Return the record as a page."""
    populations = result["populations"]
    wrong = result["faults"]
    runs = sum(one["runs"] for one in populations)
    given = sum(i["given"] for one in populations for i in one["intervals"])
    bad = [f"* {name}: {'; '.join(lines)}" for name, lines in wrong.items() if lines]
    accepted = "**Everything is accepted.**"
    if bad:
        accepted = "\n".join([f"**Not accepted, in {len(bad)} of all:**", "", *bad])
    return f"""# Coverage

Made by `{result["command"]}` on {result["machine"]}, seed {result["seed"]}. Simulated.

{len(populations)} of {result["of"]} populations with known rates, {result["runs"]:,} runs each ({runs:,} \
runs, {given:,} intervals). A run draws a table from the population, the test rows of every repeat from the \
table, sets of examples, and the answers of two arms; `audit` sees the answers alone. The truth is the \
population's.

Accepted is what the simulation shows to be better than a coverage of {LEAST_COVERAGE} (95 % are claimed) or \
a type-I error of {MOST_TYPE_I} (5 %): the limit of the simulated share, at 1.75 standard errors, must \
exclude it: a true 0.91 is found out nine times in ten. No value may lie outside its own interval, and no \
verdict or p-value say otherwise.

Values beside fairlearn's, on random tables, weighted and not: {result["fairlearn"]["numbers"]} numbers \
differ by at most {result["fairlearn"]["farthest"]:.0e}.

{accepted}

{_intervals(populations)}
{_tests(populations)}
## Pairs of options

Groups and arms are alike, people have unequal numbers of rows, answers are lost so as to feign a gap. The \
least coverage of a pair's intervals (DP gap, accuracy, rates, two arms, parity within strata, probes) after \
{", ".join(map(str, LOOKS[:-1]))} or {LOOKS[-1]:,} runs, the first at which all are accepted. The \
simulation's own standard error is 0.015, 0.009 and 0.005. Until decided, the intervals of all ten looks \
hold at once. A pair that is refused is refused by `fwc-llm` too.

{table_of_pairs({one["name"]: one for one in result["pairs"]})}
{_intervals(result["pairs"])}"""


def _intervals(populations: Sequence[Mapping[str, Any]]) -> str:
    """A line a quantity: the arms and groups of one population count together for the least."""
    found: dict[str, list[tuple[float, str, float]]] = defaultdict(list)
    for world in populations:
        for one in world["intervals"]:
            if one["given"] >= 50:
                covered = one["covered"] / one["given"]
                width = one["width"] / one["given"]
                found[one["quantity"]].append((covered, world["name"], width))
    lines = []
    for quantity, rows in found.items():
        least, where, _ = min(rows)
        mean = fmean(row[0] for row in rows)
        width = fmean(row[2] for row in rows)
        lines.append(
            [quantity.replace("_", " "), f"{mean:.3f}", f"{least:.3f}", where, f"{width:.3f}"]
        )
    return markdown(["interval", "mean coverage", "least", "where", "mean width"], lines)


def _tests(populations: Sequence[Mapping[str, Any]]) -> str:
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for world in populations:
        for one in world["tests"]:
            if one["null"] >= 50:
                found[one["quantity"]].append((one["null_rejected"] / one["null"], world["name"]))
    lines = []
    for quantity, rows in found.items():
        mean, (most, where) = fmean(share for share, _ in rows), max(rows)
        lines.append([quantity.replace("_", " "), f"{mean:.3f}", f"{most:.3f}", where])
    return markdown(["test", "type I, mean", "most", "where"], lines)
