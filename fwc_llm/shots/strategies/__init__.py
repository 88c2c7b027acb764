"""The strategies; `fwc_llm.shots.registry` finds them by name."""
