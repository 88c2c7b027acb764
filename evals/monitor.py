"""What `fwc-llm monitor` promises, simulated, and what a call costs on top of ten million decisions.

python -m evals.monitor                       # minutes
python -m evals.monitor --rows 1000000        # a smaller state
python -m evals.monitor --record              # writes evals/results/monitor.md and .json
"""

import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from evals.record import command_line, markdown, write
from fwc_llm.gates import parse_condition
from fwc_llm.gates.change_detection import Detector
from fwc_llm.report.monitor import log_alarm
from fwc_llm.report.monitor_state import open_state

PROMISE, USUAL = 1_000, 100_000  # decisions to a false alarm: where these are counted, and by default
SIZES = (1, 20, 1_000)  # decisions of a call
LENGTH = 10_000  # decisions of a stream in which all alarms are false
GOOD, BAD = 5_000, 50_000  # decisions before a drift that comes late, and of a long one


class World(NamedTuple):
    """Groups by their shares of decisions; rates of yes at the bound of a condition, and beyond it.

    EO: the rates are those among the label yes, which 30 % have; 10 % of the others are answered yes.
    """

    name: str
    condition: str
    shares: tuple[float, ...]
    at_bound: tuple[float, ...]
    beyond: tuple[float, ...]


WORLDS = (
    World("2 groups, near one half", "dp > 0.1", (0.5, 0.5), (0.45, 0.55), (0.4, 0.6)),
    World("2 groups, near 0", "dp > 0.1", (0.5, 0.5), (0.0, 0.1), (0.0, 0.2)),
    World("2 groups, one of 5 %", "dp > 0.1", (0.05, 0.95), (0.45, 0.55), (0.4, 0.6)),
    World(
        "5 groups, four pairs at the bound", "dp > 0.1", (0.2,) * 5, (0.4, *(0.5,) * 4), (0.3, *(0.5,) * 4)
    ),
    World("ratio of rates", "dp_ratio < 0.8", (0.5, 0.5), (0.4, 0.5), (0.3, 0.5)),
    World("EO, 30 % have the label yes", "eo > 0.1", (0.5, 0.5), (0.55, 0.65), (0.5, 0.7)),
    World("accuracy of all", "accuracy < 0.8", (1.0,), (0.8,), (0.7,)),
)


