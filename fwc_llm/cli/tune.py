"""`fwc-llm tune`: find the examples that reach a fairness target for one model, and test them once."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fwc_llm.cli.eval_output import before_asking, run_json
from fwc_llm.cli.options import PROTECTED_HELP, CancelBatch, Json, print_json, read, takes, words
from fwc_llm.models import Client
from fwc_llm.runs.settings import Settings
from fwc_llm.shots.base import DEFAULT_M

if TYPE_CHECKING:
    from fwc_llm.evaluation.tune import Tuned

_MOST_LINES = 12


@takes(Settings, Client, names=("n_test", "base_parity", "seed", "api"))
def tune(
    task: Annotated[str, typer.Option(help="A built-in task or a task file (.toml).")] = "adult",
    protected: Annotated[str | None, typer.Option(help=PROTECTED_HELP)] = None,
    model: Annotated[
        str, typer.Option(help="The model, as for `fwc-llm eval`; `surrogate` is a simulation.")
    ] = "surrogate",
    target_dp: Annotated[float | None, typer.Option(help="The DP gap to reach, such as 0.1.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Another target by name: eo=0.1, dp_ratio=0.8, dp=0.1.")
    ] = None,
    max_loss: Annotated[
        float, typer.Option(help="Points of accuracy below `balanced` that reaching it may cost.")
    ] = 3.0,
    rows: Annotated[int, typer.Option(help="Pool rows on which candidates are compared.")] = 200,
    candidates: Annotated[int, typer.Option(help="How many sets of examples are tried.")] = 40,
    m: Annotated[str, typer.Option("--m", help="Examples per prompt; several, comma-separated.")] = str(
        DEFAULT_M
    ),
    template: Annotated[
        str | None,
        typer.Option(
            help="Template set or folder; several, comma-separated, take turns. [default: default; decision "
            "with --api decisions or systemone]"
        ),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(help="Orders that take turns, comma-separated. [default: given,random]"),
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help="Only these strategies, comma-separated. [default: all]")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder; an interrupted tuning continues there. [default: ./runs/<time>-<task>-<model>]"
        ),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the data lies.")] = None,
    cancel_batch: CancelBatch = False,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Find examples with which a model reaches a fairness target at the least loss of accuracy."""
    from fwc_llm.cli import console
    from fwc_llm.errors import FwcError, IncompleteRunError
    from fwc_llm.evaluation.tune import tune as run
    from fwc_llm.tasks import load_task

    try:
        sizes = [int(size) for size in words(m)]
    except ValueError:
        raise FwcError(f"--m is {m!r}: give whole numbers, comma-separated") from None
    settings, client = read(Settings, options), read(Client, options)
    # What a function of the user prints is no output of ours.
    with before_asking(out), redirect_stdout(sys.stderr):
        found = run(
            task if protected is None else load_task(task, data_dir, protected=protected),
            model, target_dp, max_loss, target=target, rows=rows, candidates=candidates, m=sizes,
            templates=words(template) or None, orders=words(order) or None,
            strategies=words(strategy) or None, out=out, client=client, **settings.given,
            data_dir=data_dir, cancel_batch=cancel_batch, shown=console.shown,
        )  # fmt: skip
    if as_json:
        print_json(_as_json(found))
    else:
        _report(found)
    if found.result is not None and found.result.unanswered:
        why = found.result.data["stopped"] or f"{found.result.unanswered} questions have no reply"
        where = quote(str(found.folder))
        raise IncompleteRunError(
            f"the test is not complete: {why}; the same command with --out {where} continues"
        )


def _as_json(found: "Tuned") -> dict[str, Any]:
    return {
        "format": "fwc-llm-tune/1",
        "folder": str(found.folder),
        "verdict": found.verdict,
        "reached": found.reached,
        "template": found.template,
        "shots": None if found.shots is None else str(found.folder / "shots.json"),
        "tuning": found.tuning,
        "run": None if found.result is None else run_json(found.folder, found.result.data),
    }


def _report(found: "Tuned") -> None:
    """The candidates as a table, what was chosen, and the test beside it."""
    from fwc_llm.cli.console import err, out
    from fwc_llm.report.tables import terminal
    from fwc_llm.report.terminal import results_table, statistics_lines
    from fwc_llm.report.tuning import candidates, describe_tuning, validation

    out.print(terminal(candidates(found.tuning, _MOST_LINES)))
    out.print(found.verdict, soft_wrap=True, highlight=False)
    if found.result is not None:
        out.print(terminal(validation(describe_tuning(found.tuning, found.result.data))))
        out.print(results_table(found.result.data))
        out.print(statistics_lines(found.result.folder))
    if found.shots is not None:
        wording = "" if found.template == "default" else f", in the wording {found.template}"
        err.print(f"the examples are in {found.folder / 'shots.json'}{wording}", soft_wrap=True)
        err.print(f"see everything with: fwc-llm report {found.folder}", soft_wrap=True)
