"""The record as JSON and as a page: what was drawn, what was found, and the worst of it first."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evals.coverage.power import PowerTally
from evals.coverage.tally import Tally
from evals.coverage.verdicts import LEAST_COVERAGE, MOST_TYPE_I, faults
from evals.coverage.worlds import World

_INTERVALS = (
    "accuracy",
    "rate",
    "signed_gap",
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equalized_odds_difference",
    "true_positive_rate",
    "false_positive_rate",
    "coverage",
)
_FEW = 50


def as_json(
    about: Mapping[str, Any],
    worlds: Sequence[World],
    tallies: Mapping[str, Tally],
    powers: Iterable[PowerTally],
) -> dict[str, Any]:
    """The whole record; `accepted` says whether nothing in it is at fault."""
    found = [
        {"name": world.name, "repeats": world.repeats, **tallies[world.name].as_json()}
        for world in worlds
        if not world.limit
    ]
    wrong = {world.name: faults(tallies[world.name]) for world in worlds}
    return {
        **about,
        "accepted": not any(wrong[one["name"]] for one in found),
        "faults": {one["name"]: wrong[one["name"]] for one in found if wrong[one["name"]]},
        "limits": [
            {
                "name": world.name,
                "why": world.limit,
                "runs": tallies[world.name].runs,
                "faults": wrong[world.name],
            }
            for world in worlds
            if world.limit
        ],
        "power": [one.as_json() for one in powers],
        "populations": found,
    }


def compact(result: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its counts as tables (columns, rows): a third of the size."""

    def table(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {"columns": list(rows[0]) if rows else [], "rows": [list(row.values()) for row in rows]}

    populations = [
        {**one, "intervals": table(one["intervals"]), "tests": table(one["tests"])}
        for one in result["populations"]
    ]
    return {**result, "populations": populations}


def as_markdown(result: Mapping[str, Any]) -> str:
    """The record as a page."""
    return "\n".join(
        [
            "# Coverage",
            "",
            *_opening(result),
            *_faults(result["faults"], bool(result["limits"])),
            *_limits(result["limits"]),
            *_intervals(result["populations"]),
            *_by_repeats(result["populations"]),
            *_tests(result["populations"]),
            *_power(result["power"]),
            *_populations(result["populations"], result["faults"]),
            "",
        ]
    )


def _opening(result: Mapping[str, Any]) -> list[str]:
    populations = result["populations"]
    runs = sum(one["runs"] for one in populations)
    intervals = sum(one["given"] for world in populations for one in world["intervals"])
    tests = sum(one["null"] + one["real"] for world in populations for one in world["tests"])
    return [
        f"Made by `{result['command']}` on {result['machine']}, seed {result['seed']}.",
        "",
        f"{len(populations)} populations, {result['runs']} runs each and three times as many where a number "
        f"came out doubtful: {runs:,} runs, {intervals:,} intervals, {tests:,} tests. Each run draws a "
        "table from the population, the test rows of every repeat from the table, sets of examples, and "
        "the answers of two arms; `audit` sees the answers alone. The truth is the population's, never the "
        "table's: of *these examples* the mean over the sets that were drawn, of *this strategy* the mean "
        "over all sets.",
        "",
        f"Accepted are a coverage from {LEAST_COVERAGE} on (nominal 0.95) and a type-I error up to "
        f"{MOST_TYPE_I} (nominal 0.05), two standard errors of the simulation aside; no value outside its "
        "own interval; no test that says otherwise than the difference or the interval beside it.",
        "",
    ]


def _faults(found: Mapping[str, list[str]], limited: bool) -> list[str]:
    if not found:
        return [f"**Everything is accepted{', but for the known limits below' if limited else ''}.**", ""]
    lines = [f"**Not accepted: {sum(map(len, found.values()))} numbers of {len(found)} populations.**", ""]
    return [*lines, *(f"* {name}: {'; '.join(sentences)}" for name, sentences in found.items()), ""]


def _limits(limits: Sequence[Mapping[str, Any]]) -> list[str]:
    if not limits:
        return []
    lines = [
        "## Known limits",
        "",
        "The method is known to fail on these populations; no table below counts them.",
        "",
    ]
    for one in limits:
        found = "; ".join(one["faults"]) or "nothing is to be seen in these runs"
        lines.append(f"* {one['name']} ({one['runs']} runs): {one['why']}. {found}")
    return [*lines, ""]


def _intervals(populations: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "## Intervals",
        "",
        "| interval | of | populations | mean coverage | least | where | values outside | not given |",
        "|---|---|---:|---:|---:|---|---:|---:|",
    ]
    for (quantity, of), rows in _grouped(populations, "intervals").items():
        shares = [(one["covered"] / one["given"], name) for name, one in rows if one["given"] >= _FEW]
        if shares:
            least, where = min(shares)
            given, absent = (sum(one[key] for _, one in rows) for key in ("given", "absent"))
            lines.append(
                f"| {_words(quantity)} | {of} | {len({name for name, _ in rows})} | {_mean(shares):.3f} "
                f"| {least:.3f} | {where} | {sum(one['outside'] for _, one in rows)} "
                f"| {absent / (absent + given):.1%} |"
            )
    return [*lines, ""]


def _by_repeats(populations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Mean and least coverage of the main intervals, a column for each number of repeats."""
    repeats = sorted({one["repeats"] for one in populations})
    lines = [
        "Mean (least) coverage by the number of repeats:",
        "",
        f"| interval | of | {' | '.join(f'R = {r}' for r in repeats)} |",
        f"|---|---|{'---:|' * len(repeats)}",
    ]
    for quantity, of in _grouped(populations, "intervals"):
        cells = []
        for r in repeats:
            rows = _grouped((one for one in populations if one["repeats"] == r), "intervals").get(
                (quantity, of), []
            )
            shares = [(one["covered"] / one["given"], name) for name, one in rows if one["given"] >= _FEW]
            cells.append(f"{_mean(shares):.3f} ({min(shares)[0]:.3f})" if shares else "")
        if any(cells):
            lines.append(f"| {_words(quantity)} | {of} | {' | '.join(cells)} |")
    return [*lines, ""]


def _tests(populations: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "## Tests",
        "",
        "Type-I error: how often a test at 5 % rejects where there is no difference. Wrong side: of the "
        "tests with a true difference, how many find the opposite.",
        "",
        "| test | of | populations | mean type-I error | most | where | wrong side | contradictions "
        "| cannot say |",
        "|---|---|---:|---:|---:|---|---:|---:|---:|",
    ]
    for (quantity, of), rows in _grouped(populations, "tests").items():
        shares = [(one["null_rejected"] / one["null"], name) for name, one in rows if one["null"] >= _FEW]
        most, where = max(shares, default=(None, ""))
        real, asked = (
            sum(one["real"] for _, one in rows),
            sum(one["null"] + one["real"] + one["absent"] for _, one in rows),
        )
        lines.append(
            f"| {_words(quantity)} | {of} | {len(shares)} | {f'{_mean(shares):.3f}' if shares else ''} "
            f"| {'' if most is None else f'{most:.3f}'} | {where} "
            f"| {sum(one['wrong'] for _, one in rows) / real if real else 0:.2%} "
            f"| {sum(one['contradictions'] for _, one in rows)} "
            f"| {sum(one['absent'] for _, one in rows) / max(asked, 1):.1%} |"
        )
    return [*lines, ""]


def _power(powers: Sequence[Mapping[str, Any]]) -> list[str]:
    if not powers:
        return []
    lines = [
        "## Power",
        "",
        "Predicted by `fwc_llm.metrics.planning` from the population's own share of discordant rows; "
        "simulated with the audit's test; by permutation: exchanging the two answers to a row at random "
        "(one repeat). Where two gaps are alike in size and opposite, the arms do not differ in |gap| and a "
        "test may find a difference in 5 % of runs: permuting rows finds it far more often where the arms "
        "agree on most rows, which is also where it finds true differences more often.",
        "",
        "| population | test | of | difference | discordant | runs | predicted | simulated "
        "| by permutation |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for one in powers:
        permutation = "" if one["permutation"] is None else f"{one['permutation']:.2f}"
        lines.append(
            f"| {one['name']} | {_words(one['quantity'])} | {one['of']} | {one['difference']:+.2f} "
            f"| {one['discordant']:.2f} | {one['runs']} | {one['predicted']:.2f} | {one['simulated']:.2f} "
            f"| {permutation} |"
        )
    return [*lines, ""]


def _populations(populations: Sequence[Mapping[str, Any]], found: Mapping[str, Any]) -> list[str]:
    """One line a population: its least coverage and its largest type-I error."""
    lines = [
        "## Populations",
        "",
        "| population | runs | least coverage | of what | largest type-I error | of what | accepted |",
        "|---|---:|---:|---|---:|---|---|",
    ]
    for world in populations:
        covered = [
            (one["covered"] / one["given"], _words(one["quantity"]))
            for one in world["intervals"]
            if one["given"] >= _FEW
        ]
        rejected = [
            (one["null_rejected"] / one["null"], _words(one["quantity"]))
            for one in world["tests"]
            if one["null"] >= _FEW
        ]
        least, most = min(covered, default=None), max(rejected, default=None)
        lines.append(
            f"| {world['name']} | {world['runs']} | {_pair(least)} | {_pair(most)} "
            f"| {'no' if world['name'] in found else 'yes'} |"
        )
    return lines


def _pair(one: tuple[float, str] | None) -> str:
    return " | " if one is None else f"{one[0]:.3f} | {one[1]}"


def _grouped(
    populations: Iterable[Mapping[str, Any]], kind: str
) -> dict[tuple[str, str], list[tuple[str, Mapping[str, Any]]]]:
    """Rows by quantity and what they speak of, each with its population's name; the known ones in order."""
    found: dict[tuple[str, str], list[tuple[str, Mapping[str, Any]]]] = {}
    for world in populations:
        for one in world[kind]:
            found.setdefault((one["quantity"], one["of"]), []).append((world["name"], one))
    place = {name: index for index, name in enumerate(_INTERVALS)}
    return dict(sorted(found.items(), key=lambda item: (place.get(item[0][0], len(place)), item[0])))


def _words(quantity: str) -> str:
    return quantity.replace("_", " ")


def _mean(shares: Sequence[tuple[float, str]]) -> float:
    return sum(share for share, _ in shares) / len(shares) if shares else float("nan")
