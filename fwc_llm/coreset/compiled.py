"""The decorators of compiled functions, and the one message while they compile.

A `kernel` is called from Python and kept on disk, a `part` is called from kernels and becomes part of them.
What compiles fast: a kernel that is given its room, that assigns numbers and no slices, and that sees one
type of table, so that callers convert tables to float64.
"""

import logging
from collections.abc import Callable
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import njit
from numba.core import event

_log = logging.getLogger("fwc_llm.coreset")

compiled: list[str] = []  # names of the kernels and parts that this process had to compile


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compiles the function at its first call and keeps the code on disk; it runs without Python's lock."""
    if function is None:
        return partial(kernel, **options)
    decorate: Any = njit
    options = {**_BARE, "nogil": True, **options}
    try:
        return decorate(cache=True, **options)(function)
    except RuntimeError:  # not even the user's own folder of caches can be written
        _warn_once(
            "the compiled solver is not kept: no folder is writable; set NUMBA_CACHE_DIR to a writable one"
        )
        return decorate(**options)(function)


def part(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compiles the function as a part of kernels."""
    if function is None:
        return partial(part, **options)
    # Python never calls it: without its wrappers compiling takes a sixth less.
    decorate: Any = njit
    return decorate(**_BARE, no_cpython_wrapper=True, **options)(function)


_BARE = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}


def read_only(array: np.ndarray) -> np.ndarray:
    """The same memory for kernels that only read: numba compiles another kernel for read-only arrays."""
    if array.flags.writeable:
        return array
    interface = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}
    return np.asarray(SimpleNamespace(__array_interface__=interface, keep=array))


_warn_once = cache(_log.warning)


class _Listener(event.Listener):  # type: ignore[misc]
    """Notices every compilation in the process, and says once what happens and how long it takes."""

    def on_start(self, event: Any) -> None:
        function: Any = getattr(event.data.get("dispatcher"), "py_func", None)
        module = getattr(function, "__module__", None) or ""
        if module.startswith("fwc_llm."):
            compiled.append(f"{module}.{function.__qualname__}")
            _warn_once(
                "compiling the solver for this machine: this takes ten to twenty seconds, once; "
                "`fwc-llm warm-up` does it ahead of time"
            )

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Listener())  # type: ignore[no-untyped-call]
