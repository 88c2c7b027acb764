"""One file a strategy, found by its name in `fwc_llm.shots.registry`."""
