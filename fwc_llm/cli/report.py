"""`fwc-llm report` and `fwc-llm compare`: the results of runs as a page, as files, or on the terminal."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs of one task.", metavar="RUN…")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The file to write. [default: report.html; md, json and csv to the terminal]"
        ),
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="html, md, json or csv. [default: by the file's ending, else html]")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="The task file (.toml) of the runs, where the task is not built in.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where the data lies. [default: $FWC_LLM_DATA, then the cache]")
    ] = None,
) -> None:
    """Write a report of one or more runs: one self-contained page, or Markdown, JSON or tidy CSV."""
    from fwc_llm.cli import console
    from fwc_llm.files import write_whole
    from fwc_llm.report.write import choose_format, render

    chosen = choose_format(format, out)
    text = render(runs, chosen, task, data_dir)
    if out is None and chosen != "html":
        console.write(text, is_json=chosen == "json")
        return
    path = out or Path("report.html")
    write_whole(text, path)
    console.err.print(f"wrote {path}", highlight=False)


def compare(
    run_a: Annotated[Path, typer.Argument(help="The folder of one run.", metavar="RUN_A")],
    run_b: Annotated[
        Path, typer.Argument(help="The folder of another run of the same task.", metavar="RUN_B")
    ],
    json_output: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Show what changed between two runs, and whether it is more than noise."""
    import json

    from fwc_llm.cli.console import out, write
    from fwc_llm.report.compare import compare_runs, comparison_table
    from fwc_llm.report.read import read_run

    comparison = compare_runs(read_run(run_a), read_run(run_b))
    if json_output:
        write(json.dumps(comparison, indent=1, ensure_ascii=False, allow_nan=False) + "\n", is_json=True)
    else:
        out.print(comparison_table(comparison))
