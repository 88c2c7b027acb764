"""Chosen examples are kept in the cache folder, so that the same choice is not solved again.

A choice is named by a checksum of all it depends on: the table's content and what its columns mean, the
candidates, the strategy with its options, m, epsilon and seed, and the versions that compute it. Any file
there may be deleted at any time; one that cannot be read or written only costs the work again.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fwc_llm.data.locate import cache_folder
from fwc_llm.errors import FwcError
from fwc_llm.shots.base import DEFAULT_M, Shots
from fwc_llm.shots.registry import is_kept
from fwc_llm.shots.select import select_shots
from fwc_llm.shots.storage import load_shots, save_shots
from fwc_llm.version import __version__

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fwc_llm.tasks import Task

_LIBRARIES = ("numpy", "scipy", "pandas", "numba", "scikit-learn")


def kept_shots(
    task: "Task",
    strategy: str,
    m: int = DEFAULT_M,
    epsilon: float | None = 0.01,
    seed: int = 0,
    pool: "pd.DataFrame | None" = None,
    candidates: "np.ndarray | None" = None,
    **options: Any,
) -> Shots:
    """Return what `select_shots` returns, from the cache where it was chosen before."""

    def choose() -> Shots:
        return select_shots(task, strategy, m, epsilon, seed, pool, candidates, progress=False, **options)

    if not is_kept(strategy):
        return choose()
    try:
        key = _key(task, [strategy, m, epsilon, seed, options], pool, candidates)
        path = cache_folder() / "shots" / key[:2] / f"{key}.json"
    except (TypeError, ValueError, RuntimeError):  # an option without a text, a user without a home
        return choose()
    with suppress(FwcError):
        return load_shots(path)
    shots = choose()
    with suppress(FwcError, ValueError):
        save_shots(shots, path)
    return shots


def _key(
    task: "Task", choice: list[Any], pool: "pd.DataFrame | None", candidates: "np.ndarray | None"
) -> str:
    """The checksum that names a choice."""
    from importlib.metadata import version

    import numpy as np

    columns = [[column.name, column.kind, column.role, list(column.order)] for column in task.columns]
    depends: Mapping[str, Any] = {
        "task": [
            task.name,
            task.fingerprint,
            columns,
            list(task.protected),
            task.outcome,
            task.weight,
            dict(task.column_weights),
        ],
        "choice": choice,
        "versions": [__version__, *map(version, _LIBRARIES)],
    }
    digest = hashlib.sha256(json.dumps(depends, sort_keys=True).encode("utf-8", "surrogatepass"))
    rows = task.pool() if pool is None else pool
    if rows is not task.pool() or task.whole is not None:  # the fingerprint does not say which rows
        from pandas.util import hash_pandas_object

        digest.update(hash_pandas_object(rows).to_numpy().tobytes())
    if candidates is not None:
        digest.update(np.asarray(candidates, dtype=bool).tobytes())
    return digest.hexdigest()
