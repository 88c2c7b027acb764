"""`fwc-llm rescore`: parse the replies of a run again and recompute its numbers, without any request."""

from pathlib import Path
from typing import Annotated

import typer


def rescore(
    run: Annotated[Path, typer.Argument(help="The folder of a run, or of several models.")],
) -> None:
    """Recompute answers.csv and results.json from a run's journal; asks nothing, needs no key and no data."""
    from fwc_llm.cli.console import out
    from fwc_llm.report.terminal import results_table
    from fwc_llm.runs.folder import RunFolder
    from fwc_llm.runs.group import expanded
    from fwc_llm.runs.journal import Journal
    from fwc_llm.runs.results import score

    for path in expanded([run]):
        folder = RunFolder.existing(path)
        with Journal(folder.path) as journal:
            results = score(folder, journal)
        out.print(results_table(results))
