"""One file per strategy; `fwc_llm.shots.registry` finds it by name."""
