"""Whether compiled code costs nothing but its call: asked before small problems, which should not wait."""

import sys
from importlib import import_module
from pathlib import Path

_known: dict[tuple[str, str], bool] = {}


def is_ready(module: str, name: str) -> bool:
    """Whether numba is loaded in this process, and this kernel of the module compiled or kept on disk."""
    if "numba" not in sys.modules:
        return False
    if not _known.get((module, name)):
        _known[module, name] = _is_kept(module, name)
    return _known[module, name]


def _is_kept(module: str, name: str) -> bool:
    kernel = getattr(import_module(module), name)
    if getattr(kernel, "signatures", None):
        return True
    folder = getattr(getattr(kernel, "stats", None), "cache_path", None)
    if folder is None:
        return False
    written = Path(kernel.py_func.__code__.co_filename).stat().st_mtime
    kept = Path(folder).glob(f"{module.rpartition('.')[2]}.{name}-*.nbi")
    return any(one.stat().st_mtime >= written for one in kept)
