"""One record: what an application serves is what was evaluated, and what was not is refused."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fwc_llm import build_prompt, load_task
from fwc_llm.data.locate import data_folders, find_files
from fwc_llm.taskfile import Source
from fwc_llm.tasks import Task
from tests.command import corpus, read_json
from tests.data.tables import small_task, write_task
from tests.refusals import refused


def raw_rows(path: Path, source: Source, names: list[str]) -> dict[str, dict[str, str]]:
    """The cells of a CSV file as they lie there, by row id."""
    text = path.read_text(encoding=source.encoding).splitlines()
    rows: dict[str, dict[str, str]] = {}
    titles = None if source.header else names
    for line, cells in enumerate(
        csv.reader(text, delimiter=source.separator, skipinitialspace=True), 1
    ):
        if titles is None:
            titles = cells
        elif len(cells) == len(titles):
            rows[f"{path.name}:{line}"] = dict(zip(titles, cells, strict=True))
    return rows


def typed(row: dict[str, str]) -> dict[str, Any]:
    """The row as JSON would have it: numbers as numbers."""

    def cell(text: str) -> Any:
        try:
            return json.loads(text.strip())
        except ValueError:
            return text

    return {name: cell(text) for name, text in row.items()}


def assert_served_as_evaluated(task: Task, raws: dict[str, dict[str, str]]) -> None:
    """The same prompt for a loaded row and its raw cells, as text and typed, in a mapping and a
    Series.
    """
    table = task.table
    for row in table.index[:: max(1, len(table) // 30)]:
        evaluated = build_prompt(task, table.loc[row])
        raw = raws[row]
        for given in (raw, typed(raw), pd.Series(raw), pd.Series(typed(raw), name=row)):
            assert build_prompt(task, given) == evaluated, row
        assert task.record(table.loc[row]).values.keys() == set(table.columns) - {
            task.outcome
        }


@pytest.mark.parametrize("name", ["adult", "german", "communities", "drug"])
def test_raw_rows_of_built_in_tasks_make_the_loaded_prompts(
    name: str, data_dir: Path, built_in: Any
) -> None:
    task = built_in(name)
    files = find_files(task.rules, data_folders(data_dir))
    assert files is not None
    names = [item.name for item in task.rules.fields]
    raws = {
        row: raw
        for (path,) in files
        for row, raw in raw_rows(path, task.rules.source, names).items()
    }
    assert_served_as_evaluated(task, raws)


MESSY = """
question = "Is it yes?"
missing = "drop"
columns = [
  { name = "geschlecht" },
  { name = "Laufzeit", kind = "numeric", strip_suffix = " Monate", unit = "Monate" },
  { name = "Einkommen", kind = "numeric", written = "1.234,5" },
  { name = "Miete", written = "1.234,5", bands = [500, 1000] },
  { name = "Beruf", strip_zeros = true },
  { name = "Note", kind = "ordinal", order = ["schlecht", "gut"] },
  { name = "Anteil", kind = "numeric" },
  { name = "Ort", missing = "category" },
  { name = "Kennung", role = "extra" },
  { name = "Alter", role = "drop" },
  { name = "Zusage" },
]
[values.Beruf]
7 = "Koch"
[data]
file = "data.csv"
separator = ";"
missing_marker = ["k.A.", "-9"]
[[keep]]
column = "Alter"
at_least = 18
[outcome]
column = "Zusage"
positive = "ja"
negative = "nein"
[[protected]]
column = "geschlecht"
name = "sex"
map = { w = "Frau", m = "Mann", "1" = "Mann" }
[[protected]]
column = "Anteil"
name = "share"
threshold = { above = 0.5 }
levels = ["low", "high"]
"""


@pytest.fixture(scope="module")
def messy(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Task, dict[str, dict[str, str]]]:
    """A table as people write it: its task, and its raw rows by id."""
    rows = [
        (
            "wm1"[i % 3],
            f"{6 + i % 30} Monate",
            f"{1 + i % 7}.{100 + i % 800},50 EUR",
            f"{300 + 37 * i % 999},00 €",
            ("07", "7", "12", "0")[i % 4],
            (" gut", "schlecht ")[i % 2],
            f"{i % 11 / 10}",
            ("Köln", "k.A.", "", "Bonn, Süd")[i % 4],
            f"K{i:04}",
            str(15 + i % 40),
            "ja" if i % 5 else "nein",
        )
        for i in range(240)
    ]
    rows.append(("w", "-9", *rows[0][2:]))
    folder = tmp_path_factory.mktemp("messy")
    names = re.findall(r'{ name = "(\w+)"', MESSY)
    text = "\n".join(map(";".join, [names, *rows]))
    task = load_task(write_task(folder, text.encode(), toml=MESSY))
    return task, raw_rows(folder / "data.csv", task.rules.source, names)


def test_raw_rows_of_a_messy_table_make_the_loaded_prompts(messy: Any) -> None:
    task, raws = messy
    assert len(task.table) < len(raws)
    assert_served_as_evaluated(task, raws)
    row = task.test().iloc[3]
    shown = build_prompt(task, row)[-1]["content"]
    assert build_prompt(task, dict(row)) == build_prompt(
        task, row
    )  # bands and levels are known words
    assert task.record(raws[row.name]).values["Miete"] in shown


@pytest.mark.parametrize(("change", "message"), corpus("mistakes/records"))
def test_what_was_never_evaluated_is_refused_by_column_and_value(
    messy: Any, change: Any, message: str
) -> None:
    task, raws = messy
    with refused(message):
        build_prompt(task, raws["data.csv:30"] | change)


def test_a_number_out_of_range_is_told_and_a_missing_category_kept(messy: Any) -> None:
    task, raws = messy
    raw = raws["data.csv:30"]
    assert task.record(raw).notes == ()
    (note,) = task.record({**raw, "Laufzeit": "600 MONATE"}).notes
    assert "600 in column 'Laufzeit'" in note
    assert "6 to 35" in note
    for nothing in ("", " k.A. ", None, float("nan")):
        assert task.record({**raw, "Ort": nothing}).values["Ort"] == "unknown"
    assert task.record(
        {**raw, "Zusage": "vielleicht", "Haustier": "Hund"}
    ) == task.record(raw)
    assert (
        task.record({**raw, "Kennung": "neu"}).values["Kennung"] == "neu"
    )  # in every row another text
    bare = {
        name: cell
        for name, cell in raw.items()
        if name not in ("Kennung", "Alter", "Zusage")
    }
    assert build_prompt(task, bare) == build_prompt(task, raw)
    del bare["geschlecht"]
    assert build_prompt(
        task, {**bare, "sex": task.record(raw).values["sex"]}
    ) == build_prompt(task, raw)
    with refused(r"lacks the attribute 'geschlecht'.*'Geschlecht'"):
        build_prompt(task, {**bare, "Geschlecht": "w"})


def test_a_changed_row_of_the_table_is_raw(messy: Any) -> None:
    """Neither an id nor an index makes a row one of the table: its cells do."""
    task, _ = messy
    row = task.test().iloc[3].copy()
    row["Laufzeit"] = -1
    with refused("'Laufzeit' is negative"):
        build_prompt(task, row)


def test_numbers_that_all_have_words_are_a_closed_set(tmp_path: Path) -> None:
    task = small_task(
        tmp_path, top="values.x = { 1 = 'one', 2 = 'two', '3.50' = 'more', 4 = 'four' }"
    )
    assert (
        "more"
        in build_prompt(task, {"x": 3.5, "colour": "red", "sex": "f"})[-1]["content"]
    )
    with refused("'3' in column 'x'"):
        task.record({"x": 3, "colour": "red", "sex": "f"})


def test_a_key_left_out_of_json_lines_is_a_missing_value(tmp_path: Path) -> None:
    colours = [{"colour": "red"}, {}]
    rows = [
        {"x": i, "sex": "fm"[i % 2], "y": ("yes", "no")[i % 3 == 0], **colours[i % 2]}
        for i in range(20)
    ]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    path = write_task(tmp_path, top='missing = "category"')
    path.write_text(path.read_text().replace("data.csv", "data.jsonl"))
    task = load_task(path)
    for k in range(4):
        assert build_prompt(task, rows[k]) == build_prompt(task, task.table.iloc[k])
    nested = [{"of": row, "y": row.pop("y")} for row in rows]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, nested)))
    path.write_text(re.sub('"(x|sex|colour)"', r'"of.\1"', path.read_text()))
    task = load_task(path)
    assert build_prompt(task, nested[0]) == build_prompt(task, task.table.iloc[0])
    with refused(r"no value in column 'of\.x'"):
        task.record({"of": {"sex": "f"}})


# --- A service without the table


def test_a_frozen_task_serves_without_its_table(
    messy: Any, tmp_path: Path, census: Task
) -> None:
    task, raws = messy
    raw = raws["data.csv:30"]
    for name, live, row in (
        ("messy.json", task, raw),
        ("census.json", census, census.test().iloc[5]),
    ):
        live.freeze(tmp_path / name)
        frozen = load_task(tmp_path / name)
        assert (frozen.name, frozen.fingerprint) == (live.name, live.fingerprint)
        assert frozen.simulated == live.simulated
        assert frozen.record(row) == live.record(row)
        assert build_prompt(frozen, frozen.record(row)) == build_prompt(live, row)
        with refused(f"{name} is a frozen task"):
            frozen.test()
        with refused("frozen"):
            load_task(tmp_path / name, protected="sex")
    with refused("'Weiblich'"):
        load_task(tmp_path / "messy.json").record({**raw, "geschlecht": "Weiblich"})
    with refused("is of task 'census'"):
        build_prompt(task, census.record(census.test().iloc[5]))


@pytest.mark.parametrize(
    "change", [{"format": "x"}, {"domains": {}}, {"text": ""}, {"more": 1}, {"name": 3}]
)
def test_a_damaged_frozen_task_is_refused_by_name(
    messy: Any, tmp_path: Path, change: Any
) -> None:
    path = tmp_path / "task.json"
    messy[0].freeze(path)
    path.write_text(json.dumps(read_json(path) | change))
    with refused(r"task\.json"):
        load_task(path)
