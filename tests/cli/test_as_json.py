"""`--json`: one document on standard output and nothing else, with the keys that docs/format.md
has.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fwc_llm import evaluate
from tests.cli.test_flags import commands
from tests.command import Run, read_json
from tests.data.tables import cycled, write_csv
from tests.people import make_people, write_people

PAGE = Path(__file__).resolve().parents[2] / "docs" / "format.md"
# They print no table: files, lines about their work, a server's address.
NO_TABLE = {"task freeze", "warm-up", "task init", "task copy", "template init"}
SMALL = "--task census --n-test 8 --m 4"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two arms and a threshold."""
    out = tmp_path_factory.mktemp("runs") / "one"
    evaluate(
        "census",
        "surrogate",
        ("zero", "balanced"),
        n_test=8,
        out=out,
        m=4,
        threshold=0.5,
    )
    return out


def documented() -> dict[str, tuple[str, set[str]]]:
    """The formats and keys of the page's table, by command."""
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| (.+) \|$", PAGE.read_text(), re.M)
    return {
        name: (kind, set(re.findall(r"`([a-z0-9_]+)`", keys.partition(":")[0])))
        for name, kind, keys in rows
    }


def test_every_command_with_a_table_has_it_and_is_on_the_page() -> None:
    having = {
        name
        for name, command in commands()
        if any("--json" in one.opts for one in command.params)
    }
    assert having == {name for name, _ in commands()} - NO_TABLE
    assert {name.partition(" --")[0] for name in documented()} == having - {"prompt"}


def lines(run: Path, tmp_path: Path) -> dict[str, str]:
    """A command line for every format of the page."""
    people = write_people(tmp_path / "people", make_people(400, 2))
    (tmp_path / "of_age.py").write_text(
        "def model(messages):\n    return 'yes' if 'age: 4' in str(messages[-1]) else 'no'\n"
    )
    csv = tmp_path / "said.csv"
    csv.write_text("said,was,sex\n" + "yes,yes,a\nno,yes,b\nyes,no,a\nno,no,b\n" * 10)
    keyed = tmp_path / "keyed.csv"
    write_csv(keyed, cycled(80, id=range(80), said=["yes"], sex="ab"))
    tune = "--target-dp 0.3 --rows 40 --n-test 40 --candidates 2 --strategy random"
    tune += f" --task {people} --model python:of_age:model --out {tmp_path / 'tuned'}"
    monitor = f"--answer said --protected sex --key id --state {tmp_path / 'state.db'}"
    new = tmp_path / "new"
    return {
        "eval": f"eval {SMALL} --shots zero --out {new} --fail-if 'dp_gap > 0.99'",
        "eval --dry-run": f"eval {SMALL} --shots zero --dry-run",
        "tune": f"tune {tune}",
        "rescore": f"rescore {run}",
        "verify": f"verify {run}",
        "gate": f"gate {run} --fail-if 'dp_gap > 0.1' --fail-if 'dp_gap[zero] > 0.1'",
        "monitor": f"monitor {keyed} {monitor} --fail-if 'dp_gap > 0.5'",
        "audit": f"audit {csv} --answer said --label was --protected sex",
        "compare": f"compare {run} {run}",
        "report": f"report {run}",
        "shots": "shots --task census --m 4 --strategy balanced",
        "shots --strategy A,B": "shots --task census --m 4 --strategy balanced,random",
        "power": "power --task census",
        "tasks": "tasks",
        "task check": "task check census",
    }


