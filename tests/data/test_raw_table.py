"""The same rows are the same ids, groups and cells, whatever file or frame holds them."""

import bz2
import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.styles.numbers import BUILTIN_FORMATS

from fwc_llm import audit, build_prompt
from fwc_llm.cell_rules import as_text
from fwc_llm.data import raw_table
from fwc_llm.data.raw_table import frame_table, sniff_source
from fwc_llm.data.task_inference import draft_task
from fwc_llm.report.predictions_reader import filled, open_file
from fwc_llm.taskfile import DEFAULT_MARKERS
from fwc_llm.tasks import load_task
from tests.command import Run, corpus
from tests.data.tables import cycled, drafted, write_csv
from tests.refusals import refused

Cells = list[Any]
TEXTS = st.sampled_from(
    [
        "00007",
        "7",
        "1e3",
        "1000",
        "007",
        "1.50",
        "NA",
        "None",
        "True",
        "ü, “x”",
        "a;b",
        "1_0",
    ]
)
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "id": TEXTS
    | st.text(
        st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=6
    ).filter(lambda text: text not in DEFAULT_MARKERS),
    "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
    "number": st.none()
    | st.floats(-1e12, 1e12).map(lambda value: float(f"{value:.12g}") + 0.0),
    "flag": st.none() | st.booleans(),
    "day": st.none() | st.dates(date(1950, 1, 1), date(2090, 1, 1)),
    "case": st.none() | st.integers(10**17, 10**17 + 9),
    "price": st.none() | st.decimals(0, 999, places=2),
    "kind": st.none() | st.sampled_from(['b, "c"', "NA", "y"]),
}
TYPES = {
    "whole": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "case": pa.int64(),
    "price": pa.decimal128(9, 2),
    "pay": pa.float64(),
    "kind": pa.dictionary(pa.int8(), pa.string()),
}
NULLABLE = {
    "whole": "Int64",
    "case": "Int64",
    "number": "Float64",
    "flag": "boolean",
} | dict.fromkeys(("day", "price", "pay"), "object")


def as_csv(columns: dict[str, Cells], path: Path) -> None:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(columns)
    writer.writerows(
        [
            ["" if c is None else as_text(c) for c in row]
            for row in zip(*columns.values(), strict=True)
        ]
    )
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    if path.suffix == ".zip":
        with ZipFile(path, "w") as archive:
            archive.writestr("inner.csv", file.getvalue())
    else:
        path.write_bytes(pack(file.getvalue().encode()))


def as_jsonl(columns: dict[str, Cells], path: Path) -> None:
    rows = [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]
    lines = [json.dumps(row, default=as_text) for row in rows]
    path.write_text(
        "\n".join(lines) if path.suffix == ".jsonl" else f"[{','.join(lines)}]"
    )


def as_excel(columns: dict[str, Cells], path: Path) -> None:
    book = openpyxl.Workbook()
    for row in [list(columns), *zip(*columns.values(), strict=True)]:
        book.active.append(["" if cell is None else cell for cell in row])
        for cell in book.active[book.active.max_row]:
            cell.data_type = (
                "s" if isinstance(cell.value, str) else cell.data_type
            )  # no formula, no number
    book.save(path)


def arrow(columns: dict[str, Cells]) -> pa.Table:
    return pa.table(
        {
            name: pa.array(cells, TYPES.get(name, pa.string()))
            for name, cells in columns.items()
        }
    )


FILES: dict[str, Callable[[dict[str, Cells], Path], Any]] = {
    "t.csv": as_csv,
    "t.csv.gz": as_csv,
    "t.csv.bz2": as_csv,
    "t.zip": as_csv,
    "t.jsonl": as_jsonl,
    "t.json": as_jsonl,
    "t.xlsx": as_excel,
    "t.parquet": lambda columns, path: pq.write_table(arrow(columns), path),
}
FRAMES: dict[str, Callable[[dict[str, Cells]], Any]] = {
    "objects": lambda columns: pd.DataFrame(columns, dtype=object),
    "nullable": lambda columns: pd.DataFrame(
        {
            name: pd.array(cells, NULLABLE.get(name, "str"))
            for name, cells in columns.items()
        }
    ),
    "categories": lambda columns: pd.DataFrame(columns, dtype=object).astype(
        "category"
    ),
    "arrow in pandas": lambda columns: arrow(columns).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "arrow": arrow,
    "polars": lambda columns: pl.DataFrame(arrow(columns)),
}


