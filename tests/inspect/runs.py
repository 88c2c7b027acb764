"""Runs of Inspect, in a process of their own: it sets up logging and hooks for the whole process.

`python -m tests.inspect.runs FOLDER` writes the logs that the tests read; each is named after its
run.
"""

import sys
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match

from fwc_llm.inspect.registry import (
    TASKS,
)  # as the entry point does, where there is none
from tests.data.tables import write_task
from tests.inspect.designs import CENSUS_ARGUMENTS, KEY, MOCKED, table


@task
def somebodys() -> Task:
    people = [
        Sample(input="Is it?", target="yes", metadata={"sex": sex})
        for sex in ("m", "w") * 4
    ]
    return Task(dataset=people, scorer=match())


def mock() -> Callable[..., ModelOutput]:
    """Answers of every kind, one after the other."""
    kinds = cycle(MOCKED)

    def answer(messages: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
        kind = next(kinds)
        if kind == "error":
            raise RuntimeError("the provider fell over")
        said = "I'm sorry, but I cannot help with that." if kind == "refusal" else kind
        output = ModelOutput.from_content("mockllm", said)
        if kind in {"filter", "long"}:
            output.choices[0].stop_reason = (
                "content_filter" if kind == "filter" else "max_tokens"
            )
        output.usage = ModelUsage(
            input_tokens=36, input_tokens_cache_read=64, output_tokens=1
        )
        output.metadata = {
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
        }
        return output

    return answer


def main(folder: Path) -> None:
    def run(name: str, what: Task, model: Any = None, **options: Any) -> None:
        model = model or get_model("mockllm/model", custom_outputs=mock())
        quiet = {
            "log_dir": str(folder / "raw"),
            "display": "none",
            "log_realtime": False,
        }
        (log,) = eval(what, model=model, max_connections=1, **quiet, **options)
        where = Path(log.location.removeprefix("file://"))
        where.rename(folder / f"{name}{where.suffix}")

    own = write_task(folder, table(), outcome='positive = ["yes"]\nnegative = ["no"]')
    shown = {"file": str(own), "shots": "zero,balanced", "n_test": 8, "m": 4}
    small = TASKS["taskfile"](**shown, base_parity=0.5)
    run("plain", TASKS["census"](**CENSUS_ARGUMENTS), "fwc/surrogate")
    stated = TASKS["census"](**CENSUS_ARGUMENTS, answer_format="probability")
    run("stated", stated, "fwc/surrogate")
    run(
        "epochs",
        TASKS["taskfile"](**shown, repeats=2, counterfactual=True),
        epochs=2,
        fail_on_error=False,
    )
    run(
        "small", small, log_format="json", fail_on_error=False, extra_headers={"x": KEY}
    )
    run("warm", small, temperature=0.7, fail_on_error=False)
    run("stopped", small)
    run("foreign", somebodys(), fail_on_error=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
