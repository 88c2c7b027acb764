"""Every block of code on every page is tried: Python runs, console blocks run, other commands
are parsed.
"""

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fwc_llm
from evals import demonstration
from fwc_llm.cli.program import every_command
from fwc_llm.runs.recorded_run import read_run
from tests import snippets
from tests.command import python, read_json
from tests.test_docs import CHECKOUT, FENCE, PAGES, name
from tests.test_types import check_errors, write_calls

# What a page's first block is given where it speaks of something of the reader's.
GIVEN = {
    "README.md": "import numpy as np\n"
    "rng = np.random.default_rng(0)\n"
    "sensitive = rng.integers(0, 2, 600)\n"
    "X, y = rng.normal(size=(600, 3)), rng.integers(0, 2, 600)\n",
    "docs/statistics.md": "import pandas as pd\n"
    "sexes, answers = ['f', 'm'] * 60, ['yes', 'yes', 'no', 'no'] * 30\n"
    "frame = pd.DataFrame({'sex': sexes, 'race': ['a', 'a', 'b'] * 40, 'hired': answers,"
    " 'person': range(120)})\n",
    "docs/in-your-application.md": "from evals.examples.desk.app import decide\n"
    "from evals.examples.desk.client import PERSON\n",
}
# What cannot run alone, by a word of the block, and what runs it.
NOT_ALONE = {
    "import_log(": "needs a log of Inspect; tests/inspect/test_log.py makes one",
    "print(shots.certificate)": "tests/test_in_a_notebook.py",
    'Client("tcp://scheduler': "needs a cluster; tests/coreset/out_of_core/test_dask.py starts one",
    "time.perf_counter()": "a measurement",
    "json_normalize": "results of another tool; tests/report/test_external_results.py has a file "
    "of them",
    "json=recorded": "the reader's own recording; tests/models use the mocker",
    'tune("adult", "MODEL"': "asks a model of the reader's; tests/evaluation/test_tune.py asks "
    "others",
}


def steps(page: Path, folder: Path) -> Iterator[tuple[str, str, list[str], int]]:
    """The steps of a page; blocks that name a file are written into the folder."""
    if name(page) in GIVEN:
        yield "python", GIVEN[name(page)], [], 0
    text = page.read_text()
    if page != demonstration.PAGES[0]:  # where it runs; others show the same
        text = demonstration.BLOCK.sub("", text)
    for block in FENCE.finditer(text):
        kind = block["kind"]
        body = block["body"]
        if file := re.match(r"(?:# |\{# )file: (\S+)", body):
            path = folder / file[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body)
        elif kind == "python":
            compile(body, name(page), "exec")
            if not any(word in body for word in NOT_ALONE):
                yield kind, body, [], 0
        elif kind == "console":
            yield from commands(body)


OF_THE_READER = (
    "import instructor",
    "json=recorded",
)  # blocks with names that no page defines
# In the files: an option of the command line would check the package anew.
UNTYPED = (
    "# mypy: allow-untyped-defs, allow-untyped-calls, allow-redefinition\n"
    '# mypy: disable-error-code="no-redef, import-not-found, misc"\n'
)


@pytest.mark.slow
def test_a_type_checker_passes_all_pages_and_knows_every_type(tmp_path: Path) -> None:
    """All of it but type hints, which snippets go without; a page is one module."""
    for number, page in enumerate(PAGES):
        blocks = [
            found["body"]
            for found in FENCE.finditer(page.read_text())
            if found["kind"] == "python"
        ]
        blocks = [
            body for body in blocks if not any(word in body for word in OF_THE_READER)
        ]
        text = "\n".join([UNTYPED, GIVEN.get(name(page), ""), *blocks])
        (tmp_path / f"{page.stem.replace('-', '_')}_{number}.py").write_text(text)
    revealed = "".join(f"reveal_type(fwc_llm.{name})\n" for name in fwc_llm.__all__)
    (tmp_path / "use.py").write_text(f"import fwc_llm\n{revealed}")
    write_calls(tmp_path)
    done = python("-m", "mypy", *tmp_path.glob("*.py"), cwd=CHECKOUT, check=False)
    types = re.findall(r"use\.py:\d+: note: Revealed type .*", done.stdout)
    assert len(types) == len(fwc_llm.__all__), done.stdout
    assert not [line for line in types if re.search(r'(is "|-> )Any"', line)]
    check_errors(done.stdout)


