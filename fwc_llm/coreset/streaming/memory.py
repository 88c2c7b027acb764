"""Whether a fit of a table in blocks fits into memory: said before the work, with what would fit."""

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fwc_llm.coreset.streaming.blocks import Survey
from fwc_llm.coreset.streaming.passes.moves import count_bins
from fwc_llm.coreset.threads import count_threads
from fwc_llm.errors import InputError

_DOUBT = 0.02  # share of the rows whose cell is in doubt, at most about
_FEWEST = 16  # rows of the sample for a representative, at least


@dataclass(frozen=True)
class Size:
    """What decides how much memory a fit takes, besides what is there already."""

    n: int
    p: int  # columns
    q: int  # of which numeric
    cells: int
    m: int
    sample: int
    block: int  # rows
    threads: int
    item: int  # bytes of a number of X

    @classmethod
    def of(cls, survey: Survey, m: int, threads: int | None) -> "Size":
        """The size of a surveyed table's fit."""
        table = survey.sample
        return cls(
            survey.n,
            table.p,
            table.n_numeric,
            survey.cells.n_cells,
            m,
            table.n,
            max(survey.lengths),
            threads or count_threads(),
            table.numbers.dtype.itemsize,
        )

    @property
    def bytes(self) -> int:
        """About how much it takes."""
        row = self.p * (self.item + 12) + self.cells * 40 + 64  # in work
        doubt = self.p * self.item + self.cells * 24 + 60
        counts = self.m * self.q * (count_bins(self.m, self.q) + 4) * 16
        return int(
            self.sample * (self.p * 8 + self.cells * 28 + 64)
            + self.threads * (self.block * row + counts)
            + 2 * counts
            + self.n * (_DOUBT * 2 * doubt + 4)
        )


def check_memory(size: Size, available: int | None = None) -> None:
    """Refuse a fit that takes more memory than is `available`, None for what this process may have."""
    there = available_memory() if available is None else available
    if there is None or size.bytes <= there:
        return
    raise InputError(
        f"the fit needs about {_gigabytes(size.bytes)} of memory, and {_gigabytes(there)} is available: "
        f"{_advice(size, there)}"
    )


def available_memory() -> int | None:
    """Bytes that this process may still take, None where nobody knows."""
    found = [*_of_machine(), *_of_group(), *_of_process()]
    return max(0, min(found)) if found else None


def _advice(size: Size, there: int) -> str:
    """What would fit."""
    one = replace(size, threads=1)
    if one.bytes <= there:
        return "n_jobs=1 would fit"
    words = "n_jobs=1 and " if size.threads > 1 else ""
    sample = size.sample
    while sample > _FEWEST * size.m:
        sample //= 2
        if replace(one, sample=sample).bytes <= there:
            return f"{words}sample={sample} would fit"
    m = size.m
    while m > 1:
        m //= 2
        if replace(one, m=m, sample=min(size.sample, 2 * _FEWEST * m)).bytes <= there:
            return f"{words}m={m} with sample={min(size.sample, 2 * _FEWEST * m)} would fit"
    return "use a machine with more memory, or fewer columns"


def _gigabytes(count: int) -> str:
    return f"{count / 2**30:.2g} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def _of_machine() -> list[int]:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return [int(line.split()[1]) * 1024]
    with suppress(OSError, ValueError, AttributeError):
        return [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    return []


def _of_group() -> list[int]:
    """What the control groups of this process leave, files that they could drop counted as free."""
    found: list[int] = []
    with suppress(OSError, ValueError):
        place = Path("/proc/self/cgroup").read_text().splitlines()[-1].rpartition(":")[2].lstrip("/")
        folder = Path("/sys/fs/cgroup") / place
        for one in (folder, *folder.parents):
            if not one.is_relative_to("/sys/fs/cgroup"):
                break
            with suppress(OSError, ValueError):
                most, used = (int((one / name).read_text()) for name in ("memory.max", "memory.current"))
                stat = dict(line.split() for line in (one / "memory.stat").read_text().splitlines())
                found.append(most - used + int(stat.get("inactive_file", 0)))
    return found


def _of_process() -> list[int]:
    """What the process's own limit of addresses leaves."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            return [most - pages * os.sysconf("SC_PAGE_SIZE")]
    return []
