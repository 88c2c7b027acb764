"""Chosen examples are kept in the cache folder, so that the same choice is not solved again.

A choice is named by a checksum of all it depends on: the table's content and what its columns mean, the
candidates, the strategy with its options, m, epsilon and seed, and the code that chooses. Any file there may
be deleted at any time; one that is damaged, or cannot be written, only costs the work again.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.data.locate import cache_folder
from fwc_llm.errors import FwcError
from fwc_llm.files import read_text
from fwc_llm.shots.base import Shots
from fwc_llm.shots.select import select_shots
from fwc_llm.shots.storage import parse_shots, shots_text
from fwc_llm.version import __version__

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fwc_llm.tasks import Task

_QUICK = {"zero", "random", "balanced", "ids", "nearest"}  # chosen sooner than read
_LIBRARIES = ("numpy", "scipy", "pandas", "numba")


def kept_shots(
    task: "Task",
    strategy: str,
    m: int = 16,
    epsilon: float | None = 0.01,
    seed: int = 0,
    pool: "pd.DataFrame | None" = None,
    candidates: "np.ndarray | None" = None,
    **options: Any,
) -> Shots:
    """Return what `select_shots` returns, from the cache where it was chosen before.

    Only our own strategies are kept: nothing tells when the code of another one changes.
    """
    from fwc_llm.shots.registry import is_built_in

    def choose() -> Shots:
        return select_shots(task, strategy, m, epsilon, seed, pool, candidates, progress=False, **options)

    if strategy in _QUICK or not is_built_in(strategy):
        return choose()
    try:
        path = _place(_name(task, strategy, m, epsilon, seed, pool, candidates, options))
    except (TypeError, ValueError, ImportError, OSError, RuntimeError):
        # An option that has no text, a package without its files, a user without a home.
        return choose()
    shots = _read(path)
    if shots is None:
        shots = choose()
        _write(path, shots)
    return shots


def _name(
    task: "Task",
    strategy: str,
    m: int,
    epsilon: float | None,
    seed: int,
    pool: "pd.DataFrame | None",
    candidates: "np.ndarray | None",
    options: Mapping[str, Any],
) -> str:
    import numpy as np

    columns = [[column.name, column.kind, column.role, list(column.order)] for column in task.columns]
    asked = {
        "task": [task.name, task.fingerprint, columns, list(task.protected), task.outcome, task.weight],
        "choice": [strategy, m, epsilon, seed, dict(options)],
        "code": _code(),
    }
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode("utf-8", "surrogatepass"))
    if pool is None:
        pool = task.pool()
    if pool is not task.pool() or task.whole is not None:  # the fingerprint does not say which rows
        from pandas.util import hash_pandas_object

        digest.update(hash_pandas_object(pool).to_numpy().tobytes())
    if candidates is not None:
        digest.update(np.asarray(candidates, dtype=bool).tobytes())
    return digest.hexdigest()


@cache
def _code() -> str:
    """A checksum of the code that chooses: ours, and the versions of what it computes with."""
    from importlib.metadata import version

    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256(json.dumps([__version__, *map(version, _LIBRARIES)]).encode())
    for room in ("coreset", "shots"):
        for path in sorted((root / room).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _place(name: str) -> Path:
    return cache_folder() / "shots" / name[:2] / f"{name}.json"


def _read(path: Path) -> Shots | None:
    """The shots of a file whose first line is the checksum of the rest; None where there are none."""
    try:
        checksum, _, text = read_text(path).partition("\n")
        if checksum != _checksum(text):
            return None
        return parse_shots(text, str(path))
    except (OSError, ValueError, FwcError):
        return None


def _write(path: Path, shots: Shots) -> None:
    """Write a file whole, whoever else writes it at the same time; without a place for it, nothing."""
    text = shots_text(shots)
    with suppress(OSError, ValueError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".partial")
        try:
            with open(handle, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
                file.write(f"{_checksum(text)}\n{text}")
            os.replace(partial, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial)
            raise


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
