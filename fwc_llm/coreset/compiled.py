"""Decorators of compiled functions, and the log message while numba compiles.

Python calls a `kernel`, whose compiled code is cached on disk. Kernels call a `part`, which is
compiled into them. A kernel compiles fast if it allocates no arrays, assigns numbers rather than
slices, and is always called with the same dtypes; so callers convert tables to one dtype.
"""

import logging
from collections.abc import Callable
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import njit
from numba.core import event

from fwc_llm.coreset.array_types import Array

_log = logging.getLogger("fwc_llm.coreset")

compiled: list[str] = []  # names of the kernels and parts that this process compiled


_bare: Any = partial(njit, error_model="numpy", _nrt=False, no_cfunc_wrapper=True)
# Python never calls a part: without the wrappers for Python, compiling takes a sixth less time.
part = partial(_bare, no_cpython_wrapper=True)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile the function at its first call, and cache the code on disk; it runs without the
    GIL.
    """
    try:
        return _bare(function, nogil=True, cache=True)
    except RuntimeError:  # no cache folder is writable, not even the user's own
        _warn_once(
            "the compiled solver is not kept: no folder is writable; set NUMBA_CACHE_DIR to a "
            "writable one"
        )
        return _bare(function, nogil=True)


def read_only(array: Array) -> Array:
    """View an array as writeable: for a read-only one numba would compile another version of a
    kernel.
    """
    if array.flags.writeable:
        return array
    interface = {
        **array.__array_interface__,
        "data": (array.__array_interface__["data"][0], False),
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface, keep=array))


_warn_once = cache(_log.warning)


class _Listener(event.Listener):  # type: ignore[misc]
    """Record every function of the package that numba compiles; log the first compilation."""

    def on_start(self, event: Any) -> None:
        function: Any = getattr(event.data.get("dispatcher"), "py_func", None)
        module = getattr(function, "__module__", None) or ""
        if module.startswith("fwc_llm."):
            compiled.append(f"{module}.{function.__qualname__}")
            _warn_once(
                "compiling the solver for this machine: this takes ten to twenty seconds, once; "
                "any fit, or `fwc-llm warm-up`, does it ahead of time"
            )

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Listener())  # type: ignore[no-untyped-call]