def commands(body: str) -> Iterator[tuple[str, str, list[str], int]]:
    """The commands of a console block, with the lines below each and its exit code."""
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        if command.startswith(("cat ", "sed ")):
            yield "shell", command, [], 0
            continue
        module = re.sub(r"^fwc-llm\b", "fwc_llm", command.removeprefix("python -m "))
        assert module != command, f"cannot be tried: {command}"
        code = re.search(r"# exit code (\d+)$", command)
        lines = [line for line in shown.splitlines() if line.strip() not in {"", "…"}]
        yield "console", module, lines, int(code[1]) if code else 0


@pytest.mark.slow
def test_the_snippets_of_all_pages_run_in_order(tmp_path: Path) -> None:
    work: list[Any] = []
    for number, page in enumerate(PAGES):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = list(steps(page, folder))
        if found:
            work.append((name(page), str(folder), found))
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "COLUMNS": "110"}
    done = python(
        snippets.__file__, input=json.dumps(work), env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    made = {page: Path(folder) for page, folder, _ in work}
    assert {"README.md", "docs/choosing.md"} <= set(made)
    assert (made["CONTRIBUTING.md"] / "short-wording" / "results.json").is_file()
    assert (made["docs/providers.md"] / "rule-5" / "results.json").is_file()
    assert (made["docs/start.md"] / "real" / "report.html").is_file()
    gates = made["evals/walks/own-table.md"] / "gates.xml"
    assert 'failures="1"' in gates.read_text()
    check_demonstration(made["docs/start.md"])


def check_demonstration(folder: Path) -> None:
    """Pages, pictures and words show the runs, which tell arms apart to five points."""
    said = read_json(folder / "said.json")
    shown = {
        run: said[command.replace("-", "_", 1)]
        for run, command in demonstration.COMMANDS.items()
    }
    assert "SIMULATED" in shown["simulated"]
    assert "experiment.toml --model gpt-6-luna --dry-run" in shown["simulated"]
    assert "SIMULATED" not in shown["recorded"]
    assert "replayed" in shown["recorded"].splitlines()[0]
    parts = {run: demonstration.parts_of(text) for run, text in shown.items()}
    words = " ".join(text for each in parts.values() for text in each.values())
    for page in demonstration.PAGES:
        text = page.read_text()
        assert "<!-- simulated: " in text
        assert text == demonstration.written(text, parts), (
            f"{page.name}: run python -m evals.demonstration"
        )
        for number in re.findall(r"\b0\.\d{3}\b", text):
            assert number in words, (page.name, number)
    for run, picture in demonstration.PICTURES.items():
        assert demonstration.picture_says(picture) == parts[run]["results"] > ""
    demonstrated = read_run(folder / "demo")
    assert demonstrated.simulated
    assert list(demonstrated.arms) == ["zero", "balanced", "fwc"]
    for record in demonstrated.statistics.records:
        if record.metric == "dp_gap_difference" and record.against == "zero":
            assert (record.high - record.low) / 2 < 0.055
            assert record.value == 0 or record.verdict == "differs"


def written(page: Path) -> Iterator[str]:
    """What follows `fwc-llm` in the blocks of a page, a command each."""
    for block in FENCE.finditer(page.read_text()):
        if block["kind"] == "python":
            continue
        for line in re.sub(r"\s*\\?\n\s*(?=--)", " ", block["body"]).splitlines():
            found = re.search(r"(?:^|[\s/])fwc-llm (?P<rest>[a-z-].*)", line)
            if found:
                yield re.split(r" && | \| |; ", found["rest"])[0]


def parse(words: list[str]) -> None:
    """Read a command line as the program does, without running it."""
    command: Any = every_command()
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context("fwc-llm", words)


def test_every_command_on_a_page_can_be_read() -> None:
    for page, line in ((here, line) for here in PAGES for line in written(here)):
        words = shlex.split(line, comments=True)
        try:
            parse(words)
        except Exception as error:
            pytest.fail(f"{name(page)}: fwc-llm {line}: {error!r}")
