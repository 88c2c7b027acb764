"""Imports a module that the user named (`python:MODULE:NAME`, `MODULE:FUNCTION`), and nothing
else of theirs.

No other import looks into the current folder: who audits a stranger's folder does not run its
files.
"""

import os
import sys
from importlib import import_module
from types import ModuleType

# Optional modules that are looked for at the first use of these, which must not find the folder's
# files.
_BEFORE = (
    "pandas",
    "openai",
    "httpx2",
    "numba",
    "sklearn.utils",
    "narwhals",
    "tiktoken",
    "rich.console",
)


def import_named(module: str) -> ModuleType:
    """Import `module`; from now on, the current folder is the last that imports search."""
    for name in _BEFORE:
        import_module(name)
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.append(folder)
    return import_module(module)
