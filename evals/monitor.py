"""What `fwc-llm monitor` promises, simulated, and what a call costs on top of ten million
decisions.

python -m evals.monitor                       # minutes
python -m evals.monitor --rows 1000000        # a smaller state
python -m evals.monitor --record              # writes evals/results/monitor.md and .json
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from evals.record import command_line, markdown, write
from fwc_llm.gates import parse_condition
from fwc_llm.metrics.counts import BY_KEY, UNPARSED, Codes, Floats
from fwc_llm.metrics.period_gaps import ERROR, intervals, split_error
from fwc_llm.number_format import percent
from fwc_llm.report.monitor_state import open_state

MONTHS = 12
MONTHLY = 400  # decisions of a month
DRIFT_MONTHLY = 4_000  # where a drift is looked for
REPAIRED_AFTER = 6  # months without a drift before it begins


class World(NamedTuple):
    """Groups whose gap is at the bound of the condition in every month, and beyond it after a
    drift.

    `shares` and `rates` map a month (0 to 11) to the groups' shares of decisions and rates of yes.
    EO: the rates are those among the label yes, which 30 % have; 10 % of the others are answered
    yes. `by_group`: the decisions of a month come sorted by group. `unread`: the share of the
    first group's yes and of the others' no that has no answer, so that the gap looks larger.
    """

    name: str
    condition: str
    shares: Callable[[int], tuple[float, ...]]
    rates: Callable[[int], tuple[float, ...]]
    beyond: tuple[float, ...]
    by_group: bool = False
    unread: float = 0.0


def halves(month: int) -> tuple[float, ...]:
    """Two groups, equally large in every month."""
    return (0.5, 0.5)


def stable(month: int) -> tuple[float, ...]:
    """Rates of yes whose gap is 0.1 in every month."""
    return (0.45, 0.55)


def seasonal(month: int) -> tuple[float, ...]:
    """Rates of yes that rise and fall with the season; their gap is 0.1."""
    middle = 0.5 + 0.35 * np.sin(2 * np.pi * month / MONTHS)
    return (middle - 0.05, middle + 0.05)


def falling(month: int) -> tuple[float, ...]:
    """Shares of decisions: the first group's falls from 80 % to 14 %."""
    share = 0.8 - 0.06 * month
    return (share, 1 - share)


WORLDS = (
    World("stable", "dp_gap > 0.1", halves, stable, (0.4, 0.6)),
    World("near 0", "dp_gap > 0.1", halves, lambda month: (0.0, 0.1), (0.0, 0.2)),
    World("seasons", "dp_gap > 0.1", halves, seasonal, (0.4, 0.6)),
    World(
        "seasons, the share of one group falls",
        "dp_gap > 0.1",
        falling,
        seasonal,
        (0.4, 0.6),
    ),
    World(
        "months sorted by group",
        "dp_gap > 0.1",
        halves,
        stable,
        (0.4, 0.6),
        by_group=True,
    ),
    World(
        "one group of 5 %",
        "dp_gap > 0.1",
        lambda month: (0.05, 0.95),
        stable,
        (0.4, 0.6),
    ),
    World(
        "5 groups, four pairs at the bound",
        "dp_gap > 0.1",
        lambda month: (0.2,) * 5,
        lambda month: (0.4, *(0.5,) * 4),
        (0.3, *(0.5,) * 4),
    ),
    World(
        "answers missing where they widen the gap",
        "dp_gap > 0.1",
        halves,
        stable,
        (0.3, 0.7),
        unread=0.1,
    ),
    World(
        "ratio of rates", "dp_ratio < 0.8", halves, lambda month: (0.4, 0.5), (0.3, 0.5)
    ),
    World(
        "EO, 30 % have the label yes",
        "eo_gap > 0.1",
        halves,
        lambda month: (0.55, 0.65),
        (0.5, 0.7),
    ),
    World(
        "accuracy", "accuracy < 0.8", lambda month: (1.0,), lambda month: (0.8,), (0.7,)
    ),
)


def draw(
    world: World, month: int, rates: tuple[float, ...], n: int, rng: np.random.Generator
) -> Codes:
    """Return n decisions of a month as cells."""
    group = rng.choice(len(rates), n, p=world.shares(month))
    if world.by_group:
        group.sort()
    label = rng.random(n) < 0.3
    yes = rng.random(n) < np.array(rates)[group]
    if world.condition.startswith("eo"):
        yes = np.where(label, yes, rng.random(n) < 0.1)
    if world.condition.startswith("accuracy"):
        yes = np.where(yes, label, ~label)
    answer = yes.astype(np.int64)
    if world.unread:
        widens = np.where(group == 0, yes, ~yes) & (rng.random(n) < world.unread)
        answer = np.where(widens, UNPARSED, answer)
    return np.asarray(6 * group + 3 * label + answer, np.int64)


