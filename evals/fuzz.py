"""Damaged inputs, for as long as you like: only a refusal may come out of them, never a traceback.

    python -m evals.fuzz --minutes 10                    # all targets, as many processes as there
                                                         are cores
    python -m evals.fuzz --minutes 10 --target shots
    python -m evals.fuzz --target reply --case 12345     # one case again, with its traceback

Every case is the same for the same number. What fails is printed with its number; then the exit
code is 1.
"""

import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from evals.record import command_line
from tests.faults.targets import TARGETS, one_case

_SLOW = 5.0  # seconds of work for one case, beyond which it counts as a hang


def main() -> int:
    parser = command_line(__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--target", choices=sorted(TARGETS), action="append")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="one case again")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
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
        for name, cases, failures in pool.map(
            _cases, names, [seconds] * len(names), [arguments.first] * len(names)
        ):
            counts[name], failed[name] = cases, failures.total()
            print(
                f"{name:12} {cases:>10,} cases, {failures.total()} failures", flush=True
            )
            for what, count in failures.most_common(5):
                print(f"    {count} times, {what}", flush=True)
    print(f"{sum(counts.values()):,} cases, {sum(failed.values())} failures")
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


if __name__ == "__main__":
    sys.exit(main())
