"""Fairer language-model decisions over tables, by a few well-chosen examples, measured honestly.

The public names are imported when first used, so that `import fwc_llm` stays light.
"""

from typing import TYPE_CHECKING

from fwc_llm.lazy import lazy_names
from fwc_llm.version import __version__ as __version__

if TYPE_CHECKING:
    from fwc_llm.prompts import build_prompt
    from fwc_llm.runs.evaluate import evaluate
    from fwc_llm.shots import Shots, select_shots
    from fwc_llm.tasks import Task, load_task

__all__ = ["Shots", "Task", "build_prompt", "evaluate", "load_task", "select_shots"]

_HOME = {
    "Shots": "shots.base",
    "Task": "tasks",
    "build_prompt": "prompts",
    "evaluate": "runs.evaluate",
    "load_task": "tasks",
    "select_shots": "shots",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
