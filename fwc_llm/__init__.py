"""Fairer language-model decisions over tables, by a few well-chosen examples, measured honestly.

The public names are imported when first used, so that `import fwc_llm` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fwc_llm.version import __version__ as __version__

if TYPE_CHECKING:
    from fwc_llm.coreset import FairCoreset, FairWASP, Transport, fair_transport
    from fwc_llm.errors import FwcError, IncompleteRunError, InterruptedRunError, ProviderError
    from fwc_llm.evaluation.evaluate import evaluate
    from fwc_llm.evaluation.result import Result
    from fwc_llm.models import Client, Message, Messages, Model, Reply, Usage, open_model
    from fwc_llm.prompts import build_prompt
    from fwc_llm.runs.plan import Settings
    from fwc_llm.shots import (
        Certificate,
        Example,
        Request,
        Shots,
        load_shots,
        save_shots,
        select_shots,
        strategies,
        strategy,
    )
    from fwc_llm.tasks import Task, load_task

__all__ = [
    "Certificate",
    "Client",
    "Example",
    "FairCoreset",
    "FairWASP",
    "FwcError",
    "IncompleteRunError",
    "InterruptedRunError",
    "Message",
    "Messages",
    "Model",
    "ProviderError",
    "Reply",
    "Request",
    "Result",
    "Settings",
    "Shots",
    "Task",
    "Transport",
    "Usage",
    "build_prompt",
    "evaluate",
    "fair_transport",
    "load_shots",
    "load_task",
    "open_model",
    "save_shots",
    "select_shots",
    "strategies",
    "strategy",
]

_HOME = {
    "fwc_llm.coreset": ("FairCoreset", "FairWASP", "Transport", "fair_transport"),
    "fwc_llm.errors": ("FwcError", "IncompleteRunError", "InterruptedRunError", "ProviderError"),
    "fwc_llm.evaluation.evaluate": ("evaluate",),
    "fwc_llm.evaluation.result": ("Result",),
    "fwc_llm.models": ("Client", "Message", "Messages", "Model", "Reply", "Usage", "open_model"),
    "fwc_llm.prompts": ("build_prompt",),
    "fwc_llm.runs.plan": ("Settings",),
    "fwc_llm.shots": (
        "Certificate", "Example", "Request", "Shots", "load_shots", "save_shots", "select_shots",
        "strategies", "strategy",
    ),
    "fwc_llm.tasks": ("Task", "load_task"),
}  # fmt: skip

if not TYPE_CHECKING:  # a type checker knows the names above, and that there are no others

    def __getattr__(name: str) -> Any:
        for home, names in _HOME.items():
            if name in names:
                return getattr(import_module(home), name)
        raise AttributeError(f"module 'fwc_llm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
