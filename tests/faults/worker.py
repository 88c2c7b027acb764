"""One run in a process of its own, for tests that kill it: `python -m tests.faults.worker URL FOLDER N`."""

import asyncio
import sys
from pathlib import Path

from fwc_llm.models.chat import ChatModel
from fwc_llm.runs.execute import Call, execute
from fwc_llm.runs.journal import Journal


def question(number: int) -> Call:
    """The question about row `number`."""
    messages = [{"role": "user", "content": f"Person {number}: does this person earn more than 50K?"}]
    return Call("zero", 0, f"test:{number}", "", messages)


def main() -> None:
    """Ask `N` questions at `URL`, journal in `FOLDER`."""
    url, folder, n = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    model = ChatModel("test-model", base_url=url, concurrency=16, timeout=5.0, backoff=0.01)
    with Journal(folder) as journal:
        outcome = asyncio.run(execute(model, (question(i) for i in range(n)), journal, concurrency=16))
    print(outcome.done, outcome.errors, outcome.skipped)


if __name__ == "__main__":
    main()