@settings(max_examples=20, deadline=None)
@given(st.data(), st.integers(2, 7))
def test_the_same_rows_are_the_same_texts_in_every_format(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, n: int
) -> None:
    """One more row changes none of the others; what a spreadsheet rounds is named."""
    folder = tmp_path_factory.mktemp("t")
    columns = {
        name: data.draw(st.lists(cells, min_size=n, max_size=n))
        for name, cells in COLUMNS.items()
    }
    texts = {
        name: ["" if cell is None else as_text(cell) for cell in cells]
        for name, cells in columns.items()
    }
    for rows in (n, n - 1):
        some = {name: cells[:rows] for name, cells in columns.items()}
        for name, write in FILES.items():
            write(some, folder / name)
            # JSON and a spreadsheet have no decimals.
            kept = {*columns} - (
                {"price"} if name.startswith(("t.j", "t.x")) else set()
            )
            for column in kept if name == "t.xlsx" else ():
                if any(
                    isinstance(c, int | float) and abs(c) > 2**53 for c in some[column]
                ):
                    with refused(rf"column '{column}' holds the number"):
                        open_file(folder / name).texts(column)
                    kept = kept - {column}
            found = open_file(folder / name)
            for column in kept:
                assert filled(found.texts(column)).tolist() == texts[column][:rows], (
                    name,
                    column,
                )
        for name, make in FRAMES.items():
            table = frame_table(make(some))
            for column in columns:
                cells = [
                    "" if cell != cell else cell
                    for cell in table.texts(column).astype(object)
                ]
                assert cells == texts[column][:rows], (name, column)


def test_typed_numbers_are_read_in_the_notation_of_the_texts_beside_them() -> None:
    pay = [1.234 + k if k % 2 else f"{k + 1}.234,5" for k in range(80)]
    frame = cycled(80, pay=pay, sex="fm", ok=[0, 1, 1, 0])
    task = load_task(frame, protected="sex", outcome="ok")
    read = task.pool()["pay"].tolist()[:4]
    assert read == [1234.5, 2.234, 3234.5, 4.234]
    assert [task.record(frame.iloc[k]).values["pay"] for k in range(4)] == read


def test_labels_of_columns_may_be_integers_and_tuples() -> None:
    frame = cycled(80, pay=range(17), sex="fm", ok=[0, 1, 1, 0])
    numbered = frame.set_axis([2, 0, 1], axis=1)
    paired = frame.copy()
    paired.columns = pd.MultiIndex.from_tuples([("x", "pay"), ("x", "sex"), ("y", "")])
    expected, *others = (
        [record.value for record in audit(table, answer=ok, protected=sex).records]
        for table, ok, sex in (
            (frame, "ok", "sex"),
            (numbered, 1, 0),
            (paired, ("y", ""), ("x", "sex")),
        )
    )
    for values in others:
        assert values == pytest.approx(expected, nan_ok=True)
    assert load_task(numbered, protected=0, outcome=1).protected == ("0",)
    task = load_task(paired, protected=[("x", "sex")], outcome=("y", ""))
    assert task.record(paired.iloc[0].to_dict()).values == {"x.pay": 0, "x.sex": "f"}
    with refused("data frame of pandas, Polars"):
        load_task({"a": [1]}, protected="a", outcome="a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (
            pd.Series([0.9, 39.0, 1e20], dtype="float32"),
            ["0.9", "39", "100000000000000000000"],
        ),
        (pd.Series([0.9, None], dtype="Float32"), ["0.9", ""]),
        (pl.Series([0.9], dtype=pl.Float32), ["0.9"]),
        (pd.Series([Decimal("1E+2"), Decimal("3.50")]), ["100", "3.50"]),
        (
            pd.Series(pd.to_datetime(["2020-01-01 00:00", "2020-01-01 12:30"])),
            ["2020-01-01", "2020-01-01 12:30:00"],
        ),
        (
            pd.Series([1, "1", True, 1.0, " x "], dtype=object),
            ["1", "1", "true", "1", "x"],
        ),
        (pd.Series([2**60 + 1, None], dtype="Int64"), [str(2**60 + 1), ""]),
        (pl.Series([{"a": [1, 2]}, None]), ["[1, 2]", ""]),
    ],
)
def test_a_typed_cell_is_what_people_write(cells: Any, text: list[str]) -> None:
    if isinstance(cells, pl.Series):
        frame = pl.DataFrame({"x": cells})
    else:
        frame = pd.DataFrame({"x": cells})
    table = frame_table(frame)
    found = table.texts(table.titles[0]).astype(object)
    assert ["" if cell != cell else cell for cell in found] == text