@pytest.mark.slow
def test_the_keys_are_those_of_the_page_and_nothing_else(
    fwc: Run, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    asked = lines(run, tmp_path)
    assert set(asked) == set(documented())
    found: dict[str, Any] = {}
    for name, line in asked.items():
        outcome = fwc(line, "--json")
        assert outcome.code in (
            {0, 5, 6} if "gate" in name or name == "eval" else {0}
        ), (name, outcome.err)
        found[name] = json.loads(outcome.out, parse_constant=pytest.fail)
        kind, keys = documented()[name]
        assert found[name]["format"] == kind
        assert (
            keys <= set(found[name])
            if name == "report"
            else keys == set(found[name]) - {"format"}
        ), name
    (one,) = found["eval"]["runs"]
    assert set(one) == {"folder", "results", "records", "statistics", "cost"}
    results = read_json(tmp_path / "new" / "results.json")
    assert one["results"] | {"records": one["records"]} == results
    # The second condition is one of the first's checks.
    assert [gate["condition"] for gate in found["gate"]["gates"]] == [
        "dp_gap[zero] > 0.1",
        "dp_gap[balanced] > 0.1",
    ]
    assert found["rescore"]["runs"][0]["results"]["threshold"] == 0.5


def test_a_closed_output_is_no_traceback(run: Path) -> None:
    gate = f"-m fwc_llm gate {run} --json --fail-if 'coverage > 1'"
    done = subprocess.run(
        f"{sys.executable} {gate} >&-",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_missing_replies_are_a_document(
    fwc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "silent.py").write_text(
        "def nothing(messages):\n    raise ValueError('no')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    asked = f"eval {SMALL} --model python:silent:nothing --shots zero --json --set no_watch=true --out"
    outcome = fwc(asked, tmp_path / "r", code=4)
    (one,) = outcome.json["runs"]
    assert one["statistics"] is None
    assert one["results"]["unanswered"] == 8


def test_an_arm_without_questions_is_named(fwc: Run, run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(run, tmp_path / "damaged")
    described = read_json(folder / "run.json")
    (folder / "run.json").write_text(
        json.dumps({**described, "arms": [*described["arms"], "ghost"]})
    )
    for command in ("rescore", "report"):
        assert "'ghost'" in fwc(command, folder, code=2).line


# --- --no-rows and --figures


BLOCK = '<script type="application/json">'


@pytest.mark.slow
def test_a_run_without_rows_has_none_in_any_report(fwc: Run, tmp_path: Path) -> None:
    def page(folder: Path, *options: str) -> str:
        fwc("report", folder, *options, code=0)
        return (folder / "report.html").read_text()

    without = tmp_path / "without"
    rows = tmp_path / "rows"
    asked = "eval --task census --model surrogate --shots zero --n-test 16 --out"
    fwc(asked, without, "--no-rows", code=0)
    assert tomllib.loads((without / "experiment.toml").read_text())["no-rows"] is True
    assert "script-src 'none'" in page(without)
    fwc(asked, rows, code=0)
    assert "no_rows" in fwc(asked, rows, "--no-rows", code=2).line  # begun with them
    assert page(rows).count(BLOCK) == 1
    assert "This page holds the rows themselves (16, with prompts)" in page(rows)
    for bare in (page(without), page(rows, "--no-rows")):
        assert BLOCK not in bare
        assert "holds the rows" not in bare


def test_an_audit_has_its_rows_once(
    fwc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    rows = "f,old,yes,no\nm,new,no,no\nm,new,yes,yes\nf,old,no,yes\n" * 20
    (tmp_path / "a.csv").write_text("sex,age,said,was\n" + rows)
    asked = f"audit {tmp_path / 'a.csv'} --answer said --label was --protected sex,age"
    figures = f"--report {tmp_path / 'a.html'} --figures {tmp_path / 'figures'}"
    done = fwc(f"{asked} {figures}", code=2)
    assert "pip install 'fwc-llm[plot]'" in done.err
    page = (tmp_path / "a.html").read_text()
    assert page.count(BLOCK) == 1  # not once for each attribute
    assert '"row 80"' in page
    assert "may be people’s records" in page
    assert fwc(asked, "--report", tmp_path / "b.html", "--no-rows").code == 0
    assert BLOCK not in (tmp_path / "b.html").read_text()
