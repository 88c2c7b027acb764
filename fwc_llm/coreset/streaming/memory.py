"""Whether a fit of a table in blocks fits into memory: said before the work."""

from fwc_llm.coreset.streaming.blocks import Survey


def check_memory(survey: Survey, m: int, threads: int | None) -> None:
    """Refuse what does not fit."""
