"""`verify`: an untouched folder is the same everywhere; a changed number, cell or reply is named."""

import csv
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fwc_llm import FwcError, evaluate, load_task
from fwc_llm.models import Client
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.report.evidence_bundle import CARD, write_bundle
from fwc_llm.report.formats import render
from fwc_llm.report.verification import Checker, verify
from fwc_llm.runs import batch as batch_module
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.journal import Journal
from fwc_llm.runs.recorded_run import score_run
from fwc_llm.sanitize import parse_json
from tests.command import Run
from tests.data.tables import write_task
from tests.faults.batch_service import BatchService
from tests.faults.loopback import serve_in_thread


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose folder has a page, too."""
    out = tmp_path_factory.mktemp("verify") / "run"
    evaluate("census", "surrogate", arms=["zero", "balanced"], n_test=24, m=4, counterfactual=True, out=out)
    (out / "report.html").write_text(render([out]), encoding="utf-8")
    (out / "report.json").write_text(render([out], "json"), encoding="utf-8")
    RunFolder(out).write_hashes("report.html", "report.json")
    return out


def differing(folder: Path, status: str = "differs") -> list[tuple[str, str]]:
    found = verify(folder)["findings"]
    return [(one["file"], one["detail"]) for one in found if one["status"] == status]


def prompt(text: str) -> str:
    return re.sub(r"(\"prompt\":\[\{\"role\":\"user\",\"content\":\")", r"\1Hint: yes. ", text, count=1)


def label(text: str) -> str:
    return text.replace('"no"', '"yes"', 1)


def report(text: str) -> str:
    content = json.loads(text)
    content["runs"][0]["statistics"]["arms"][0]["accuracy"]["value"] += 0.01
    return json.dumps(content)


CHANGES: list[tuple[str, Callable[[str], str], str]] = [
    (
        "report.json",
        report,
        r"^statistics\.arms\[zero\]\.accuracy\.value: 0\.\d+ is recorded, 0\.\d+ is recomputed",
    ),
    ("journal.jsonl", prompt, r"line 2 \(arm zero, .*\): the prompt, the model or its param"),
    ("questions.jsonl", label, r"line \d+, label: 'yes' is recorded, 'no' is recomputed"),
    ("report.html", lambda text: text.replace("%", "‰", 1), r"its sha256 is \w{64}, but \w{64} is recorded"),
]


def change(path: Path, by: Callable[[str], str]) -> None:
    path.write_text(by(path.read_text()))


def test_an_untouched_run_is_the_same_with_and_without_its_table(untouched: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(untouched, tmp_path / "elsewhere")
    found = verify(moved)
    assert (found["differs"], found["not_verified"]) == (0, 0), found
    assert sorted(path.name for path in moved.iterdir()) == sorted(path.name for path in untouched.iterdir())
    (moved / "journal.jsonl").unlink()
    RunFolder(moved).write_hashes()
    lacking = dict(differing(moved, "not verified"))
    assert "cannot be recomputed" in lacking["results.json"]


def test_answers_of_an_older_parser_stay_until_the_run_is_scored_anew(
    untouched: Path, tmp_path: Path
) -> None:
    old = shutil.copytree(untouched, tmp_path / "run")
    described = parse_json((old / "run.json").read_text())
    del described["parser"], described["words"]
    (old / "run.json").write_text(json.dumps(described))
    for name in ("journal.jsonl", "answers.csv"):  # the old one found no answer in a single of all replies
        text = (old / name).read_text()
        text = text.replace('"parser":2,', "").replace('"answer":"yes"', '"answer":null', 1)
        change(old / name, lambda _, text=text: re.sub(",yes,,", ",,other,", text, count=1))  # type: ignore[misc]
    with Journal(old) as journal:
        score_run(RunFolder(old), journal, None, load_task("census"), parse=False)
    for name in ("report.json", "report.html", "hashes.json"):
        (old / name).unlink()
    before = (old / "answers.csv").read_text()
    RunFolder(old).write_hashes()
    found = verify(old)
    assert (found["differs"], found["not_verified"]) == (0, 1), found
    (lacking,) = (one for one in found["findings"] if one["status"] == "not verified")
    assert (lacking["file"], "parser" in lacking["detail"]) == ("answers.csv", True)
    render([old], "md", None, None)
    assert (old / "answers.csv").read_text() == before
    with Journal(old) as journal:
        scored = score_run(RunFolder(old), journal, None, load_task("census"))
    assert sum(scored["reparsed"].values()) == 1
    assert (old / "answers.csv").read_text() == (untouched / "answers.csv").read_text()
    found = verify(old)
    assert (found["differs"], found["not_verified"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["assisted", "threshold", "batch"])
def test_every_kind_of_run_can_be_verified(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "FIRST_POLL_SECONDS", 0.0)
    options: dict[str, Any] = {
        "assisted": {"assist": True, "probe": ["names"]},
        "threshold": {"threshold": "fit"},
        "batch": {},
    }[how]
    out, arms = tmp_path / "run", ["zero", "fwc"]
    with serve_in_thread(BatchService(answer=lambda asked: Surrogate().reply(asked).text or "")) as url:
        client = Client(base_url=f"{url}/v1", batch=True) if how == "batch" else Client()
        model = "test-model" if how == "batch" else "surrogate"
        evaluate("adult", model, arms=arms, n_test=32, m=4, out=out, client=client, **options)
    content = verify(out)
    assert (content["differs"], content["not_verified"]) == (0, 0), content
    (out / "results.json").unlink()
    content = verify(out)
    assert "results.json is missing" in str(content["findings"])


@pytest.mark.parametrize(("file", "by", "detail"), CHANGES, ids=lambda value: str(value)[:20])
def test_a_change_is_named_by_file_and_number(
    untouched: Path, tmp_path: Path, file: str, by: Callable[[str], str], detail: str
) -> None:
    folder = shutil.copytree(untouched, tmp_path / "run")
    change(folder / file, by)
    if file.endswith("l") and file != "report.html":  # pages take their time
        (folder / "report.html").unlink()
        (folder / "report.json").unlink()
    if file != "report.html":  # also where whoever changed it writes the hashes anew
        RunFolder(folder).write_hashes()
        RunFolder(folder).write_hashes(*(["report.json"] if file == "report.json" else []))
    assert any(name == file and re.search(detail, text) for name, text in differing(folder))


def test_a_bundle_can_be_verified_and_without_rows_holds_no_cell(tmp_path: Path) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator  # two seconds, in every process of the suite

    names = [f"Zq{k:03d}xyName" for k in range(80)]
    lines = [f"{k},{name},{'fm'[k % 2]},{('no', 'yes')[k % 3 == 0]}" for k, name in enumerate(names)]
    table = "\n".join(["x,colour,sex,y", *lines]) + "\n"
    task = write_task(tmp_path, table, protected='[about]\nintended_use = "To try it."')

    def answer(messages: list[dict[str, str]]) -> str:
        person = re.findall(r"Zq\d+xyName", messages[-1]["content"])[-1]
        if person.endswith("7xyName"):
            raise ValueError(f"no answer about {person}")  # a service's words may quote the prompt
        return f"Yes. {person} is fit."

    run = tmp_path / "run"
    evaluate(task, answer, arms=["zero", "balanced"], n_test=20, m=4, out=run)
    for with_rows in (True, False):
        path, folder = tmp_path / f"{with_rows}.zip", tmp_path / str(with_rows)
        write_bundle(run, path, with_rows)
        zipfile.ZipFile(path).extractall(folder)
        card = (folder / CARD).read_text(encoding="utf-8")
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(card) is None
        assert json.loads(card)["components"][0]["modelCard"]["considerations"]["fairnessAssessments"]
        assert differing(folder) == []
        text = "".join(each.read_text(encoding="utf-8") for each in folder.rglob("*") if each.is_file())
        assert ("xyName" in text) == with_rows
        assert ("data.csv:" in text) == with_rows, "row ids"
    planted, pipe = tmp_path / f"True.zip.{os.getpid()}.partial", tmp_path / "pipe"
    planted.symlink_to(tmp_path / "precious")
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as reader:  # a pipe is written through, a planted link is not
        read = reader.submit(pipe.read_bytes)
        assert write_bundle(run, pipe) == write_bundle(run, tmp_path / "True.zip")
    assert read.result() == (tmp_path / "True.zip").read_bytes()
    assert pipe.is_fifo()
    assert not (tmp_path / "precious").exists()
    change(run / "questions.jsonl", label)
    with pytest.raises(FwcError, match=r"questions.jsonl was changed since the run was scored"):
        write_bundle(run, tmp_path / "changed.zip")


def test_an_audit_is_made_again_from_its_table(
    fwc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{'fm'[k % 2]},{('no', 'yes')[k % 3 == 0]},0.{k % 10}" for k in range(60)]
    Path("a.csv").write_text("\n".join(["sex,hired,p", *lines]) + "\n")

    asked = ("audit", "a.csv", "--answer", "hired", "--p-yes", "p", "--protected", "sex", "-o", "audit.json")
    assert fwc(*asked).code == 0
    assert fwc("verify", ".").code == 0
    audit: dict[str, Any] = json.loads(Path("audit.json").read_text())
    audit["audit"]["attributes"][0]["arms"][0]["groups"]["f"]["impact_ratio"] = 0.99
    Path("audit.json").write_text(json.dumps(audit))
    assert fwc("verify", ".").code == 5
    ((file, detail),) = differing(tmp_path)
    assert (file, "groups.f.impact_ratio: 0.99 is recorded" in detail) == ("audit.json", True)
    Path("a.csv").unlink()
    assert {one["status"] for one in verify(tmp_path)["findings"]} == {"not verified", "stated"}


# --- Whoever wrote the folder may have written all of it


@pytest.fixture(scope="module")
def own_task(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A task file with its table, and a run about it, which has a page."""
    folder = tmp_path_factory.mktemp("own")
    lines = [f"{k % 9},{'rgb'[k % 3]},{'fm'[k % 2]},{('no', 'yes')[k % 5 < 2]}" for k in range(80)]
    task = write_task(folder, "\n".join(["x,colour,sex,y", *lines]) + "\n")

    def answer(messages: list[dict[str, str]]) -> str:
        return "Yes" if "x: 3" in messages[-1]["content"] or "colour: r" in messages[-1]["content"] else "No"

    evaluate(task, answer, arms=["balanced"], n_test=12, m=4, out=folder / "run")
    (folder / "run" / "report.html").write_text(render([folder / "run"]), encoding="utf-8")
    return Path(task), folder / "run"


