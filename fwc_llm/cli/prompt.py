"""`fwc-llm prompt`: the request for one row."""

import sys
from pathlib import Path
from typing import Any

from fwc_llm.cli import flags
from fwc_llm.errors import FwcError
from fwc_llm.files import read_text, reason
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import Json, parse_json

_SETTINGS = (
    *("m", "epsilon", "n_test", "base_parity", "seed", "api", "answer_format"),
    "template",
)


@flags.command("prompt", Settings, names=_SETTINGS)
def prompt(
    task: str | None = flags.TASK,
    protected: str | None = flags.PROTECTED,
    shots: str = flags.option(
        "Strategy or shots file (.json); +removal and +instruction edit the prompt.",
        default="zero",
    ),
    row: int | None = flags.option(
        "Index of the row in the seeded test split. [default: 0]", "--row"
    ),
    record: str | None = flags.option(
        "JSON file with a raw row to show ('-': standard input).", metavar="FILE"
    ),
    as_json: bool = flags.switch("Print the messages as JSON.", "--json"),
    data_dir: Path | None = flags.DATA_DIR,
    allow_changed_data: bool = flags.ALLOW_CHANGED,
    **options: Any,
) -> None:
    """Show the request for a row of the test split or of your own."""
    import json

    from fwc_llm.cli.console import lines, notes, working, write
    from fwc_llm.models.tokens import TokenCounter
    from fwc_llm.prompts import Prompt, split_edits
    from fwc_llm.runs.plan import make_plan
    from fwc_llm.shots import load_shots

    if record is not None and row is not None:
        raise FwcError(
            "--row is a row of the test split, --record one of yours: leave out one of them"
        )
    settings = flags.read(Settings, options)
    table = flags.open_task(task, data_dir, protected)
    source, edits = split_edits(shots)
    if record is None:
        with working("choosing examples") as step:
            plan = make_plan(table, (shots,), settings, allow_changed_data, step)
        notes(*plan.notes)
        split = plan.repeats[0].split.test
        row = row or 0
        if not 0 <= row < len(split):
            raise FwcError(
                f"row {row} is outside the test split, whose rows are 0 to {len(split) - 1}"
            )
        messages = plan.prompt(plan.arms[0], row)
        title = f"row {row} of the split is {split.index[row]}"
    else:
        chosen = None
        if source.endswith(".json"):
            chosen = load_shots(source, table, allow_changed_data)
        elif source != "zero":
            raise FwcError(
                "with --record, --shots is zero or a saved file: fwc-llm shots --strategy "
                f"{source} -o shots.json saves one"
            )
        cleaned = table.record(_read(record))
        title = f"the row is in {record}"
        notes(*cleaned.notes)
        prompt = Prompt(
            table,
            chosen,
            settings.template,
            edits,
            settings.question_apart,
            settings.stated,
        )
        messages = prompt.build(cleaned)
    if as_json:
        write(
            json.dumps(list(messages), indent=1, ensure_ascii=False) + "\n",
            is_json=True,
        )
        return
    for message in messages:
        lines(f"── {message['role']} {message.get('name', '')}".rstrip(), style="bold")
        lines(message["content"])
    counter = TokenCounter("gpt-4")
    tokens = f"{counter.count(messages):,} tokens{'' if counter.exact else ', estimated'} for gpt-4"
    notes(f"{title}; {len(messages)} messages, {tokens}")


def _read(record: str) -> Json:
    """Read a JSON object from a file, or from standard input for "-"."""
    try:
        content = parse_json(
            sys.stdin.read() if record == "-" else read_text(Path(record))
        )
    except (OSError, ValueError) as error:
        raise FwcError(
            f"the record {record} cannot be read: {reason(error)}"
        ) from error
    if not isinstance(content, dict):
        raise FwcError(
            f'the record {record} is no JSON object: write {{"column": value, …}} with every column'
        )
    return content
