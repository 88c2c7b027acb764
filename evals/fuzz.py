"""Damaged inputs, for as long as you like: only a refusal may come out of them, never a traceback.

    python -m evals.fuzz --minutes 10                    # all targets, as many processes as there
                                                         are cores
    python -m evals.fuzz --minutes 10 --target shots
    python -m evals.fuzz --target reply --case 12345     # one case again, with its traceback
    python -m evals.fuzz --minutes 10 --target reply --guided    # led by coverage; needs the extra
                                                                 [fuzz]

Every case is the same for the same number. What fails is printed with its number; then the exit
code is 1.
"""

import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress

from evals.record import command_line
from evals.reliability import record
from fwc_llm.errors import FwcError
from tests.faults.targets import TARGETS, one_case

_SLOW = 5.0  # seconds of work for one case, beyond which it counts as a hang


def main() -> int:
    parser = command_line(__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--target", choices=sorted(TARGETS), action="append")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="one case again")
    parser.add_argument("--guided", action="store_true", help="let coverage lead (atheris)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", action="store_true", help="write evals/results/reliability.md")
    arguments = parser.parse_args()
    names = arguments.target or list(TARGETS)
    if arguments.case is not None:
        for name in names:
            one_case(name, arguments.case)
        return 0
    processes = min(arguments.processes, len(names))
    seconds = 60.0 * arguments.minutes / len(names) * processes
    counts = dict[str, int]()
    failed = dict[str, int]()
    with ProcessPoolExecutor(processes, max_tasks_per_child=1) as pool:
        work = _guided if arguments.guided else _cases
        for name, cases, failures in pool.map(
            work, names, [seconds] * len(names), [arguments.first] * len(names)
        ):
            counts[name], failed[name] = cases, failures.total()
            print(f"{name:12} {cases:>10,} cases, {failures.total()} failures", flush=True)
            for what, count in failures.most_common(5):
                print(f"    {count} times, {what}", flush=True)
    print(f"{sum(counts.values()):,} cases, {sum(failed.values())} failures")
    if arguments.record:
        record("guided" if arguments.guided else "fuzz", {"cases": counts, "failures": failed})
    return int(any(failed.values()))


def _cases(name: str, seconds: float, first: int) -> tuple[str, int, Counter[str]]:
    """As many cases of a target as fit into the time; what failed, with the number of one such
    case.
    """
    one_case(name, first)  # with its imports, which are nobody's slowness
    ends = time.monotonic() + seconds
    case = first
    failures = Counter[str]()
    seen = dict[str, int]()
    while time.monotonic() < ends:
        began = time.process_time()
        try:
            one_case(name, case)
            if time.process_time() - began > _SLOW:
                failures[f"too slow: case {case}"] += 1
        except Exception as error:
            what = f"{type(error).__name__}: {str(error)[:100]}"
            failures[f"{what} (case {seen.setdefault(what, case)})"] += 1
        case += 1
    return name, case - first, failures


class _Fed(random.Random):
    """Draws what the bytes say, so that a small change of them is a small change of the case."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data = iter(data)

    def getrandbits(self, k: int) -> int:
        value = 0
        for _ in range(-(-k // 8)):
            value = value << 8 | next(self._data, 0)
        return value & ((1 << k) - 1)

    def random(self) -> float:
        return self.getrandbits(16) / 65536.0


def _guided(name: str, seconds: float, first: int) -> tuple[str, int, Counter[str]]:
    """libFuzzer chooses the numbers that make the cases, by what they reach. It ends its process
    itself.
    """
    command = [sys.executable, "-c", f"from evals.fuzz import guide; guide({name!r}, {seconds})"]
    done = subprocess.run(command, capture_output=True, text=True)
    cases = re.findall(r"^#(\d+)", done.stderr, re.MULTILINE)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:]
    else:
        said = []
    return name, max(map(int, cases), default=0), Counter(said)


def guide(name: str, seconds: float) -> None:
    """Let coverage lead through one target."""
    import atheris

    def one_input(data: bytes) -> None:
        with suppress(FwcError):
            TARGETS[name](_Fed(data))

    one_input(b"")  # with its imports
    atheris.instrument_all()
    atheris.Setup(["fuzz", f"-max_total_time={int(seconds)}", "-rss_limit_mb=4096"], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
