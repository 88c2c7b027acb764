"""What was measured about reliability: kept in one JSON file, shown on one page.

python -m evals.faults --record          # each of these records its result and writes the page
                                         again
python -m evals.fuzz --minutes 40 --record
python -m evals.fuzz --minutes 2 --guided --record
python -m evals.reliability              # the page alone
"""

import json
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from evals.record import RESULTS, markdown, write

_DATA = RESULTS / "reliability.json"


def record(name: str, content: dict[str, Any]) -> None:
    """Keep one command's result, with the command and the versions, and write the page.

    What an earlier command found about other things (`--target`) stays.
    """
    if _DATA.exists():
        found = json.loads(_DATA.read_text(encoding="utf-8"))
    else:
        found = {}
    command = " ".join(["python -m", f"evals.{Path(sys.argv[0]).stem}", *sys.argv[1:]])
    versions = {"python": platform.python_version()} | {
        each: version(each) for each in ("openai", "httpx2")
    }
    before = found.get(name, {})
    for key, value in content.items():
        if isinstance(value, dict):
            content[key] = before.get(key, {}) | value
    commands = [*(one for one in before.get("commands", []) if one != command), command]
    found[name] = {
        "date": time.strftime("%Y-%m-%d"),
        "commands": commands if "cases" in content else [command],
        "versions": versions,
        **content,
    }
    write("reliability", dict(sorted(found.items())), page(found))


def page(found: dict[str, Any]) -> str:
    """The page, from what is recorded."""
    text = _PROMISES.format(
        faults=_faults(found.get("faults")),
        harmless=f"{found['faults']['harmless']} passages | 0"
        if "faults" in found
        else "not recorded | ",
        fuzz=_fuzz(found.get("fuzz")),
    )
    tables = [_fuzz_table(found), _commands(found)]
    return "".join([text.rstrip(), "\n", *tables, _FOUND])


def _faults(found: dict[str, Any] | None) -> str:
    if not found:
        return "not recorded since the last change: `python -m evals.faults --record` | "
    return f"{found['faults']} faults, {found['passages']} passages | {found['wrong']}"


def _fuzz(found: dict[str, Any] | None) -> str:
    if found:
        return f"{sum(found['cases'].values()):,} cases | {sum(found['failures'].values())}"
    return "| "


def _fuzz_table(found: dict[str, Any]) -> str:
    random = found.get("fuzz")
    guided = found.get("guided", {"cases": {}})["cases"]
    if not random:
        return ""
    lines = [
        [name, f"{n:,}", f"{guided[name]:,}" if name in guided else "not recorded"]
        for name, n in random["cases"].items()
    ]
    return "\n## Fuzzing\n\n" + markdown(["input", "cases at random", "led by coverage"], lines)


def _commands(found: dict[str, Any]) -> str:
    lines = []
    for run in found.values():
        using = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
        lines.append([", ".join(f"`{command}`" for command in run["commands"]), run["date"], using])
    return "\n## What was run\n\n" + markdown(["command", "on", "with"], lines)


_PROMISES = (Path(__file__).parent / "reliability_promises.txt").read_text(encoding="utf-8")
_FOUND = (Path(__file__).parent / "reliability_found.txt").read_text(encoding="utf-8")

if __name__ == "__main__":
    known = json.loads(_DATA.read_text(encoding="utf-8"))
    write("reliability", known, page(known))
