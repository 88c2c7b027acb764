"""The options of every command that asks a model: the service, its limits, and what it may cost."""

from pathlib import Path
from typing import Annotated, Any

import typer


def about(help_text: str, *names: str) -> Any:
    """An option about the model and its service."""
    return typer.Option(*names, help=help_text, rich_help_panel="The model and its service")


def cost(help_text: str, *names: str) -> Any:
    """An option about cost."""
    return typer.Option(*names, help=help_text, rich_help_panel="Cost")


Api = Annotated[
    str,
    about(
        "How the question is put: chat, or decisions or systemone to a decision model, which gives "
        "P(yes) and no text."
    ),
]
BaseUrl = Annotated[str | None, about("Any OpenAI-compatible server; the OpenAI key is not sent there.")]
ApiKeyEnv = Annotated[
    str | None,
    about("The variable that holds the key. [default: OPENAI_API_KEY; none with --base-url]"),
]
Concurrency = Annotated[int, about("Requests under way at once.")]
Rpm = Annotated[float | None, about("Limit of requests per minute.")]
Tpm = Annotated[float | None, about("Limit of tokens per minute.")]
Deadline = Annotated[float, about("Seconds for one row, retries included.")]
MaxTokens = Annotated[int | None, about("Largest number of tokens in a reply. [default: a few]")]
Logprobs = Annotated[bool, about("Ask for token probabilities: gives P(yes).", "--logprobs")]
Param = Annotated[list[str] | None, about("KEY=VALUE, passed to the service as it is; repeatable.")]
Batch = Annotated[
    bool, about("Use the provider's Batch API: cheaper, may take hours, survives restarts.", "--batch")
]
CancelBatch = Annotated[
    bool,
    about(
        "Cancel the folder's batches that are under way and ask their open questions live. [default: "
        "wait for them]",
        "--cancel-batch",
    ),
]
MaxCost = Annotated[float | None, cost("Stop before the run costs more dollars than this.")]
Prices = Annotated[Path | None, cost("A price file of your own (TOML).")]
