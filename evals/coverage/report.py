"""The record: half a page of what was simulated and what was found, and a line a population."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from evals.coverage.pairs import LOOKS, table_of_pairs
from evals.coverage.tally import Tally
from evals.coverage.verdicts import LEAST_COVERAGE, MOST_TYPE_I, faults


def as_json(
    about: Mapping[str, Any],
    tallies: Mapping[str, Tally],
    pairs: Mapping[str, Tally],
    before: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the record as plain objects, with what was recorded `before` of all that is not measured now."""
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
    populations, wrong = result["populations"], result["faults"]
    runs = sum(one["runs"] for one in populations)
    given = sum(i["given"] for one in populations for i in one["intervals"])
    bad = [f"* {name}: {'; '.join(lines)}" for name, lines in wrong.items() if lines]
    return "\n".join(
        [
            "# Coverage",
            "",
            f"Made by `{result['command']}` on {result['machine']}, seed {result['seed']}. Simulated.",
            "",
            f"{len(populations)} of {result['of']} populations with known rates, {result['runs']:,} runs "
            f"each ({runs:,} runs, {given:,} intervals). A run draws a table from the population, the test "
            "rows of every repeat from the table, sets of examples, and the answers of two arms; `audit` "
            "sees the answers alone. The truth is the population's.",
            "",
            f"Accepted is what the simulation shows to be better than a coverage of {LEAST_COVERAGE} "
            f"(95 % are claimed) or a type-I error of {MOST_TYPE_I} (5 %): the limit of the simulated share, "
            "at 1.75 standard errors, must exclude it: a true 0.91 is found out nine times in ten. No "
            "value may lie outside its own interval, and no verdict or p-value say otherwise.",
            "",
            "Values beside fairlearn's, on random tables, weighted and not: "
            "{numbers} numbers differ by at most {farthest:.0e}.".format(**result["fairlearn"]),
            "",
            "**Everything is accepted.**" if not bad else f"**Not accepted, in {len(bad)} of all:**",
            *(["", *bad] if bad else []),
            "",
            "| interval | mean coverage | least | where | mean width |",
            "|---|---:|---:|---|---:|",
            *_intervals(populations),
            "",
            "| test | type I, mean | most | where |",
            "|---|---:|---:|---|",
            *_tests(populations),
            "",
            "## Pairs of options",
            "",
            "Groups and arms are alike, people have unequal numbers of rows, answers are lost so as to feign "
            "a gap. The least coverage of a pair's intervals (DP gap, accuracy, rates, two arms, "
            f"parity within strata, probes) after {', '.join(map(str, LOOKS[:-1]))} or {LOOKS[-1]:,} runs, "
            "the first at which all are accepted. The simulation's own standard error is 0.015, 0.009 and "
            "0.005. Until decided, the intervals of all ten looks hold at once. A pair that is refused is "
            "refused by `fwc-llm` too.",
            "",
            *table_of_pairs({one["name"]: one for one in result["pairs"]}),
            "",
            "| interval | mean coverage | least | where | mean width |",
            "|---|---:|---:|---|---:|",
            *_intervals(result["pairs"]),
            "",
        ]
    )


def _intervals(populations: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line a quantity: the arms and groups of one population count together for the least."""
    found: dict[str, list[tuple[float, str, float]]] = defaultdict(list)
    for world in populations:
        for one in world["intervals"]:
            if one["given"] >= 50:
                covered, width = one["covered"] / one["given"], one["width"] / one["given"]
                found[one["quantity"]].append((covered, world["name"], width))
    lines = []
    for quantity, rows in found.items():
        least, where, _ = min(rows)
        mean, width = sum(row[0] for row in rows) / len(rows), sum(row[2] for row in rows) / len(rows)
        lines.append(f"| {quantity.replace('_', ' ')} | {mean:.3f} | {least:.3f} | {where} | {width:.3f} |")
    return lines


def _tests(populations: Sequence[Mapping[str, Any]]) -> list[str]:
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for world in populations:
        for one in world["tests"]:
            if one["null"] >= 50:
                found[one["quantity"]].append((one["null_rejected"] / one["null"], world["name"]))
    return [
        f"| {quantity.replace('_', ' ')} | {sum(share for share, _ in rows) / len(rows):.3f} "
        f"| {max(rows)[0]:.3f} | {max(rows)[1]} |"
        for quantity, rows in found.items()
    ]
