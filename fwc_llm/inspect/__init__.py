"""Our tasks, metrics and surrogate inside Inspect, and its logs as runs of ours. Extra: `inspect`."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fwc_llm.evaluation.result import Result

__all__ = ["import_log"]


def import_log(log: str | Path, out: str | Path) -> "Result":
    """Make a run's folder `out` from a log that Inspect wrote about one of our tasks (.eval or .json).

    The replies are parsed and scored anew; whatever reads a run then reads it. Raises `FwcError` for a log
    that cannot be read, is not about one of our tasks, or holds no sample.
    """
    from fwc_llm.inspect.log import write_run

    return write_run(Path(log), Path(out))
