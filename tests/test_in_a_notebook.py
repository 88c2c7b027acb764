"""A real notebook kernel: what a reader of the README sees there, and that it can be
interrupted.
"""

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

from tests.conftest import CHECKOUT

SECONDS = 120
SLOW_MODEL = """
import asyncio
from fwc_llm import FwcError, Reply, evaluate, load_task

class Slow:
    name, parameters = "slow", {}
    async def ask(self, messages):
        await asyncio.sleep(0.3)
        return Reply("yes")
    async def aclose(self):
        pass

try:
    evaluate(load_task("census"), Slow(), ("zero",), concurrency=1, out="interrupted")
except FwcError as error:
    print(type(error).__name__, error.result.unanswered)
"""
Message = dict[str, Any]
Cell = Callable[..., list[Message]]


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    """A function that runs a cell and returns its outputs; `interrupt` stops it at its first
    progress.
    """
    folder = str(tmp_path_factory.mktemp("notebook"))
    sockets = tempfile.TemporaryDirectory()  # a socket's path must be short
    manager = KernelManager(transport="ipc", ip=f"{sockets.name}/kernel")
    manager.start_kernel(cwd=folder, env={**os.environ, "IPYTHONDIR": folder})
    client = manager.blocking_client()
    client.start_channels()

    def run(code: str, interrupt: bool = False) -> list[Message]:
        outputs: list[Message] = []

        def hook(message: Message) -> None:
            outputs.append(message)
            asked = "asked 1 of" in str(message["content"].get("data"))
            if (
                interrupt
                and asked
                and not any(m["msg_type"] == "interrupted" for m in outputs)
            ):
                outputs.append({"msg_type": "interrupted", "content": {}})
                manager.interrupt_kernel()

        client.execute_interactive(code, output_hook=hook, timeout=SECONDS)
        return outputs

    try:
        client.wait_for_ready(timeout=SECONDS)
        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        sockets.cleanup()


def of_kind(outputs: list[Message], kind: str) -> list[str]:
    """The outputs of this kind."""
    return [
        message["content"]["data"]["text/plain"]
        for message in outputs
        if message["msg_type"] == kind
    ]


def printed(outputs: list[Message], name: str = "stdout") -> str:
    texts = [m["content"] for m in outputs if m["msg_type"] == "stream"]
    return "".join(text["text"] for text in texts if text["name"] == name)


@pytest.mark.slow
def test_the_readme_in_a_notebook(cell: Cell) -> None:
    readme = (CHECKOUT / "README.md").read_text()
    code = re.findall(r"```python\n(.*?)```", readme, re.S)[0]
    outputs = cell(code)
    assert not [m["content"] for m in outputs if m["msg_type"] == "error"]
    assert "SIMULATED" in printed(outputs)
    assert "ipywidgets" not in printed(outputs, "stderr")
    shown = of_kind(outputs, "display_data")
    assert (
        len(shown) == 2
    )  # a line for the choice of examples, one for the run; both change in place
    last = of_kind(outputs, "update_display_data")
    assert any("choosing 16 examples by fwc: " in line for line in last)
    assert re.fullmatch(
        r"(.|\n)*asked 400 of 400 \(.*\): \d+ yes, \d+ no: [\d.]+ s", last[-1]
    )


@pytest.mark.slow
def test_a_run_in_a_notebook_can_be_interrupted(cell: Cell) -> None:
    said = re.fullmatch(r"(\w+) (\d+)\n", printed(cell(SLOW_MODEL, interrupt=True)))
    assert said[1] == "InterruptedRunError"
    assert 0 < int(said[2]) < 200
