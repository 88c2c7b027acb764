"""A task file (TOML) as checked values: what the columns mean, and how the table is written on disk.

Prompts, solver and models never see these; they get the `Task` that `tasks` makes of them. The keys are
documented in evals/tasks/README.md.
"""

from fwc_llm.taskfile.addresses import is_name_below, is_safe_address, is_safe_redirect
from fwc_llm.taskfile.edits import choose_protected, choose_weight
from fwc_llm.taskfile.parsing import parse_taskfile, read_taskfile
from fwc_llm.taskfile.same import asks_the_same
from fwc_llm.taskfile.values import (
    DEFAULT_MARKERS,
    UNKNOWN,
    Column,
    Field,
    Outcome,
    Protected,
    Source,
    TaskFile,
)

__all__ = [
    "DEFAULT_MARKERS",
    "UNKNOWN",
    "Column",
    "Field",
    "Outcome",
    "Protected",
    "Source",
    "TaskFile",
    "asks_the_same",
    "choose_protected",
    "choose_weight",
    "is_name_below",
    "is_safe_address",
    "is_safe_redirect",
    "parse_taskfile",
    "read_taskfile",
]
