"""`fwc-llm prompt`: what is sent for one row."""

from pathlib import Path
from typing import Any

from fwc_llm.cli import options as flags
from fwc_llm.runs.settings import Settings

_SETTINGS = (
    "m", "epsilon", "n_test", "base_parity", "seed", "api", "template", "consistency", "weights",
)  # fmt: skip


@flags.command("prompt", Settings, names=_SETTINGS)
def prompt(
    task: str | None = flags.TASK,
    protected: str | None = flags.PROTECTED,
    shots: str = flags.option(
        "A strategy, or a file of saved shots (.json); +removal, +instruction edit the prompt.",
        default="zero",
    ),
    row: int = flags.option("Which row of the seeded test split, counted from 0.", default=0),
    as_json: bool = flags.switch("Print the messages as JSON.", "--json"),
    data_dir: Path | None = flags.DATA_DIR,
    allow_changed_data: bool = flags.ALLOW_CHANGED,
    **options: Any,
) -> None:
    """Show what is sent to the model for one row of the test split that `eval` draws from this seed."""
    import json

    from fwc_llm.cli.console import lines, notes, working, write
    from fwc_llm.errors import FwcError
    from fwc_llm.models.tokens import TokenCounter
    from fwc_llm.runs.plan import make_plan

    settings = flags.read(Settings, options)
    with working("choosing examples") as step:
        plan = make_plan(
            flags.open_task(task, data_dir, protected), (shots,), settings, allow_changed_data, step
        )
    notes(*plan.notes)
    split = plan.repeats[0].split.test
    if not 0 <= row < len(split):
        raise FwcError(f"row {row} is outside the test split: it has rows 0 to {len(split) - 1}")
    messages = plan.prompt(plan.arms[0], row)
    if as_json:
        write(json.dumps(list(messages), indent=1, ensure_ascii=False) + "\n", is_json=True)
        return
    for message in messages:
        lines(f"── {message['role']} {message.get('name', '')}".rstrip(), style="bold")
        lines(message["content"])
    for warning in plan.untrue.values():
        notes(f"{plan.arms[0].name}: {warning}", style="bold")
    counter = TokenCounter("gpt-4")
    tokens = f"{counter.count(messages):,} tokens{'' if counter.exact else ', estimated'} for gpt-4"
    notes(f"row {row} of the split is {split.index[row]}; {len(messages)} messages, {tokens}")