ROWS = [
    {
        "applicant": {"sex": "f", "tags": ["a"]},
        "body": {"choices": [{"text": "Yes"}]},
        "case": 2**60 + 1,
    },
    {
        "applicant": {"sex": "m"},
        "body": {"choices": [{"text": "No"}, {"text": "?!"}]},
        "case": None,
    },
    {"applicant": None, "case": 3},
]


@pytest.mark.parametrize("name", ["t.jsonl", "t.json", "t.parquet", "t.csv"])
def test_nested_values_are_columns_by_path(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "t.parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif name == "t.csv":  # objects as JSON in its cells
        as_csv(
            {
                key: [row.get(key) for row in ROWS]
                for key in ("applicant", "body", "case")
            },
            path,
        )
    else:
        path.write_text(
            "\n".join(map(json.dumps, ROWS))
            if name == "t.jsonl"
            else json.dumps(ROWS, indent=1)
        )
    names = ["applicant.sex", "body.choices[0].text", "body.choices[1].text", "case"]
    found = open_file(path)
    assert [filled(found.texts(name)).tolist() for name in names] == [
        ["f", "m", ""],
        ["Yes", "No", ""],
        ["", "?!", ""],
        [str(2**60 + 1), "", "3"],
    ]
    for lacking in ("applicant.age", "body.choices[7].text", "nobody.sex"):
        with refused(re.escape(f"no column '{lacking}'")):
            open_file(path).texts(lacking)


# --- Spreadsheets, and lines that are no rows

SHEET = [
    ["age", "sex", "ok"],
    *([20 + k % 40, "fm"[k % 2], ["yes", "no"][k % 3 > 0]] for k in range(60)),
]


def workbook(
    path: Path, above: Sequence[list[Any]] = (), first: str = ""
) -> openpyxl.Workbook:
    book = openpyxl.Workbook()
    if first:
        book.active.title = first
        book.active.append(["see the other sheet"])
        book.create_sheet("Data")
    for row in [*above, *SHEET]:
        book.worksheets[-1].append(row)
    book.save(path)
    return book


def with_blank_row(path: Path) -> None:
    book = workbook(path)
    book.active.insert_rows(3)
    book.save(path)


TEXT = "\n".join(",".join(map(str, row)) for row in SHEET)
LAYOUTS: dict[str, tuple[Any, tuple[str, ...], str, int]] = {
    "title.xlsx": (
        lambda path: workbook(path, [["Loans"], []]),
        ("--skip", "2"),
        "--skip 2",
        4,
    ),
    "second.xlsx": (
        lambda path: workbook(path, first="Info"),
        ("--sheet", "Data"),
        "--sheet",
        2,
    ),
    "number.xlsx": (
        lambda path: workbook(path, first="Info"),
        ("--sheet", "2"),
        "'Data'",
        2,
    ),
    "notes.xlsx": (
        lambda path: workbook(path, [["# one"], ["# two"]]),
        ("--comment", "#"),
        "--skip 2",
        4,
    ),
    "title.csv": (
        lambda path: path.write_text(f"Loans 2025\n\n{TEXT}"),
        ("--skip", "1"),
        "--skip 2",
        4,
    ),
    "notes.csv": (
        lambda path: path.write_text(f"# a\n# b\n{TEXT}"),
        ("--comment", "#"),
        "--comment '#'",
        4,
    ),
    "spaces.csv": (lambda path: path.write_text(TEXT.replace(",", " ; ")), (), "", 2),
    "source.csv": (
        lambda path: path.write_text(f"{TEXT}\nSource: us"),
        ("--comment", "Source:"),
        "'Source:'",
        2,
    ),
    "sep.csv": (
        lambda path: path.write_text("sep=;\n" + TEXT.replace(",", ";")),
        (),
        "",
        3,
    ),
    "blank.xlsx": (with_blank_row, (), "", 2),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_export_is_read_by_every_command(
    fwc: Run, tmp_path: Path, name: str
) -> None:
    write, options, remedy, line = LAYOUTS[name]
    path = tmp_path / name
    write(path)
    init = f"task init {path} --protected sex --outcome ok --force"
    audited = f"audit {path} --answer ok --protected sex"
    monitored = f"monitor {path} --answer ok --protected sex --key age --undecided pass"
    monitored += f" --state {tmp_path / 'state.json'} --fail-if"
    for words in (init, audited) if options else ():
        assert remedy in fwc(words, code=2).line
    fwc(init, *options, code=0)
    pool = load_task(tmp_path / f"{name.split('.')[0]}.toml").pool()
    second = line + 1 + (name == "blank.xlsx")
    assert pool.index[:2].tolist() == [f"{name}:{line}", f"{name}:{second}"]
    assert (len(pool), pool["age"].dtype) == (60, "int64")
    assert "60 rows" in fwc(audited, *options, code=0).out
    said = fwc(monitored, "dp_gap > 0.9", *options, code=2).line
    assert "comes twice: each decision" in said


FORMATTED = [
    *corpus("cells/formats"),
    (5.5, BUILTIN_FORMATS[44], ""),  # Excel shows the machine's currency
]


@pytest.mark.parametrize(("cell", "number_format", "unit"), FORMATTED)
def test_a_number_in_excel_has_its_formats_unit_and_is_the_number_of_every_reader(
    tmp_path: Path, cell: float, number_format: str, unit: str
) -> None:
    path = tmp_path / "t.xlsx"
    book = workbook(path)
    for row, cells in enumerate(book.active.iter_rows(min_row=2), 1):
        cells[0].value = cell * row
        cells[0].number_format = number_format
    book.save(path)
    task = load_task(drafted(path, "sex", "ok"))
    frame = pd.read_excel(path)
    row = frame.iloc[0].drop("ok")
    for pool in (task.pool(), task.cleaned(frame)[0]):
        assert pool["age"].tolist() == frame["age"].tolist()
    assert task.record(row).values["age"] == cell
    for shown in (row, task.pool().iloc[0]):
        prompt = build_prompt(task, shown)[-1]["content"]
        assert f"age: {cell:.10g} {unit}".strip() + "\n" in prompt


def test_a_population_is_read_by_the_same_options(fwc: Run, tmp_path: Path) -> None:
    for name, rows in (("asked.csv", SHEET[:41]), ("all.csv", SHEET)):
        lines = [f"{n},{','.join(map(str, row))}" for n, row in enumerate(rows)]
        head = ["title", "# note", lines[0].replace("0", "id", 1)]
        (tmp_path / name).write_text("\n".join([*head, *lines[1:]]))
    words = f"audit {tmp_path / 'asked.csv'} --answer ok --protected sex --key id"
    layout = f"--population {tmp_path / 'all.csv'} --skip 1 --comment # --json"
    fwc(f"{words} {layout}", code=0)


def test_layout_that_a_format_does_not_have_is_refused(tmp_path: Path) -> None:
    for name, option in (("t.csv", {"sheet": "2"}), ("t.jsonl", {"skip": 1})):
        with refused(f"leave {next(iter(option))} out"):
            sniff_source(tmp_path / name, b"a,b\n1,2\n", **option)


def test_what_a_sheet_does_not_hold_is_named(fwc: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    words = f"task init {path} --protected sex --outcome ok"
    for value, cell in (("=A2+1", "A3"), (2**53 + 2, "A4")):
        book = workbook(path)
        book.active[cell].value = value
        book.save(path)
        assert f"cell {cell} " in fwc(words, code=2).line
    workbook(path, first="Info")
    refusal = fwc(f"{words} --sheet Dat", code=2).line
    assert "no sheet 'Dat'; did you mean 'Data'" in refusal


RAGGED = {
    "short": ["f,yes,no"] * 250 + ["f,yes"] + ["m,yes,yes"] * 250,
    "long": ["f,yes,no", "m,yes,yes"] * 125 + ["f,yes,no,no", "m,no,no"],
    "open": ["f,yes,no"] * 250 + ['"f,yes,no', "m,no,no"],
}


@pytest.mark.parametrize("lines", RAGGED.values(), ids=RAGGED)
def test_a_line_of_another_length_is_named_by_every_command(
    fwc: Run, tmp_path: Path, lines: list[str]
) -> None:
    path = tmp_path / "cut.csv"
    path.write_text("\n".join(["sex,was,said", *lines, ""]))
    state = f"--state {tmp_path / 's.json'} --fail-if 'dp_gap>0.9' --key was"
    for words in (
        f"audit {path} --answer said",
        f"monitor {path} --answer said {state}",
        f"task init {path} --outcome said",
    ):
        line = fwc(f"{words} --protected sex", code=2).line
        assert re.search(r"cut\.csv:252: [124] values where 3 columns", line)
        assert ("is a quote left open?" in line) == ('"f,yes,no' in lines)


def test_a_broken_archive_is_named(tmp_path: Path) -> None:
    broken = {"t.csv.gz": b"\x1f\x8bno", "t.zip": b"PK", "t.bz2": b"BZ"}
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        with refused("cannot be unpacked"):
            open_file(tmp_path / name)
    with ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("a.csv", "")
        archive.writestr("b.csv", "")
    with refused("holds 2 files"):
        open_file(tmp_path / "t.zip")


@pytest.mark.parametrize(
    "kind",
    [
        pa.timestamp("us"),
        pa.timestamp("s", "UTC"),
        pa.date64(),
        pa.duration("s"),
        pa.list_(pa.timestamp("us")),
    ],
)
def test_a_time_that_python_cannot_hold_is_a_text(
    kind: pa.DataType, tmp_path: Path
) -> None:
    far = 2**62 - 2**62 % 86_400_000
    if kind in (pa.timestamp("s", "UTC"), pa.duration("s")):
        far //= 1_000  # Parquet holds milliseconds
    times = pa.array([[far] if pa.types.is_list(kind) else far], kind)
    pq.write_table(pa.table({"seen": times}), tmp_path / "t.parquet")
    (text,) = open_file(tmp_path / "t.parquet").texts("seen")
    assert re.search(r"\d{5}|out of range", text)


@pytest.mark.parametrize("ending", ["gz", "bz2", "zip", "xlsx"])
def test_a_file_unpacks_to_so_many_bytes_at_most(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"sex,said\n" + b"f,yes\nm,no\n" * 50_000
    path = tmp_path / f"t.csv.{ending}"
    if ending in ("gz", "bz2"):
        pack = {"gz": gzip, "bz2": bz2}[ending].compress
        path.write_bytes(pack(text))
    else:
        with ZipFile(path, "w", 8) as archive:  # deflated
            archive.writestr("t.csv", text)
    assert path.stat().st_size < len(text) / 50
    monkeypatch.setattr(raw_table, "LARGEST_UNPACKED", len(text) - 1)
    with refused("unpacks to"):
        raw_table.unpacked(path, path.read_bytes())


@pytest.mark.parametrize("ending", ["xlsx", "csv"])
@pytest.mark.parametrize("above", [["Loans 2025"], []])
def test_a_header_below_merged_cells_is_found(
    tmp_path: Path, ending: str, above: list[str]
) -> None:
    """A title and merged cells stand above the header: one remedy leads to the table."""
    people = cycled(40, sex="fm", age=range(20, 60), amount=range(0, 120, 3))
    people["approved"] = [["yes", "no"][k // 2 % 2] for k in range(40)]
    merged = ["Applicant", None, "Loan", None]
    heads = [*([one, None, None, None] for one in above), merged, [*people]]
    frame = pd.DataFrame([*heads, *people.to_numpy().tolist()])
    path = tmp_path / f"t.{ending}"
    write = frame.to_excel if ending == "xlsx" else frame.to_csv
    write(path, index=False, header=False)
    with refused("is the header: skip=") as caught:
        drafted(path, "sex", "approved")
    (skip,) = re.findall(r"skip=(\d+)", str(caught.value))
    assert int(skip) == 1 + len(above)
    draft = draft_task(path, ["sex"], "approved", tmp_path, skip=int(skip))
    (tmp_path / "t.toml").write_text(draft, encoding="utf-8")
    assert len(load_task(tmp_path / "t.toml").pool()) == 40


def test_a_cell_that_is_called_like_a_column_is_a_header_in_files_alone(
    tmp_path: Path,
) -> None:
    frame = pd.DataFrame({"group": ["f", "m", "said"], "other": ["yes", "no", "yes"]})
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    named = frame.set_index("other", drop=False)
    for table in (frame_table(named), open_file(tmp_path / "t.jsonl")):
        with refused("there is no column 'said'; there are"):
            table.texts("said")
    with refused("no column 'said': if row 4 is the header"):
        open_file(write_csv(tmp_path / "t.csv", frame)).texts("said")
