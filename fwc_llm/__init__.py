"""Fairer language-model decisions over tables, by a few well-chosen examples, measured honestly.

The public names are imported when first used, so that `import fwc_llm` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fwc_llm.version import __version__ as __version__

if TYPE_CHECKING:
    from fwc_llm.prompts import build_prompt
    from fwc_llm.report.audit import Audit, audit
    from fwc_llm.runs.evaluate import evaluate
    from fwc_llm.shots import Shots, select_shots
    from fwc_llm.tasks import Task, load_task

__all__ = ["Audit", "Shots", "Task", "audit", "build_prompt", "evaluate", "load_task", "select_shots"]

_HOME = {
    "Audit": "fwc_llm.report.audit",
    "Shots": "fwc_llm.shots.base",
    "Task": "fwc_llm.tasks",
    "audit": "fwc_llm.report.audit",
    "build_prompt": "fwc_llm.prompts",
    "evaluate": "fwc_llm.runs.evaluate",
    "load_task": "fwc_llm.tasks",
    "select_shots": "fwc_llm.shots",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'fwc_llm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