def counts_at_looks(cells: list[Codes], groups: int, size: int) -> Codes:
    """Return counts (looks, months, G, 2, 3) after every `size` decisions of a month, and at its
    end.
    """
    looks = []
    total = np.zeros((len(cells), 6 * groups), np.int64)
    for month, cell in enumerate(cells):
        for start in range(0, len(cell), size):
            total[month] += np.bincount(
                cell[start : start + size], minlength=6 * groups
            )
            looks.append(total.copy())
    return np.reshape(looks, (len(looks), len(cells), groups, 2, 3))


def judged(world: World, counts: Codes) -> tuple[Floats, Floats]:
    """Return whether each look (L,) is outside by the pooled interval, and by that of a month.

    As `fwc_llm.report.monitor.judge`, for many looks at once.
    """
    condition = parse_condition(world.condition)
    metric = BY_KEY[condition.metric]
    arrival = np.arange(counts.shape[1])
    half, shares = split_error(arrival)
    low, high = intervals(counts, metric, half)[1, 1]
    lows, highs = intervals(counts[:, :, None], metric, shares)[1, 1]
    if metric.kind == "gap":
        return low > condition.bound, (lows > condition.bound).any(-1)
    return high < condition.bound, (highs < condition.bound).any(-1)


def false_alarms(world: World, paths: int, size: int) -> float:
    """Return the share of years in which a look is outside, though every month's value is at the
    bound.
    """
    rng = np.random.default_rng(7)
    groups = len(world.beyond)
    false = 0
    for _ in range(paths):
        cells = [
            draw(world, month, world.rates(month), MONTHLY, rng)
            for month in range(MONTHS)
        ]
        false += bool(np.any(judged(world, counts_at_looks(cells, groups, size))))
    return false / paths


def months_to_find(world: World, paths: int) -> list[float]:
    """Return how many months each drift lasts until a month's end is outside; infinite after a
    year.
    """
    rng = np.random.default_rng(8)
    found = []
    for _ in range(paths):
        good = [
            draw(world, 0, world.rates(0), DRIFT_MONTHLY, rng)
            for _ in range(REPAIRED_AFTER)
        ]
        bad = [draw(world, 0, world.beyond, DRIFT_MONTHLY, rng) for _ in range(MONTHS)]
        counts = counts_at_looks([*good, *bad], len(world.beyond), DRIFT_MONTHLY)
        outside = np.any(judged(world, counts), axis=0)[REPAIRED_AFTER:]
        found.append(float(np.argmax(outside)) + 1 if outside.any() else np.inf)
    return found


def simulated(world: World, paths: int) -> dict[str, Any]:
    """Return how often a year has a false alarm, and how late a drift is found."""
    late = months_to_find(world, paths)
    return {
        "name": world.name,
        "condition": world.condition,
        "false": {str(size): false_alarms(world, paths, size) for size in (1, MONTHLY)},
        "months": [float(np.quantile(late, q, method="lower")) for q in (0.5, 0.9)],
    }


