"""How many cores are free: llama.cpp's threads spin while they wait for each other.

More threads than free cores make it up to 100 times slower, so that a core too few is the better mistake.
"""

import os
from pathlib import Path

from fwc_llm.coreset.threads import count_threads

_CGROUPS = Path("/sys/fs/cgroup")


def free_cores() -> int:
    """The cores that this process may use and that nobody else is using now; at least 1."""
    allowed = min(float(count_threads()), _quota())
    machine = os.cpu_count() or 1
    others = _load() * min(allowed / machine, 1.0)  # the load is that of the whole machine
    return max(1, round(allowed - others))


def _load() -> float:
    """Processes that ran or waited for a core during the last minute; 0 where no system says."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0


def _quota() -> float:
    """The cores that a container or a unit of the system may use: the least of its groups' limits."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return float("inf")
    own = next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
    folders = [_CGROUPS / own, *(_CGROUPS / parent for parent in Path(own).parents)]
    return min(cgroup_quota(folder) for folder in folders)


def cgroup_quota(folder: Path) -> float:
    """The cores that the control group of a folder allows; infinite without a limit. Versions 1 and 2."""
    try:
        words = (folder / "cpu.max").read_text(encoding="utf-8").split()
    except OSError:
        try:
            words = [
                (folder / "cpu" / name).read_text(encoding="utf-8").strip()
                for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            ]
        except OSError:
            return float("inf")
    try:
        quota, period = float(words[0]), float(words[1])
    except (ValueError, IndexError):  # "max": no limit
        return float("inf")
    return quota / period if quota > 0 and period > 0 else float("inf")
