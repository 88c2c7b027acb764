"""What runs the snippets of pages in one process; tests/test_snippets.py writes them to its
input as JSON.

Every page has a folder, a namespace and a list of steps of its own: a kind (python, console or
shell), the code or the command, and, for a command, the lines that it must print and its exit code.
"""

import contextlib
import inspect
import io
import json
import os
import runpy
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from fwc_llm.data import census


def call_tests(names: dict[str, Any]) -> None:
    """Call what a block defines as tests, with the fixtures that they name."""
    import fwc_llm.testing

    for name in [name for name in names if name.startswith("test_")]:
        function = names.pop(name)
        wanted = inspect.signature(function).parameters
        with contextlib.ExitStack() as stack:
            given: dict[str, Any] = (
                {"tmp_path": Path.cwd()} if "tmp_path" in wanted else {}
            )
            if "fwc_openai" in wanted:
                given["fwc_openai"] = stack.enter_context(fwc_llm.testing.answers())
            function(**given)


def run_command(command: str, lines: list[str], code: int) -> str:
    """Run a module as its command line would, and look for the lines in what it prints; returns
    what standard output had.
    """
    module, *sys.argv[1:] = shlex.split(command, comments=True)
    printed, told = io.StringIO(), io.StringIO()
    ended: Any = 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            ended = end.code or 0
    said = " ".join((printed.getvalue() + told.getvalue()).split())
    assert ended == code, f"{command} ends with {ended}: {said}"
    for line in lines:
        assert " ".join(line.split()) in said, (
            f"{command} does not print {line!r} but {said}"
        )
    return printed.getvalue()


def main() -> None:
    """Run the steps of all pages, and keep what their commands print as `said.json`; the simulated
    tables are drawn once.
    """
    census.simulate = cache(census.simulate)
    for page, folder, steps in json.load(sys.stdin):
        os.chdir(folder)
        names: dict[str, Any] = {"__name__": "__main__"}
        said: dict[str, str] = {}
        for kind, text, lines, code in steps:
            print(f"{page}:\n{text}", file=sys.stderr)
            if kind == "python":
                exec(compile(text, page, "exec"), names)
                call_tests(names)
            elif kind == "shell":
                subprocess.run(["sh", "-c", text], check=True)
            else:
                said[text] = run_command(text, lines, code)
        Path("said.json").write_text(json.dumps(said))


if __name__ == "__main__":
    sys.path[0] = ""  # modules of a page are found in its own folder
    main()
