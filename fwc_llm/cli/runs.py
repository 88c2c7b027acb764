"""`fwc-llm runs`: the runs of a folder."""

from pathlib import Path

from fwc_llm.cli.options import JSON, argument, print_json


def runs(
    folder: Path = argument(
        "The folder that holds runs, or folders of runs.", default=Path("runs"), metavar="DIR"
    ),
    as_json: bool = JSON,
) -> None:
    """List runs: task, model, arms, when they began, and whether they are complete."""
    from fwc_llm.cli import console
    from fwc_llm.runs.listing import list_runs

    listed = list_runs(folder)
    if as_json:
        print_json({"format": "fwc-llm-runs/1", "runs": [run.as_json() for run in listed]})
        return
    if not listed:
        console.err.print(f"{folder} holds no run", soft_wrap=True)
        return
    for run in listed:
        where = run.folder.relative_to(folder) if run.folder != folder else run.folder
        if run.problem:
            console.out.print(f"{where}: {run.problem}", soft_wrap=True, highlight=False)
            continue
        state = "complete" if run.complete else f"{run.answered:,} of {run.requests:,} answered"
        mark = ", simulated" if run.simulated else ""
        when = run.created[:16].replace("T", " ")
        console.out.print(f"{where}: {state}", style="bold", soft_wrap=True, highlight=False)
        console.out.print(
            f"  {run.task} · {run.model}{mark} · {', '.join(run.arms)} · {when}",
            soft_wrap=True,
            highlight=False,
        )
