"""One run in a process of its own, for tests that kill it; imports all it needs, so that forks start fast."""

import asyncio
from pathlib import Path

import openai  # noqa: F401

from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.runs.execute import execute
from fwc_llm.runs.journal import Call, Journal


def question(number: int) -> Call:
    """The question about row `number`."""
    messages = [{"role": "user", "content": f"Person {number}: does this person earn more than 50K?"}]
    return Call("zero", 0, f"test:{number}", "", messages)


def run(url: str, folder: Path, n: int) -> None:
    """Ask `n` questions at `url`, journal in `folder`, and say there how it ended."""
    model = ChatModel("test-model", base_url=f"{url}/v1", concurrency=16, timeout=60.0, backoff=0.01)
    with Journal(folder) as journal:
        outcome = asyncio.run(execute(model, (question(i) for i in range(n)), journal, concurrency=16))
    (folder / "outcome").write_text(f"{outcome.done} {outcome.errors} {outcome.skipped}")