def altered(value: Any) -> Any:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}x"
        case [first, *others]:
            return [altered(first), *others]
        case dict() if value:
            key = next(iter(value))
            return value | {key: altered(value[key])}
    return "x"


def altered_at(content: dict[str, Any], key: str) -> dict[str, Any]:
    return content | {key: altered(content[key])}


def alterations(run: Path) -> Iterator[tuple[str, str, str]]:
    """A file, a field in it, and the file's text with another value there."""
    for name in ("run.json", "results.json", "shots/balanced-0.json"):
        content = json.loads((run / name).read_text())
        yield from ((name, key, json.dumps(altered_at(content, key))) for key in content)
    content = json.loads((run / "run.json").read_text())
    for key in content["settings"]:
        changed = content | {"settings": altered_at(content["settings"], key)}
        yield "run.json", key, json.dumps(changed)
    for line in content["task_file"].splitlines():
        if " = " in line and not line.startswith("#"):
            text = content["task_file"].replace(line, re.sub(r'"(?=[^"]*$)', 'x"', line))
            yield "run.json", "task_file", json.dumps(content | {"task_file": text})
    results = json.loads((run / "results.json").read_text())
    for key in (arm := results["arms"][0]):
        changed = results | {"arms": [altered_at(arm, key)]}
        yield "results.json", key, json.dumps(changed)
    header, first, *rest = (run / "journal.jsonl").read_text().splitlines()
    for key in (record := json.loads(first)):
        for changed in (altered_at(record, key), {k: v for k, v in record.items() if k != key}):
            yield "journal.jsonl", key, "\n".join([header, json.dumps(changed), *rest]) + "\n"
    lines = list(csv.reader((run / "answers.csv").read_text().splitlines()))
    for place, column in enumerate(lines[0]):
        cells = [*lines[1][:place], altered(lines[1][place]), *lines[1][place + 1 :]]
        text = "\n".join(map(",".join, [lines[0], cells, *lines[2:]])) + "\n"
        yield "answers.csv", column, text
    page = (run / "report.html").read_text(encoding="utf-8")
    yield "report.html", "report.html", page.replace(" %", " ‰", 1)


