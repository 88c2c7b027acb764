"""`fwc-llm runs`: list the runs of a folder."""

from pathlib import Path

from fwc_llm.cli.flags import JSON, argument, command, print_json


@command("runs")
def runs(
    folder: Path = argument("Folder with runs at any depth.", default=Path("runs"), metavar="DIR"),
    as_json: bool = JSON,
) -> None:
    """List runs with task, model, arms, start time and completeness."""
    from fwc_llm.cli import console
    from fwc_llm.runs.listing import list_runs

    listed = list_runs(folder)
    if as_json:
        print_json({"format": "fwc-llm-runs/1", "runs": listed})
        return
    if not listed:
        console.notes(f"{folder} holds no run")
    for run in listed:
        path = Path(run["folder"])
        where = path.relative_to(folder) if path != folder else path
        state = "complete" if run["complete"] else f"{run['answered']:,} of {run['requests']:,} answered"
        mark = ", simulated" if run["simulated"] else ""
        when = run["created"][:16].replace("T", " ")
        console.lines(f"{where}: {run['problem'] or state}", style="" if run["problem"] else "bold")
        if not run["problem"]:
            console.lines(f"  {run['task']} · {run['model']}{mark} · {', '.join(run['arms'])} · {when}")
