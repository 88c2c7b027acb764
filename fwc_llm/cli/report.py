"""`fwc-llm report` and `fwc-llm compare`: results of runs in many formats."""

import os.path
from pathlib import Path

from fwc_llm.cli import console, flags
from fwc_llm.cli.gate import UNREAD, Unread
from fwc_llm.errors import FwcError
from fwc_llm.files import check_new, in_shell, is_file, write_whole
from fwc_llm.runs.folder import expanded
from fwc_llm.sanitize import Fields


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
        document = make_document(folders, with_rows, unread, chosen.startswith("ll144"))
        text = write_document(document, chosen, appendix)
    if figures is not None:
        draw(document, figures)
    if path is None:
        console.write(text, is_json=chosen == "json")
        return
    write_whole(text, path)
    console.notes(f"wrote {path}")


def draw(document: Fields, folder: Path) -> None:
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
        "Folder of a run or of several models, or an Inspect log.", metavar="RUN_A"
    ),
    run_b: Path = flags.argument(
        "Folder of another run of the same task.", metavar="RUN_B"
    ),
    as_json: bool = flags.JSON,
) -> None:
    """Show what changed between two runs, and whether their answers differ.

    Of folders with several models, each model is compared with itself, or with the only run of the
    other folder.
    """
    from fwc_llm.inspect.log import run_folders
    from fwc_llm.report.compare import compare_runs, comparison_sections
    from fwc_llm.report.table_model import terminal
    from fwc_llm.runs.recorded_run import read_run

    found = []
    for paths in _pairs(list(expanded([run_a])), list(expanded([run_b]))):
        with run_folders(paths) as (first, second):
            found.append(compare_runs(read_run(first), read_run(second)))
    if as_json:
        flags.print_json({"format": "fwc-llm-compare/2", "comparisons": found})
        return
    for comparison in found:
        console.out.print(*map(terminal, comparison_sections(comparison)))


def _pairs(first: list[Path], second: list[Path]) -> list[list[Path]]:
    """The runs to compare: of the same model, where both folders have several models."""
    if 1 in (len(first), len(second)):
        return [[one, other] for one in first for other in second]
    by_name = {path.name: path for path in second}
    pairs = [[one, by_name[one.name]] for one in first if one.name in by_name]
    if not pairs:
        there = ", ".join(map(in_shell, [*first, *second]))
        raise FwcError(f"the two folders have no model in common: name two of {there}")
    return pairs
