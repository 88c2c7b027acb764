"""A run's folder is enough: its own task file, the rows it lost; and folders without either stay readable."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.errors import FwcError
from fwc_llm.evaluation.evaluate import evaluate
from fwc_llm.report.compare import compare_runs
from fwc_llm.report.document import make_document
from fwc_llm.report.read import read_run
from fwc_llm.report.write import render
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.journal import Journal
from fwc_llm.runs.results import score
from tests.models.four_members import FourMembers
from tests.people import TOML, make_people

REGRESSION = "logistic regression, all training rows"


def people_with_gaps(folder: Path) -> Path:
    """A task of 300 people; group a lacks its hours five times as often as group b."""
    frame = make_people(300, 2)
    hours = frame["hours"].astype(object)
    places = (
        frame.index[frame["group"] == "a"][:40].tolist() + frame.index[frame["group"] == "b"][:8].tolist()
    )
    hours.loc[places] = ""
    folder.mkdir(parents=True, exist_ok=True)
    frame.assign(hours=hours).to_csv(folder / "people.csv", index=False)
    (folder / "people.toml").write_text(f'missing = "drop"\n{TOML}')
    return folder / "people.toml"


def finished(task: Path, out: Path) -> Path:
    return evaluate(task, FourMembers(), ["zero", "random"], n_test=16, out=out).folder


def context(document: dict[str, Any]) -> list[str]:
    return [row["name"] for row in document["runs"][0]["statistics"]["context"]]


def test_report_rescore_and_compare_need_nothing_but_the_folder(tmp_path: Path) -> None:
    folder = finished(people_with_gaps(tmp_path / "there" / "task"), tmp_path / "there" / "run")
    (tmp_path / "there" / "task" / "people.toml").unlink()
    assert REGRESSION in context(make_document([folder]))
    shutil.move(tmp_path / "there", tmp_path / "elsewhere")  # both move together
    folder = tmp_path / "elsewhere" / "run"
    document = make_document([folder])
    assert REGRESSION in context(document)
    assert document["runs"][0]["missing"] == ""
    with Journal(folder) as journal:
        again = score(RunFolder(folder), journal)
    assert again["rows"]["lost"] == 48
    assert compare_runs(read_run(folder), read_run(folder))["changed"] == []
    (tmp_path / "elsewhere" / "task" / "people.csv").unlink()
    assert "the data is not here" in make_document([folder])["runs"][0]["missing"]


def test_a_task_of_ones_own_comes_before_a_built_in_one_of_its_name(tmp_path: Path, data_dir: Path) -> None:
    path = people_with_gaps(tmp_path)
    path.write_text(f'name = "adult"\n{path.read_text()}')
    folder = finished(path, tmp_path / "run")
    assert REGRESSION in context(make_document([folder], data_dir=data_dir))


def test_a_recorded_task_downloads_nothing_and_tells_nothing_of_other_files(tmp_path: Path) -> None:
    """Anybody may have written the folder: its task may name an address, or any file of this machine."""
    folder = finished(people_with_gaps(tmp_path), tmp_path / "run")
    described = json.loads((folder / "run.json").read_text())
    secret = tmp_path / "secret.csv"
    secret.write_text("age,hours,job,school,note,group,y\nhunter2,,,,,,\n")
    for file, more in (
        ("gone.csv", f'url = "https://127.0.0.1:9/x"\nsha256 = {{ "gone.csv" = "{"0" * 64}" }}'),
        (str(secret), ""),
        ("../../../../../../etc/passwd", ""),
    ):
        text = described["task_file"].replace('file = "people.csv"', f"file = {json.dumps(file)}\n{more}")
        (folder / "run.json").write_text(json.dumps(described | {"task_file": text}))
        missing = make_document([folder])["runs"][0]["missing"]
        assert missing
        assert "hunter2" not in missing
        assert "root:" not in missing
    for broken in ("[[[", "question = 1"):
        (folder / "run.json").write_text(json.dumps(described | {"task_file": broken}))
        assert "do not fit together" in make_document([folder])["runs"][0]["missing"]
    (folder / "run.json").write_text(json.dumps(described | {"task_file": 7}))
    with pytest.raises(FwcError, match="task_file"):
        make_document([folder])


def test_lost_rows_stand_in_every_output_by_group_and_reason(tmp_path: Path) -> None:
    folder = finished(people_with_gaps(tmp_path), tmp_path / "run")
    described, results = (json.loads((folder / name).read_text()) for name in ("run.json", "results.json"))
    rows = results["rows"]
    assert described["rows"] == rows
    assert (rows["read"], rows["kept"], rows["lost"]) == (300, 252, 48)
    assert rows["reasons"] == {"no value in hours": 48}
    by_group = {one["group"]: (one["lost"], one["reasons"]) for one in rows["groups"]}
    assert by_group == {"a": (40, {"no value in hours": 40}), "b": (8, {"no value in hours": 8})}
    assert "groups lose rows unequally: a " in rows["warning"]
    html, markdown, csv = (render([folder], kind) for kind in ("html", "md", "csv"))
    for page in (html, markdown):
        assert "48 of 300 rows were lost before the run" in page
        assert "groups lose rows unequally" in page
    assert "a,rows_lost: no value in hours,40" in csv
    assert json.loads(render([folder], "json"))["runs"][0]["rows"] == rows
    from fwc_llm.report.terminal import as_text, results_table

    assert "48 of 300 rows were lost" in " ".join(as_text(results_table(results)).split())
