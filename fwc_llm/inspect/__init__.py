"""Tasks, metrics and surrogate for Inspect, and its logs as runs. Extra: `inspect`."""

from fwc_llm.inspect.log import import_log

__all__ = ["import_log"]
