"""Whether compiled code costs nothing but its call: asked before small problems, which should not wait."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_known: dict[tuple[str, str], bool] = {}


def is_ready(module: str, name: str) -> bool:
    """Whether numba is loaded in this process, and this kernel of the module compiled or kept on disk."""
    if "numba" not in sys.modules:
        return False
    known = _known.get((module, name))
    if not known:
        kernel = getattr(import_module(module), name)
        # The disk is asked once: what was not there then, this process compiles itself, if anyone does.
        known = bool(getattr(kernel, "signatures", None)) or (
            known is None and _is_kept(kernel, module, name)
        )
        _known[module, name] = known
    return known


def _is_kept(kernel: Any, module: str, name: str) -> bool:
    folder = getattr(getattr(kernel, "stats", None), "cache_path", None)
    if folder is None:
        return False
    written = Path(kernel.py_func.__code__.co_filename).stat().st_mtime
    kept = Path(folder).glob(f"{module.rpartition('.')[2]}.{name}-*.nbi")
    return any(one.stat().st_mtime >= written for one in kept)