ALTERED = (
    "run.json", "journal.jsonl", "answers.csv", "results.json", "shots/balanced-0.json", "report.html",
)  # fmt: skip


@pytest.mark.parametrize("file", ALTERED)
def test_every_field_that_is_altered_is_caught_or_named(
    own_task: tuple[Path, Path], tmp_path: Path, file: str
) -> None:
    """Whatever is written, its hash is written anew; task and table are the checker's."""
    task, run = load_task(own_task[0]), own_task[1]
    folder = shutil.copytree(run, tmp_path / "run")
    if file != "report.html":  # it takes its time
        (folder / "report.html").unlink()
    untouched, before, missed = verify(folder, Checker(task)), (folder / file).read_bytes(), []
    assert (untouched["differs"], untouched["not_verified"]) == (0, 0), untouched
    for name, field, text in alterations(run):
        if name != file:
            continue
        (folder / name).write_text(text, encoding="utf-8")
        RunFolder(folder).write_hashes()
        try:
            findings = verify(folder, Checker(task))["findings"]
        except FwcError:  # refused as damaged
            findings = [{"file": name, "status": "differs", "detail": ""}]
        caught = any(one["status"] == "differs" for one in findings)
        told = " ".join(one["file"] + one["detail"] for one in findings if one["status"] != "same")
        if not caught and field not in told:
            missed.append(field)
        (folder / name).write_bytes(before)
    assert missed == []


