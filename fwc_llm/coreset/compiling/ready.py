"""Whether compiled code costs nothing but its call: asked before small problems, which should not wait."""

import sys
from importlib import import_module
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
    """Whether the disk has code of this very source: numba tells by its hash, older versions by its time."""
    from fwc_llm.coreset.compiling.kernel import try_private

    if getattr(getattr(kernel, "stats", None), "cache_path", None) is None:
        return False
    of_its_own = f"the look at what is kept of {module}.{name}"
    return try_private(of_its_own, lambda: bool(kernel._cache._cache_file._load_index()), False)
