"""Our tasks, metrics and surrogate inside Inspect, and its logs as runs of ours. Extra: `inspect`."""

from fwc_llm.inspect.log import import_log

__all__ = ["import_log"]
