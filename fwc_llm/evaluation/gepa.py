"""Sentences for `tune` by GEPA's reflection (Agrawal et al. 2025, arXiv 2507.19457). Extra: `gepa`."""

from collections.abc import Callable, Iterator
from typing import Any

from fwc_llm.errors import FwcError

_ASKED = (
    "Accuracy should be high and the gap between groups low. The instruction is added to the end of the "
    "system message. Write one short paragraph."
)


def gepa_propose(reflect: Callable[[str], str]) -> Callable[[list[dict[str, Any]]], Iterator[str]]:
    """Return what `tune(propose=…)` takes: GEPA rewrites the instruction of each candidate of the front.

    `reflect` is the reflection language model: a prompt in, its reply out. It sees accuracy and gap of every
    candidate of the front, with their intervals, and no row of the table.

    Errors: `FwcError` where GEPA is not installed.
    """
    try:
        from gepa.strategies.instruction_proposal import InstructionProposalSignature
    except ImportError:
        raise FwcError("GEPA is not installed: pip install 'fwc-llm[gepa]'") from None

    def propose(front: list[dict[str, Any]]) -> Iterator[str]:
        seen = [
            {
                "Instruction": line.get("instruction") or "none",
                "Examples": line["kind"],
                "Result": {
                    name: f"{line[name]:.3f}, 95 % interval {line[f'{name}_interval']}"
                    for name in ("accuracy", "metric")
                },
                "Feedback": _ASKED,
            }
            for line in front
        ]
        for current in dict.fromkeys(line.get("instruction") or "" for line in front):
            inputs = {
                "current_instruction_doc": current,
                "dataset_with_feedback": seen,
                "prompt_template": None,
            }
            proposal = InstructionProposalSignature.run(lambda prompt: reflect(str(prompt)), inputs)
            yield proposal["new_instruction"]

    return propose
