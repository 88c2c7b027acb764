"""`action.yml`: its steps, run as the scripts that they are, beside a stand-in for GitHub's API."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from fwc_llm.gates import parse_condition
from tests.conftest import CHECKOUT
from tests.data.tables import cycled, write_csv
from tests.faults.loopback import HttpReply, HttpRequest, serve_in_thread

ACTION: dict[str, Any] = yaml.safe_load((CHECKOUT / "action.yml").read_text())
STEPS = {
    step["shell"]: step
    for step in ACTION["runs"]["steps"]
    if "INSTALL" not in step.get("env", {"INSTALL": 0})
}
TOKEN = "ghs_nobody-may-see-this"
KEY = "sk-nobody-may-see-this"


class GitHub:
    """Comments on pull request 7; `refusal` answers writers, as 403 does those of a fork."""

    def __init__(self) -> None:
        self.url, self.refusal = "", HttpReply({})
        self.comments: list[dict[str, Any]] = []
        self.asked: list[str] = []

    def __call__(self, request: HttpRequest) -> HttpReply:
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        self.asked.append(f"{request.method} {request.path.split('?')[0]}")
        if request.method == "GET":
            return HttpReply(self.comments)
        if self.refusal.status != 200:
            return self.refusal
        if request.method == "POST":
            self.comments.append({"id": len(self.comments), "user": {"type": "Bot"}})
        if request.method == "POST":
            number = -1
        else:
            number = int(request.path.rpartition("/")[2])
        self.comments[number]["body"] = request.json()["body"]
        return HttpReply({})


@pytest.fixture
def github() -> Iterator[GitHub]:
    server = GitHub()
    with serve_in_thread(server) as server.url:
        yield server


FILES = ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")


def install(folder: Path) -> Path:
    """The folder of `fwc-llm`, as a console script, and of the Python that runs it."""
    folder.mkdir(exist_ok=True)
    command = folder / "fwc-llm"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m fwc_llm "$@"\n')
    command.chmod(0o755)
    (folder / "python").unlink(missing_ok=True)
    (folder / "python").symlink_to(sys.executable)
    return folder


def run(
    folder: Path, github: GitHub, leg: int = 0, **inputs: str
) -> tuple[int, str, dict[str, str]]:
    """The steps of a use after the installation: the exit code, all that was printed, and the
    files.
    """
    values = {
        "github.server_url": "https://github.com",
        "github.repository": "a/b",
        "github.run_id": "1",
        "github.event.pull_request.number": "7",
        "strategy.job-index": str(leg),
    }
    for name, about in ACTION["inputs"].items():
        given = inputs.get(name.replace("-", "_"), about.get("default", ""))
        values[f"inputs.{name}"] = str(given)
    values["inputs.token"] = TOKEN
    temporary = folder / "temp"
    temporary.mkdir(exist_ok=True)
    files = {name: folder / name for name in FILES}
    for path in files.values():
        path.write_text("")
    job = {
        **os.environ,
        **{name: str(path) for name, path in files.items()},
        "RUNNER_TEMP": str(temporary),
        "GITHUB_REPOSITORY": "a/b",
        "GITHUB_API_URL": github.url,
        "GITHUB_WORKFLOW": "audit",
        "GITHUB_JOB": "gates",
        "OPENAI_API_KEY": KEY,
        "PATH": f"{install(folder / 'bin')}:{os.environ['PATH']}",
        "PYTHONPATH": str(CHECKOUT),
        "COLUMNS": "120",
    }
    codes = []
    printed = ""
    script = temporary / "step.py"
    for shell, step in STEPS.items():
        of_step = {
            name: re.sub(r"\$\{\{ (.*?) \}\}", lambda match: values[match[1]], text)
            for name, text in step["env"].items()
        }
        script.write_text(step["run"])
        words = shell.replace("{0}", str(script)).split()
        if shell == "bash":  # as GitHub runs it; the other is a shell of one's own
            words = f"bash --noprofile --norc -eo pipefail {script}".split()
        done = subprocess.run(
            words,
            cwd=folder,
            env=job | of_step,
            capture_output=True,
            text=True,
            check=False,
        )
        for line in files["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, value = line.partition("=")
            values[f"steps.measure.outputs.{name}"] = value
        codes.append(done.returncode)
        printed += done.stdout + done.stderr
    written = {name: path.read_text() for name, path in files.items()}
    for text in (printed, *written.values()):
        assert TOKEN not in text
        assert KEY not in text
    return max(codes), printed, written


AUDIT = "decisions.csv\n--protected=sex\n--answer=answer\n"


def audit(
    folder: Path, github: GitHub, **inputs: Any
) -> tuple[int, str, dict[str, str]]:
    """Women are selected half as often; a name of a group that is Markdown, and calls somebody."""
    said = ["yes", "yes", "no", "no", "yes", "no", "no", "no"]
    frame = cycled(400, sex=["@octocat|*m*", "w"], answer=said)
    write_csv(folder / "decisions.csv", frame)
    return run(folder, github, **{"command": "audit", "arguments": AUDIT, **inputs})


@pytest.mark.parametrize(
    ("condition", "undecided", "outcome", "code"),
    [
        ("dp_gap > 0.01", "fail", "outside", 5),
        ("dp_gap > 0.25", "pass", "cannot say", 0),
    ],
)
def test_three_outcomes(
    tmp_path: Path,
    github: GitHub,
    condition: str,
    undecided: str,
    outcome: str,
    code: int,
) -> None:
    done, printed, written = audit(
        tmp_path, github, fail_if=condition, undecided=undecided
    )
    assert done == code, printed
    assert f"outcome={outcome}" in written["GITHUB_OUTPUT"].splitlines()
    assert ("::warning::" in printed) == (outcome == "cannot say")
    (comment,) = github.comments
    assert comment["body"] == written["GITHUB_STEP_SUMMARY"]
    assert len(comment["body"].splitlines()) <= 60
    link = f"fwc-llm: {outcome} ([the run](https://github.com/a/b/actions/runs/1))"
    assert not [
        word
        for word in (link, f"    {outcome}  ", "a gap of")
        if word not in comment["body"]
    ]
    report = "\n".join(
        line for line in comment["body"].splitlines() if not line.startswith("    ")
    )
    assert "@octocat" not in report
    assert "|*m*" not in report


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (403, "::notice::no comment: the token may not write here (403)"),  # of a fork
        (None, "::warning::no comment: "),  # no network
    ],
)
def test_a_comment_that_cannot_be_written_ends_nothing(
    tmp_path: Path, github: GitHub, refusal: int | None, said: str
) -> None:
    if refusal is None:
        github.url = "http://127.0.0.1:9"
    else:
        github.refusal = HttpReply({"message": "Resource not accessible"}, refusal)
    code, printed, written = audit(tmp_path, github, fail_if="dp_gap > 0.01")
    assert code == 5, printed
    assert said in printed
    assert "Traceback" not in printed
    assert "a gap of" in written["GITHUB_STEP_SUMMARY"]


def test_uses_of_a_job_and_of_a_matrix_share_nothing(
    tmp_path: Path, github: GitHub
) -> None:
    """Each has its folder and its comment; one that fails shows its own error and nobody's
    numbers.
    """
    wrong = AUDIT.replace("answer\n", "decision\n")
    assert audit(tmp_path, github, name="all people")[0] == 0
    code, printed, written = audit(tmp_path, github, arguments=wrong)
    assert code == 2, printed
    assert "no column 'decision'" in written["GITHUB_STEP_SUMMARY"]
    assert "a gap of" not in written["GITHUB_STEP_SUMMARY"]
    entry = AUDIT.replace("sex", "sex\n--missing=drop")  # of a matrix
    assert audit(tmp_path, github, arguments=entry, fail_if="dp_gap > 0.9")[0] == 0
    assert (
        audit(tmp_path, github, name="all people", leg=1)[0] == 0
    )  # of another version of Python
    bodies = [comment["body"] for comment in github.comments]
    assert len({body.partition("\n")[0] for body in bodies}) == len(bodies) == 4
    assert [body.partition("(")[0].split("## ")[1] for body in bodies] == [
        "fwc-llm all people: within ",
        "fwc-llm: error ",
        "fwc-llm: within ",
        "fwc-llm all people: within ",
    ]
    assert len(list((tmp_path / "temp").glob("fwc-llm.*"))) == 4
    github.comments.insert(
        0, {"id": 0, "user": {"type": "User"}, "body": bodies[0]}
    )  # a person quotes it
    for number, comment in enumerate(github.comments):
        comment["id"] = number
    audit(tmp_path, github, name="all people", fail_if="dp_gap > 0.01")  # another push
    assert [line.split()[0] for line in github.asked[-4:]] == [
        *("GET", "POST"),
        *("GET", "PATCH"),
    ]
    assert "outside" in github.comments.pop(1)["body"]
    assert [comment["body"] for comment in github.comments] == bodies, (
        "the person's and all others as they were"
    )


def test_inputs_are_data(tmp_path: Path, github: GitHub) -> None:
    """No input is part of a script, whatever it holds; what cannot be run ends as an error."""
    assert not [
        step for step in ACTION["runs"]["steps"] if "${{" in step.get("run", "")
    ]
    evil = '$(touch pwned)\n`touch pwned`\n"; touch pwned; "'
    for inputs in (
        {"arguments": evil},
        {"arguments": AUDIT, "fail_if": evil},
        {"undecided": evil},
        {"command": evil},
    ):
        code, printed, _ = audit(tmp_path, github, **inputs)
        assert code == 2, printed
        assert "Traceback" not in printed
    assert not list(tmp_path.rglob("pwned"))


def test_the_page_gives_the_action_what_it_takes_and_its_conditions_can_be_read() -> (
    None
):
    page = (CHECKOUT / "docs" / "gates.md").read_text()
    workflow = yaml.safe_load(re.findall(r"^```yaml\n(.*?)^```", page, re.S | re.M)[0])
    step = workflow["jobs"]["gate"]["steps"][1]
    assert step["uses"].startswith("fwc-llm/")
    assert set(step["with"]) <= set(ACTION["inputs"])
    conditions = [
        *re.findall(r'--fail-if "([^"]+)"', page),
        *step["with"]["fail-if"].splitlines(),
    ]
    assert len(conditions) >= 6
    for condition in conditions:
        parse_condition(condition)


@pytest.mark.slow
def test_a_run_on_the_pull_request(tmp_path: Path, github: GitHub) -> None:
    small = "--task=census\n--n-test=60\n--shots=zero"
    code, printed, _ = run(tmp_path, github, arguments=small, fail_if="dp_gap > 0.9")
    assert code == 0, printed
    (comment,) = github.comments
    assert "**Simulated: nothing here" in comment["body"]