def draw(world: World, rates: tuple[float, ...], n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n decisions as cells."""
    group, label = rng.choice(len(rates), n, p=world.shares), rng.random(n) < 0.3
    yes = rng.random(n) < np.array(rates)[group]
    if world.condition.startswith("eo"):
        yes = np.where(label, yes, rng.random(n) < 0.1)
    if world.condition.startswith("accuracy"):
        yes = np.where(yes, label, ~label)
    return 6 * group + 3 * label + yes


def alarms(world: World, cell: np.ndarray, run_length: int, size: int) -> tuple[list[int], list[int]]:
    """Return the decisions at which there was an alarm, and at which a new one."""
    found, new = list[int](), list[int]()
    numbers = np.arange(1, 1 + len(cell))
    summary: dict[str, Any] = {"alarms": [], "periods": [str(number) for number in range(len(cell) + 1)]}
    summary["groups"] = [str(group) for group in range(len(world.shares))]
    detector = Detector(parse_condition(world.condition))
    for start in range(0, len(cell), size):
        end = start + size
        for alarm in detector.watch(cell[start:end], numbers[start:end], run_length):
            found.append(alarm.until)
            new += [alarm.until] * bool(log_alarm(summary, detector, alarm, 1))
    return found, new


def simulated(world: World, paths: int) -> dict[str, Any]:
    """Return how often there are false alarms, how late true ones come, and what follows a repair."""
    rng, false = np.random.default_rng(7), dict[str, list[float]]()
    for size in SIZES:
        streams = [draw(world, world.at_bound, LENGTH, rng) for _ in range(paths)]
        rates = [len(alarms(world, stream, PROMISE, size)[0]) / LENGTH * 1000 for stream in streams]
        false[str(size)] = [float(np.mean(rates)), float(np.std(rates) / np.sqrt(paths))]
    late = list[float]()
    for _ in range(paths):
        stream = [draw(world, world.at_bound, GOOD, rng), draw(world, world.beyond, 20_000, rng)]
        times = alarms(world, np.concatenate(stream), USUAL, 1_000)[0]
        late.append(min((time - GOOD for time in times if time > GOOD), default=np.inf))
    after, once = list[int](), list[int]()
    for _ in range(max(2, paths // 10)):
        stream = [draw(world, world.beyond, BAD, rng), draw(world, world.at_bound, 20_000, rng)]
        found, new = alarms(world, np.concatenate(stream), USUAL, 1_000)
        after.append(sum(a > BAD for a in found))
        once.append(len(new))
    return {
        "name": world.name, "condition": world.condition, "false": false,
        "found": float(np.isfinite(late).mean()),
        "delay": [float(np.quantile(late, q, method="lower")) for q in (0.5, 0.9)],
        "after": float(np.mean(after)), "logged": float(np.mean(once)),
    }  # fmt: skip


def fill(path: Path, rows: int) -> None:
    """Write a state of so many decisions."""
    rng = np.random.default_rng(0)
    with open_state(path) as state:
        cell = draw(WORLDS[0], WORLDS[0].at_bound, rows, rng)
        keys = np.cumsum(rng.integers(1, 2**62 // rows, rows))
        decisions = zip(keys.tolist(), cell.tolist(), strict=True)
        state.database.executemany("INSERT INTO decisions VALUES (?, ?, 0, NULL)", decisions)
        nothing = np.zeros(rows, np.int64)
        state.count(nothing, nothing, cell)
        state.summary.update(
            groups=["a", "b"], versions=[""], periods=["call 1"], values={"yes": True, "no": False}
        )


_MEASURE = """
import os, subprocess, sys
process = subprocess.Popen([sys.executable, *sys.argv[1:]], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def measured(command: list[str]) -> dict[str, float]:
    """Run a Python to its end, from a small process; return CPU seconds and the peak of memory in MB."""
    found = subprocess.run(
        [sys.executable, "-c", _MEASURE, *command], capture_output=True, text=True, check=True
    )
    code, seconds, megabytes = map(float, found.stdout.split())
    if code not in (0, 5):
        raise SystemExit(f"{command} failed: {found.stderr}")
    return {"cpu": seconds, "megabytes": megabytes}


def scaled(rows: int, new: int = 10_000) -> dict[str, Any]:
    """Return what a call with new decisions costs on top of a state, beside a group-by of pandas over all."""
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        state, table, every = (Path(name) / file for file in ("state.db", "new.csv", "all.parquet"))
        fill(state, rows)
        for path, n in ((table, new), (every, rows)):
            columns = {"sex": rng.choice(["a", "b"], n), "ok": rng.choice(["yes", "no"], n)}
            frame = pd.DataFrame({"id": np.arange(n), **columns})
            frame.to_csv(path, index=False) if path == table else frame.to_parquet(path)
        call = ["-m", "fwc_llm", "monitor", str(table), "--answer", "ok", "--protected", "sex", "--key", "id"]
        call += ["--state", str(state), "--fail-if", "dp > 0.3", "--undecided", "pass"]
        grouped = f"import pandas as pd; pd.read_parquet({str(every)!r}).groupby(['sex', 'ok']).size()"
        return {
            "rows": rows, "new": new, "call": measured(call), "size": state.stat().st_size,
            "empty": measured(["-c", "import fwc_llm.report.monitor_page"]),
            "pandas": measured(["-c", grouped]),
        }  # fmt: skip


def as_markdown(record: dict[str, Any]) -> str:
    """Return the record as a page."""
    false, late = [], []
    for world in record["worlds"]:
        rates = [f"{mean:.2f} ({error:.2f})" for mean, error in world["false"].values()]
        false.append([world["name"], f"`{world['condition']}`", *rates])
        delay = [f"{q:,.0f}" if np.isfinite(q) else "not found" for q in world["delay"]]
        repair = [f"{world['logged']:.1f}", f"{world['after']:.2f}"]
        late.append([world["name"], f"{world['found']:.0%}", *delay, *repair])
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
    return f"""# Monitor: what is promised and what it costs

Simulated, by `{record["command"]}`, seeds fixed.

## False alarms

Alarms in 1,000 decisions with rates exactly at the bound and `--run-length {PROMISE:,}`: at most
1 on average is promised. {record["paths"]} streams of {LENGTH:,}. In brackets the standard error.

{markdown(["world", "condition", "calls of 1", "of 20", "of 1,000"], false)}
## A drift that comes late, and a repair

At the usual run length of {USUAL:,}, calls of 1,000. *Late*: {GOOD:,} decisions at the bound,
then 20,000 beyond it; decisions until the alarm. *Repair*: {BAD:,} beyond it, then 20,000
at it: alarms logged (right is one for each pair beyond it), and alarms that come after.

{markdown(["world", "found", "decisions, median", "nine in ten", "repair: logged", "after it"], late)}
## A call with {scale["new"]:,} new decisions, {scale["rows"]:,} in the state

The state has {scale["size"] / 2**20:,.0f} MB.

{markdown(["", "CPU seconds", "peak memory, MB"], costs)}"""


def main() -> None:
    """Measure, print, and with `--record` write the page."""
    parser = command_line(__doc__)
    parser.add_argument("--paths", type=int, default=20)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    changed = (name for name in ("paths", "rows") if getattr(options, name) != parser.get_default(name))
    given = [f"--{name} {getattr(options, name)}" for name in changed]
    words = ["python -m evals.monitor", *given, *["--record"] * options.record]
    with ProcessPoolExecutor(2) as pool:
        worlds = list(pool.map(simulated, WORLDS, [options.paths] * len(WORLDS)))
    record = {
        "command": " ".join(words),
        "paths": options.paths,
        "worlds": worlds,
        "scale": scaled(options.rows),
    }
    page = as_markdown(record)
    print(page)
    if options.record:
        write("monitor", record, page)


if __name__ == "__main__":
    main()
