"""Fairer language-model decisions over tables, by a few well-chosen examples, measured honestly.

The public names are imported when first used, so that `import fwc_llm` stays light.
"""

from typing import TYPE_CHECKING

from fwc_llm.lazy import lazy_names
from fwc_llm.version import __version__ as __version__

if TYPE_CHECKING:
    from fwc_llm.coreset import FairCoreset, FairWASP, Transport, fair_transport
    from fwc_llm.errors import FwcError, IncompleteRunError, InputError, InterruptedRunError, ProviderError
    from fwc_llm.evaluation.evaluate import evaluate
    from fwc_llm.evaluation.result import Result
    from fwc_llm.evaluation.tune import Tuned, tune
    from fwc_llm.models import Asked, Client, Message, Messages, Model, Reply, Training, Usage, open_model
    from fwc_llm.models.functions import FunctionModel
    from fwc_llm.prompts import build_prompt
    from fwc_llm.report.audit import Audit, audit
    from fwc_llm.runs.settings import Settings
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
    "Asked",
    "Audit",
    "Certificate",
    "Client",
    "Example",
    "FairCoreset",
    "FairWASP",
    "FunctionModel",
    "FwcError",
    "IncompleteRunError",
    "InputError",
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
    "Training",
    "Transport",
    "Tuned",
    "Usage",
    "audit",
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
    "tune",
]

_HOME = {
    "coreset": ("FairCoreset", "FairWASP", "Transport", "fair_transport"),
    "errors": ("FwcError", "IncompleteRunError", "InputError", "InterruptedRunError", "ProviderError"),
    "evaluation.evaluate": ("evaluate",),
    "evaluation.result": ("Result",),
    "evaluation.tune": ("Tuned", "tune"),
    "models": (
        "Asked", "Client", "Message", "Messages", "Model", "Reply", "Training", "Usage", "open_model",
    ),
    "models.functions": ("FunctionModel",),
    "prompts": ("build_prompt",),
    "report.audit": ("Audit", "audit"),
    "runs.settings": ("Settings",),
    "shots": (
        "Certificate", "Example", "Request", "Shots", "load_shots", "save_shots", "select_shots",
        "strategies", "strategy",
    ),
    "tasks": ("Task", "load_task"),
}  # fmt: skip

if not TYPE_CHECKING:  # a type checker knows the names above, and that there are no others
    __getattr__, __dir__ = lazy_names(
        __name__, {name: home for home, names in _HOME.items() for name in names}
    )
