"""What experiments and benchmarks share: the command line, the machine, tables, and the files of
a record.
"""

import argparse
import json
import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fwc_llm.coreset.threads import count_threads

RESULTS = Path(__file__).resolve().parent / "results"


def command_line(documentation: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of a module."""
    return argparse.ArgumentParser(
        description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def describe_machine(*packages: str) -> str:
    """Cores, processor, load (1: one busy process), and the versions of Python and the solver's
    packages.
    """
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        text = info.read_text(encoding="utf-8")
    else:
        text = ""
    for line in text.splitlines():
        if line.startswith("model name"):
            model = (
                f"{line[13:].strip()} with{'' if 'avx512f' in text else 'out'} AVX-512"
            )
    versions = [
        f"{name} {version(name)}"
        for name in packages or ("numpy", "numba", "scikit-learn")
    ]
    where = [f"{count_threads()} cores of {model}", f"load {os.getloadavg()[1]:.0f}"]
    return ", ".join([*where, f"Python {platform.python_version()}", *versions])


def markdown(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; the first column to the left, the others to the right."""
    rule = [":--", *["--:"] * (len(head) - 1)]
    rows = [head, rule, *([str(cell) for cell in line] for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def write(
    name: str, found: Any, page: str, folder: Path = RESULTS, indent: int | None = 1
) -> None:
    """Write the JSON file and the Markdown page of a record."""
    text = json.dumps(found, indent=indent, ensure_ascii=False) + "\n"
    (folder / f"{name}.json").write_text(text, encoding="utf-8")
    (folder / f"{name}.md").write_text(page, encoding="utf-8")
