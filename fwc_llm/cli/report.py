"""`fwc-llm report` and `fwc-llm compare`: results of runs in many formats."""

import os.path
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fwc_llm.cli import console, flags
from fwc_llm.cli.gate import UNREAD, Unread
from fwc_llm.errors import FwcError
from fwc_llm.files import check_new, in_shell, is_file, write_whole
from fwc_llm.runs.group import expanded


@flags.command("report")
def report(
    runs: list[Path] = flags.argument(
        "Folders of runs of one task, or logs of Inspect (.eval, .json).", metavar="RUN"
    ),
    out: Path | None = flags.option(
        "File to write. [default: report.html in the run's folder; other formats to the terminal]",
        "--out",
        "-o",
    ),
    format: str | None = flags.option(
        "Format: html, md, json, csv, tex (booktabs), ll144 (Local Law 144) or comment "
        "(pull requests). [default: by the file's ending, else html]"
    ),
    task: str | None = flags.option(
        "Task file (.toml) of the runs if the task is not built-in."
    ),
    data_dir: Path | None = flags.DATA_DIR,
    figures: Path | None = flags.FIGURES,
    no_rows: bool = flags.NO_ROWS,
    unread: Unread = UNREAD,
    appendix: bool = flags.APPENDIX,
    force: bool = flags.FORCE,
    as_json: bool = flags.JSON,
) -> None:
    """Write a report of one or more runs as a self-contained page, Markdown, JSON or CSV."""
    from fwc_llm.inspect.log import run_folders
    from fwc_llm.report.document import make_document
    from fwc_llm.report.formats import choose_format, write_document

    if as_json and format not in (None, "json"):
        raise FwcError(
            f"--json and --format {format} do not go together: leave out one of the two"
        )
    chosen = choose_format("json" if as_json else format, out)
    path = _place(runs) if out is None and chosen == "html" else out
    if len(runs) > 1 or out is not None:  # a run's page in its folder is made again
        check_new(force, path)
    with run_folders(list(expanded(runs))) as folders:
        with_rows = chosen == "html" and not no_rows
        document = make_document(
            folders, task, data_dir, with_rows, unread, chosen.startswith("ll144")
        )
        text = write_document(document, chosen, appendix)
    if figures is not None:
        draw(document, figures)
    if path is None:
        console.write(text, is_json=chosen == "json")
        return
    write_whole(text, path)
    console.notes(f"wrote {path}")


def draw(document: Mapping[str, Any], folder: Path) -> None:
    """Write a document's charts to `folder`, and print their paths."""
    from fwc_llm.report.figures import write_figures

    written = write_figures(document, folder)
    console.notes(f"wrote {len(written)} figures to {folder}")


def _place(runs: list[Path]) -> Path:
    """The default path of a page: next to the run, or here for several runs."""
    if len(runs) == 1:
        path = (
            runs[0].with_suffix(".html")
            if is_file(runs[0])
            else runs[0] / "report.html"
        )
    else:
        path = Path("report.html")
    if os.path.islink(path):  # do not follow an untrusted link
        raise FwcError(f"{path} is a link: name a file with -o")
    return path


@flags.command("compare")
def compare(
    run_a: Path = flags.argument(
        "Folder of one run, or a log of Inspect.", metavar="RUN_A"
    ),
    run_b: Path = flags.argument(
        "Folder of another run of the same task.", metavar="RUN_B"
    ),
    as_json: bool = flags.JSON,
) -> None:
    """Show what changed between two runs, and whether their answers differ."""
    from fwc_llm.inspect.log import run_folders
    from fwc_llm.metrics.counts import plain
    from fwc_llm.report.compare import compare_runs, comparison_sections
    from fwc_llm.report.table_model import terminal
    from fwc_llm.report.threshold_section import threshold_section
    from fwc_llm.runs.recorded_run import read_run

    named = list(expanded([run_a, run_b]))
    if len(named) > 2:
        runs_there = ", ".join(map(in_shell, named))
        raise FwcError(f"a folder has runs of several models: name two of {runs_there}")
    with run_folders(named) as (first, second):
        runs = {"first": read_run(first), "second": read_run(second)}
        comparison = compare_runs(*runs.values())
        thresholds = {side: threshold_section(run) for side, run in runs.items()}
    if as_json:
        document = {
            "format": "fwc-llm-compare/2",
            **comparison,
            "thresholds": thresholds,
        }
        flags.print_json(plain(document))
        return
    console.out.print(*map(terminal, comparison_sections(comparison)))
