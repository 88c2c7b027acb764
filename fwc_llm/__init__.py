"""Choose and evaluate few-shot examples for fair decisions by language models.

Public names are imported on first use, which keeps `import fwc_llm` fast.
"""

from typing import TYPE_CHECKING

from fwc_llm.lazy import lazy_names
from fwc_llm.version import __version__ as __version__

if TYPE_CHECKING:
    from fwc_llm.answers import Answer as Answer
    from fwc_llm.answers import parse_answer as parse_answer
    from fwc_llm.cell_rules import TaskRow as TaskRow
    from fwc_llm.coreset import FairCoreset as FairCoreset
    from fwc_llm.errors import FunctionError as FunctionError
    from fwc_llm.errors import FwcError as FwcError
    from fwc_llm.errors import IncompleteRunError as IncompleteRunError
    from fwc_llm.errors import InputError as InputError
    from fwc_llm.errors import InterruptedRunError as InterruptedRunError
    from fwc_llm.errors import ProviderError as ProviderError
    from fwc_llm.evaluation.evaluate import aevaluate as aevaluate
    from fwc_llm.evaluation.evaluate import evaluate as evaluate
    from fwc_llm.evaluation.result import Result as Result
    from fwc_llm.evaluation.tune import Tuned as Tuned
    from fwc_llm.evaluation.tune import tune as tune
    from fwc_llm.gates import Check as Check
    from fwc_llm.models import Client as Client
    from fwc_llm.models import Messages as Messages
    from fwc_llm.models import Model as Model
    from fwc_llm.models import Reply as Reply
    from fwc_llm.models import RowContext as RowContext
    from fwc_llm.models import Usage as Usage
    from fwc_llm.models import open_model as open_model
    from fwc_llm.models.functions import FunctionModel as FunctionModel
    from fwc_llm.notices import DataWarning as DataWarning
    from fwc_llm.notices import FwcWarning as FwcWarning
    from fwc_llm.notices import RunWarning as RunWarning
    from fwc_llm.notices import ScaleWarning as ScaleWarning
    from fwc_llm.prompts import build_prompt as build_prompt
    from fwc_llm.report.audit_answers import Audit as Audit
    from fwc_llm.report.audit_answers import audit as audit
    from fwc_llm.runs.settings import Settings as Settings
    from fwc_llm.shots import Example as Example
    from fwc_llm.shots import Shots as Shots
    from fwc_llm.shots import load_shots as load_shots
    from fwc_llm.shots import save_shots as save_shots
    from fwc_llm.shots import select_shots as select_shots
    from fwc_llm.shots import strategies as strategies
    from fwc_llm.tasks import Task as Task
    from fwc_llm.tasks import load_task as load_task

_HOME = {
    "answers": ("Answer", "parse_answer"),
    "cell_rules": ("TaskRow",),
    "coreset": ("FairCoreset",),
    "errors": (
        "FunctionError",
        "FwcError",
        "IncompleteRunError",
        "InputError",
        "InterruptedRunError",
        "ProviderError",
    ),
    "evaluation.evaluate": ("aevaluate", "evaluate"),
    "evaluation.result": ("Result",),
    "evaluation.tune": ("Tuned", "tune"),
    "gates": ("Check",),
    "models": (
        "Client",
        "Messages",
        "Model",
        "Reply",
        "RowContext",
        "Usage",
        "open_model",
    ),
    "models.functions": ("FunctionModel",),
    "notices": ("DataWarning", "FwcWarning", "RunWarning", "ScaleWarning"),
    "prompts": ("build_prompt",),
    "report.audit_answers": ("Audit", "audit"),
    "runs.settings": ("Settings",),
    "shots": (
        "Example",
        "Shots",
        "load_shots",
        "save_shots",
        "select_shots",
        "strategies",
    ),
    "tasks": ("Task", "load_task"),
}

_NAMES = {name: home for home in _HOME for name in _HOME[home]}
__all__ = sorted(_NAMES)
if not TYPE_CHECKING:  # type checkers use the imports above and report every other name
    __getattr__, __dir__ = lazy_names(__name__, _NAMES)
