"""`verify`: an untouched folder is the same everywhere; a changed number, cell or reply is
named.
"""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fwc_llm import evaluate, load_task
from fwc_llm.evaluation.verification import verify
from fwc_llm.models import Client, Messages
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.runs import batch as batch_module
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.journal import Journal
from fwc_llm.runs.recorded_run import score_run
from fwc_llm.runs.settings import Settings
from tests.command import Run, read_json
from tests.data.tables import cycled, write_csv, write_task
from tests.faults.batch_service import BatchService
from tests.faults.loopback import serve_in_thread
from tests.people import SMALL_CENSUS, make_people

PEOPLE = load_task(make_people(240, 2), protected="group", outcome="y")


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = Settings(n_test=24, m=4, counterfactual=True)
    out = tmp_path_factory.mktemp("verify") / "run"
    evaluate(PEOPLE, old, ["zero", "balanced"], settings=settings, out=out)
    return out


def old(messages: Messages) -> str:
    """An answer that depends on the row, whatever its group."""
    return ("no", "yes")["age: 5" in messages[-1]["content"]]


def with_status(
    folder: Path, status: str = "differs", task: Any = PEOPLE
) -> list[tuple[str, str]]:
    findings = verify(folder, task)["findings"]
    return [(one["file"], one["detail"]) for one in findings if one["status"] == status]


def change(path: Path, pattern: str, replacement: str) -> None:
    text = path.read_text()
    changed = re.sub(pattern, replacement, text, count=1)
    assert changed != text
    path.write_text(changed)


def test_an_untouched_run_is_the_same_elsewhere(
    untouched: Path, tmp_path: Path
) -> None:
    moved = shutil.copytree(untouched, tmp_path / "elsewhere")
    assert not with_status(moved)
    assert [file for file, _ in with_status(moved, "not checked")] == [
        "experiment.toml"
    ]
    names = sorted(path.name for path in untouched.iterdir())
    assert sorted(path.name for path in moved.iterdir()) == names
    (moved / "notes.txt").write_text("mine")
    assert ("notes.txt", "nothing else confirms its content") in with_status(
        moved, "not checked"
    )
    (moved / "prompts" / "zero.json").unlink()
    assert with_status(moved) == [("prompts/zero.json", "it is missing")]
    (moved / "journal.jsonl").unlink()
    assert any("journal.jsonl" in detail for _, detail in with_status(moved))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["assisted", "threshold", "batch"])
def test_every_kind_of_run_can_be_verified(
    how: str, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_module, "FIRST_POLL_SECONDS", 0.0)
    options: dict[str, Any] = {
        "assisted": {"assist": True, "probe": ["names"]},
        "threshold": {"threshold": "fit"},
        "batch": {},
    }[how]
    with serve_in_thread(
        BatchService(answer=lambda asked: Surrogate().reply(asked).text or "")
    ) as url:
        if how == "batch":
            client = Client(base_url=f"{url}/v1", batch=True)
        else:
            client = Client()
        model = "test-model" if how == "batch" else "surrogate"
        evaluate(
            SMALL_CENSUS,
            model,
            arms=["zero", "fwc"],
            n_test=32,
            m=4,
            out=out,
            client=client,
            **options,
        )
    assert with_status(out, task=SMALL_CENSUS) == []


CHANGES = {
    "journal.jsonl": (
        r'("prompt":\[\{"role":"user","content":")',
        r"\1Hint: yes. ",
        "its prompt is not",
    ),
    "questions.jsonl": ('"no"', '"yes"', "is recorded"),
    "answers.csv": (",yes,,", ",no,,", "is recorded"),
    "results.json": (r'"value": 0\.', '"value": 0.1', "is recorded"),
    "run.json": ('"seed": 0', '"seed": 1', "is recorded"),
    "prompts/zero.json": ("age", "name", "is recorded"),
    "shots/balanced-0.json": ('"label": "no"', '"label": "yes"', ""),
}


@pytest.mark.parametrize("file", CHANGES)
def test_a_change_is_named_by_its_file(untouched: Path, out: Path, file: str) -> None:
    folder = shutil.copytree(untouched, out)
    pattern, replacement, detail = CHANGES[file]
    change(folder / file, pattern, replacement)
    found = with_status(folder)
    if file == "run.json":
        assert any("line" in text for _, text in found), "another seed draws other rows"
    elif file == "shots/balanced-0.json":
        assert found
    else:
        assert any(name == file and re.search(detail, text) for name, text in found)


