"""Ask a model the protocol, check a file that somebody hands in, make the page (evals/leaderboard/README.md).

python -m evals.leaderboard run --model gpt-6-luna --api decisions --dry-run
python -m evals.leaderboard run --model M [--api decisions] [--base-url URL]   # continues what it began
python -m evals.leaderboard check entry.json --runs runs/leaderboard/M
python -m evals.leaderboard build
"""

import argparse
import sys
from pathlib import Path

from evals.leaderboard.check import check
from evals.leaderboard.page import build
from evals.leaderboard.protocol import ROWS, TASKS
from evals.leaderboard.run import Asking
from fwc_llm.errors import FwcError
from fwc_llm.models import Client
from fwc_llm.runs.folder import file_name

HERE = Path(__file__).resolve().parent
CLIENT = {"base_url": str, "api_key_env": str, "concurrency": int, "max_cost": float, "prices": str}


def main(arguments: list[str] | None = None) -> int:
    """Run one of the three commands; exit codes are those of `fwc-llm`, 4 where a file lacks something."""
    parser = argparse.ArgumentParser(
        prog="python -m evals.leaderboard", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="ask a model, and write its file; options as of fwc-llm eval")
    run.add_argument("--model", required=True)
    run.add_argument("--api", default="chat", choices=("chat", "decisions", "systemone"))
    for name, kind in CLIENT.items():
        run.add_argument(f"--{name.replace('_', '-')}", type=kind)
    run.add_argument("--logprobs", action="store_true", help="ask a chat for P(yes), for its calibration")
    run.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS, help="others are missing")
    run.add_argument("--rows", type=int, default=ROWS, help="at most so many a run; fewer are partial")
    run.add_argument("--folder", type=Path, help="of the runs (default: runs/leaderboard/MODEL)")
    run.add_argument("--out", type=Path, help="the file (default: entry.json in that folder)")
    run.add_argument("--dry-run", action="store_true", help="print requests, tokens and cost, ask nothing")
    checks = commands.add_parser("check", help="make a file's numbers again from its runs")
    checks.add_argument("file", type=Path)
    checks.add_argument("--runs", type=Path, required=True, help="the folder of its runs")
    builds = commands.add_parser("build", help="make the page from all files")
    builds.add_argument("--entries", type=Path, default=HERE / "entries")
    builds.add_argument("--out", type=Path, default=HERE.parent / "results" / "leaderboard.md")
    asked = parser.parse_args(arguments)
    try:
        if asked.command == "build":
            build(asked.entries, asked.out)
            print(asked.out)
            return 0
        if asked.command == "check":
            lines = check(asked.file, asked.runs)
            print("\n".join(lines) or "every number is made again from replies to the protocol's questions")
            return 1 if lines else 0
        folder = asked.folder or Path("runs/leaderboard") / file_name(asked.model)
        chosen = {name: getattr(asked, name) for name in (*CLIENT, "logprobs")}
        client = Client(**{name: value for name, value in chosen.items() if value is not None})
        asking = Asking(asked.model, folder, asked.rows, asked.api, client, tuple(asked.tasks))
        if asked.dry_run:
            asking.forecast()
            return 0
        folder.mkdir(parents=True, exist_ok=True)
        return 4 if asking.ask(asked.out or folder / "entry.json")["missing"] else 0
    except FwcError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
