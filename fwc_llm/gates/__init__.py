"""Gates: conditions on metrics that fail a run (docs/gates.md)."""

from fwc_llm.gates.condition import GateCondition, parse_condition
from fwc_llm.gates.decide import Check, all_of, decide

__all__ = ["Check", "GateCondition", "all_of", "decide", "parse_condition"]