def test_an_audit_is_repeated_from_its_table(
    fwc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    p = [k / 10 for k in range(10)]
    frame = cycled(60, sex="fm", hired=["yes", "no", "no"], p=p)
    write_csv(Path("a.csv"), frame)
    line = "audit a.csv --answer hired --p-yes p --protected sex -o audit.json"
    fwc(f"{line} --report a.html --ll144 law.csv", code=0)
    fwc("verify", ".", code=0)
    Path("a.html").unlink()
    assert "Differences: 0" in fwc("verify", ".", code=0).out
    audit: dict[str, Any] = read_json(Path("audit.json"))
    ratio = next(
        r
        for r in audit["records"]
        if r["metric"] == "impact_ratio" and r["group"] == "f"
    )
    ratio["value"] = 0.99
    Path("audit.json").write_text(json.dumps(audit))
    assert ".value: 0.99 is recorded" in fwc("verify", ".", code=5).line
    Path("a.csv").rename("mine.csv")
    assert "a.csv is missing" in fwc("verify", ".", code=0).out
    fwc("verify", ".", "--data", "mine.csv", code=5)


def test_a_forged_table_is_found_by_the_checkers_own(fwc: Run, tmp_path: Path) -> None:
    """Whoever wrote the folder may have written all of it: task and table are the checker's."""
    answers = ["yes", "yes", "no", "no", "no"]
    frame = cycled(80, x=range(9), colour="rgb", sex="fm", y=answers)
    task = write_task(tmp_path, frame.to_csv(index=False))
    invented = tmp_path / "invented"
    invented.mkdir()
    shutil.copy(task, invented / task.name)
    (invented / "data.csv").write_text(
        re.sub("0,r,f,no", "0,r,f,yes", (tmp_path / "data.csv").read_text())
    )
    answer: Callable[..., str] = lambda messages: "Yes"  # noqa: E731
    evaluate(
        invented / task.name,
        answer,
        arms=["balanced"],
        n_test=12,
        m=4,
        out=tmp_path / "forged",
    )
    fwc("verify", tmp_path / "forged", code=0)
    fwc("verify", tmp_path / "forged", "--task", invented / task.name, code=0)
    assert (
        "not the table"
        in fwc("verify", tmp_path / "forged", "--task", task, code=5).line
    )


def test_a_function_that_a_folder_names_is_not_run(
    untouched: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(untouched, out)
    (folder / "its_strategy.py").write_text("raise SystemExit('it ran')\n")
    for name in (
        "run.json",
        "experiment.toml",
        "results.json",
        "journal.jsonl",
        "questions.jsonl",
        "answers.csv",
    ):
        path = folder / name
        path.write_text(path.read_text().replace("balanced", "its_strategy:choose"))
    monkeypatch.chdir(folder)
    details = [detail for _, detail in with_status(folder, "not checked")]
    assert (
        "arm 'its_strategy:choose' is a function, and what a folder names is not run"
        in details
    )


@pytest.mark.parametrize("written", ["answers.csv", "results.json"])
def test_a_rescore_that_is_stopped_is_no_forgery(
    written: str, untouched: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped when this file is written; run again, it leaves the folder as it would have
    been.
    """
    folder = shutil.copytree(untouched, out)
    described = read_json(folder / "run.json") | {"parser": 1}
    (folder / "run.json").write_text(json.dumps(described))
    replaced = os.replace

    def replace_or_stop(source: Path, target: Path) -> None:
        if target.name == written:
            raise KeyboardInterrupt
        replaced(source, target)

    with monkeypatch.context() as patched, Journal(folder) as journal:
        patched.setattr(os, "replace", replace_or_stop)
        with pytest.raises(KeyboardInterrupt):
            score_run(RunFolder(folder), journal)
    assert not with_status(folder)
    with Journal(folder) as journal:
        score_run(RunFolder(folder), journal)
    assert not with_status(folder)


def test_keys_that_are_missing_are_named_and_hide_no_changed_one(
    untouched: Path, tmp_path: Path
) -> None:
    """A run of another version describes itself by other keys; a forger may claim to be one."""
    forged = shutil.copytree(untouched, tmp_path / "forged")
    described = read_json(forged / "run.json")
    for name in list(described["settings"])[:15]:
        if name not in ("n_test", "m"):
            del described["settings"][name]
    described["population"][0]["yes"] += 1
    (forged / "run.json").write_text(json.dumps(described))
    assert [detail for file, detail in with_status(forged) if file == "run.json"]
    assert any(file == "run.json" for file, _ in with_status(forged, "not checked"))
