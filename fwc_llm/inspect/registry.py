"""What Inspect finds by the entry point `fwc_llm`: importing this module registers it there."""

from fwc_llm.inspect.surrogate import fwc as fwc
from fwc_llm.inspect.tasks import TASKS as TASKS