def test_task_table_and_settings_are_those_of_whoever_checks(
    own_task: tuple[Path, Path], tmp_path: Path, fwc: Run
) -> None:
    task, run = own_task
    folder = shutil.copytree(run, tmp_path / "run")
    table = (task.parent / "data.csv").read_text()
    invented = tmp_path / "invented"
    invented.mkdir()
    shutil.copy(task, invented / task.name)
    (invented / "data.csv").write_text(re.sub(",f,no", ",f,yes", table))
    forged = tmp_path / "forged"
    evaluate(invented / task.name, lambda messages: "Yes", arms=["zero"], n_test=12, out=forged, margin=0.9)
    assert verify(forged)["differs"] == 0
    assert ("table", "stated") in {(one["file"], one["status"]) for one in verify(forged)["findings"]}
    fwc("verify", forged, "--task", task, code=5)
    fwc("verify", forged, "--task", invented / task.name, code=0)
    done = fwc("verify", forged, "--task", invented / task.name, "--margin", "0.05", code=5)
    assert "margin is 0.9" in done.line
    fwc("verify", folder, "--task", task, "--experiment", run / "experiment.toml", code=0)
    done = fwc("verify", folder, "--experiment", forged / "experiment.toml", code=5)
    for name in (CARD, "notes.txt"):
        (folder / name).write_text("{}")
    (folder / "prompts" / "balanced.json").unlink()
    found = verify(folder, Checker(task))
    assert {CARD, "notes.txt"} <= {one["file"] for one in found["findings"] if one["status"] != "same"}
    assert "prompts/balanced.json" in {one["file"] for one in found["findings"] if one["status"] == "differs"}
