"""Integration with Inspect: tasks, metrics, surrogate, import of logs (extra `inspect`)."""

from fwc_llm.inspect.log import import_log

__all__ = ["import_log"]
