"""`fwc-llm prompt`: what is sent for one row."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fwc_llm.cli.options import PROTECTED_HELP, TASK_HELP, open_task, read, takes
from fwc_llm.runs.settings import Settings

_SETTINGS = (
    "m", "epsilon", "n_test", "base_parity", "seed", "api", "template", "consistency", "weights",
)  # fmt: skip


@takes(Settings, names=_SETTINGS)
def prompt(
    task: Annotated[str | None, typer.Option(help=TASK_HELP)] = None,
    protected: Annotated[str | None, typer.Option(help=PROTECTED_HELP)] = None,
    shots: Annotated[
        str,
        typer.Option(
            help="A strategy, or a file of saved shots (.json); +removal, +instruction edit the prompt."
        ),
    ] = "zero",
    row: Annotated[int, typer.Option(help="Which row of the seeded test split, counted from 0.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the messages as JSON.")] = False,
    data_dir: Annotated[
        Path | None, typer.Option(help="Look for data here first.", show_default=False)
    ] = None,
    allow_changed_data: Annotated[
        bool, typer.Option("--allow-changed-data", help="Accept saved shots although the data has changed.")
    ] = False,
    **options: Any,
) -> None:
    """Show what is sent to the model for one row of the test split that `eval` draws from this seed."""
    import json

    from rich.text import Text

    from fwc_llm.cli.console import err, out, working, write
    from fwc_llm.errors import FwcError
    from fwc_llm.models.tokens import TokenCounter
    from fwc_llm.runs.plan import make_plan

    settings = read(Settings, options)
    with working("choosing examples") as step:
        plan = make_plan(open_task(task, data_dir, protected), (shots,), settings, allow_changed_data, step)
    for note in plan.notes:
        err.print(note, soft_wrap=True)
    split = plan.repeats[0].split.test
    if not 0 <= row < len(split):
        raise FwcError(f"row {row} is outside the test split: it has rows 0 to {len(split) - 1}")
    messages = plan.prompt(plan.arms[0], row)
    if as_json:
        write(json.dumps(list(messages), indent=1, ensure_ascii=False) + "\n", is_json=True)
        return
    for message in messages:
        out.print(Text(f"── {message['role']} {message.get('name', '')}".rstrip(), style="bold"))
        out.print(Text(message["content"]), soft_wrap=True)
    for said in plan.untrue.values():
        err.print(f"{plan.arms[0].name}: {said}", style="bold", highlight=False)
    counter = TokenCounter("gpt-4")
    tokens = f"{counter.count(messages):,} tokens{'' if counter.exact else ', estimated'} for gpt-4"
    err.print(f"row {row} of the split is {split.index[row]}; {len(messages)} messages, {tokens}")