def fill(path: Path, rows: int) -> None:
    """Write a state of so many decisions of twelve months."""
    rng = np.random.default_rng(0)
    keys = np.sort(rng.integers(-(2**62), 2**62, rows)).tolist()
    periods = [f"2025-{row * MONTHS // rows + 1:02}" for row in range(rows)]
    cells = draw(WORLDS[0], 0, stable(0), rows, rng)
    groups = np.array(["a", "b"])[cells // 6].tolist()
    labels = (cells // 3 % 2).tolist()
    answers = (cells % 3).tolist()
    with open_state(path) as state:
        decisions = zip(keys, keys, periods, groups, labels, answers, strict=True)
        state.add(decisions, path)
        state.summary["values"] = {"answer": ["no", "yes"]}


_MEASURE = """
import os, subprocess, sys
process = subprocess.Popen([sys.executable, *sys.argv[1:]], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def measured(command: list[str]) -> dict[str, float]:
    """Run a Python to its end, from a small process; return CPU seconds and the peak of memory
    in MB.
    """
    found = subprocess.run(
        [sys.executable, "-c", _MEASURE, *command],
        capture_output=True,
        text=True,
        check=True,
    )
    code, seconds, megabytes = map(float, found.stdout.split())
    if code not in (0, 5):
        raise SystemExit(f"{command} failed: {found.stderr}")
    return {"cpu": seconds, "megabytes": megabytes}


def scaled(rows: int, new: int = 10_000) -> dict[str, Any]:
    """Return what a call with new decisions costs on top of a state, beside a group-by of pandas
    over all.
    """
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        state, table, every = (
            Path(name) / file for file in ("state.db", "new.csv", "all.parquet")
        )
        fill(state, rows)
        for path, n in ((table, new), (every, rows)):
            columns = {
                "sex": rng.choice(["a", "b"], n),
                "ok": rng.choice(["yes", "no"], n),
            }
            frame = pd.DataFrame({"id": np.arange(n), **columns, "day": "2026-01-15"})
            frame.to_csv(path, index=False) if path == table else frame.to_parquet(path)
        call = [
            "-m",
            "fwc_llm",
            "monitor",
            str(table),
            "--answer",
            "ok",
            "--protected",
            "sex",
            "--key",
            "id",
        ]
        call += [
            "--time",
            "day",
            "--state",
            str(state),
            "--fail-if",
            "dp_gap > 0.3",
            "--undecided",
            "pass",
        ]
        grouped = (
            "import pandas as pd; "
            f"pd.read_parquet({str(every)!r}).groupby(['sex', 'ok']).size()"
        )
        return {
            "rows": rows,
            "new": new,
            "call": measured(call),
            "size": state.stat().st_size,
            "empty": measured(["-c", "import fwc_llm.report.monitor_page"]),
            "pandas": measured(["-c", grouped]),
        }


def as_markdown(record: dict[str, Any]) -> str:
    """Return the record as a page."""
    rows = []
    for world in record["worlds"]:
        rates = [percent(share) for share in world["false"].values()]
        months = [
            f"{q:.0f}" if np.isfinite(q) else "not found" for q in world["months"]
        ]
        rows.append([world["name"], f"`{world['condition']}`", *rates, *months])
    scale = record["scale"]
    titles = {
        "call": "the call",
        "empty": "its imports alone",
        "pandas": "pandas: read all rows from Parquet, group by",
    }
    costs = [
        [title, f"{scale[name]['cpu']:.1f}", f"{scale[name]['megabytes']:,.0f}"]
        for name, title in titles.items()
    ]
    error = np.sqrt(ERROR * (1 - ERROR) / record["paths"])
    headings = [
        "world",
        "condition",
        "calls of 1",
        "calls of a month",
        "months, median",
        "nine in ten",
    ]
    return f"""# Monitor: what is promised and what it costs

Simulated, by `{record["command"]}`, seeds fixed.

## False alarms, and drifts

Promised: of all starts (a new file, or `--since`), at most {percent(ERROR, 0)} are ever *outside* although
the true value keeps the bound in every period. *Calls of*: the share of {record["paths"]} years, of
{MONTHLY} decisions a month, with a call that was outside, though the value was exactly at the bound in
every month (standard error at {percent(ERROR, 0)}: {percent(error)}). *Months*: how long a
drift lasts until a call is outside,
{DRIFT_MONTHLY:,} decisions a month, after {REPAIRED_AFTER} months at the bound.

{markdown(headings, rows)}
## A call with {scale["new"]:,} new decisions, {scale["rows"]:,} in the state

The state has {scale["size"] / 2**20:,.0f} MB.

{markdown(["", "CPU seconds", "peak memory, MB"], costs)}"""


def main() -> None:
    """Measure, print, and with `--record` write the page."""
    parser = command_line(__doc__)
    parser.add_argument("--paths", type=int, default=200)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    changed = (
        name
        for name in ("paths", "rows")
        if getattr(options, name) != parser.get_default(name)
    )
    given = [f"--{name} {getattr(options, name)}" for name in changed]
    words = ["python -m evals.monitor", *given, *["--record"] * options.record]
    record = {
        "command": " ".join(words),
        "paths": options.paths,
        "worlds": [simulated(world, options.paths) for world in WORLDS],
        "scale": scaled(options.rows),
    }
    page = as_markdown(record)
    print(page)
    if options.record:
        write("monitor", record, page)


if __name__ == "__main__":
    main()
