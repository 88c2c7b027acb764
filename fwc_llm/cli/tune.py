"""`fwc-llm tune`: find examples that reach a fairness target, and test them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.cli import console, flags
from fwc_llm.cli.eval_output import run_json
from fwc_llm.files import in_shell
from fwc_llm.models import Client
from fwc_llm.runs.settings import Settings
from fwc_llm.shots.base import DEFAULT_M

if TYPE_CHECKING:
    from fwc_llm.evaluation.tune import Tuned


@flags.command(
    "tune",
    Settings,
    Client,
    names=("n_test", "base_parity", "seed", "api", "answer_format"),
)
def tune(
    task: str = flags.option(
        "A built-in task or a task file (.toml).", default="adult"
    ),
    protected: str | None = flags.PROTECTED,
    model: str = flags.option(
        "Model, as for `fwc-llm eval`; `surrogate` is a simulation.",
        default="surrogate",
    ),
    target_dp: float | None = flags.option("DP gap to reach, as a share, such as 0.1."),
    target: str | None = flags.option(
        "Target instead of --target-dp: eo_gap=0.1, dp_ratio=0.8 or dp_gap=0.1."
    ),
    max_loss: float = flags.option(
        "Largest loss of accuracy against `balanced`, in points.", default=3.0
    ),
    rows: int | None = flags.option(
        "Number of pool rows that compare candidates. [default: as many as test rows]"
    ),
    candidates: int = flags.option("Number of candidate sets of examples.", default=40),
    m: str | None = flags.option(
        f"Numbers of examples per prompt, comma-separated. [default: {DEFAULT_M}, or the nearest "
        f"feasible]",
        "--m",
    ),
    template: str | None = flags.option(
        "Template sets or folders, comma-separated, tried in turn. "
        "[default: default; decision with --api decisions or systemone]"
    ),
    order: str | None = flags.option(
        "Orders, comma-separated, tried in turn. [default: given,random]"
    ),
    strategy: str | None = flags.option(
        "Strategies to try, comma-separated. [default: all]"
    ),
    out: Path | None = flags.option(
        "Folder of the tuning; a tuning already there is continued. [default: "
        "./runs/<time>-<task>-<model>]"
    ),
    data_dir: Path | None = flags.DATA_DIR,
    cancel_batch: bool = flags.CANCEL_BATCH,
    dry_run: bool = flags.DRY_RUN,
    verbose: bool = flags.VERBOSE,
    as_json: bool = flags.JSON,
    **options: Any,
) -> None:
    """Find examples with which a model reaches a fairness target at the least loss of accuracy."""
    from fwc_llm.errors import FwcError, IncompleteRunError
    from fwc_llm.evaluation.tune import tune as run
    from fwc_llm.tasks import load_task

    models = flags.words(model) or (model,)
    if len(models) > 1:
        raise FwcError(f"--model {model}: tune takes one model")
    try:
        sizes = [int(size) for size in flags.words(m)]
    except ValueError:
        raise FwcError(f"--m is {m!r}: give whole numbers, comma-separated") from None
    settings = flags.read(Settings, options)
    client = flags.read(Client, options)
    with console.printing_aside():
        tuned = run(
            task
            if protected is None
            else load_task(task, data_dir, protected=protected),
            models[0],
            target_dp,
            max_loss,
            target=target,
            rows=rows,
            candidates=candidates,
            m=sizes or None,
            templates=flags.words(template) or None,
            orders=flags.words(order) or None,
            strategies=flags.words(strategy) or None,
            out=out,
            client=client,
            **settings.chosen,
            data_dir=data_dir,
            cancel_batch=cancel_batch,
            dry_run=dry_run,
            display=console.terminal,
        )
    if as_json:
        document = {
            "format": "fwc-llm-tune/1",
            "folder": str(tuned.folder),
            "verdict": tuned.verdict,
            "reached": tuned.reached,
            "template": tuned.template,
            "shots": None if tuned.shots is None else str(tuned.folder / "shots.json"),
            "tuning": tuned.tuning,
            "run": None if tuned.result is None else run_json(tuned.result),
        }
        flags.print_json(document)
    elif dry_run:
        console.lines(tuned.verdict)
    else:
        _report(tuned, verbose)
    if tuned.result is not None and tuned.result.unanswered:
        why = (
            tuned.result.data["stopped"]
            or f"{tuned.result.unanswered} questions have no reply"
        )
        where = in_shell(tuned.folder)
        raise IncompleteRunError(
            f"the test is not complete: {why}; the same command with --out {where} continues"
        )


def _report(tuned: "Tuned", verbose: bool) -> None:
    """Print the choice, the candidates and the test; `verbose` adds all statistics."""
    from fwc_llm.report.table_model import terminal
    from fwc_llm.report.terminal import answer, runs_table
    from fwc_llm.report.tuning import candidates

    console.lines(tuned.verdict)
    console.out.print(terminal(candidates(tuned.tuning, tuned.folder, verbose)))
    if tuned.result is not None:
        console.out.print(
            runs_table([tuned.result.run], verbose)
            if verbose
            else answer(tuned.result.run)
        )
    if tuned.shots is not None:
        if tuned.template == "default":
            wording = ""
        else:
            wording = f", for the template set {tuned.template}"
        console.notes(f"the examples are in {tuned.folder / 'shots.json'}{wording}")
        console.notes(f"see everything with: fwc-llm report {in_shell(tuned.folder)}")
