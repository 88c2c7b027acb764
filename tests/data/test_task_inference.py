"""What columns look like, what questions are drafted, how numbers are written."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator

from evals.walks.loans import loans
from fwc_llm import build_prompt
from fwc_llm.cell_rules import as_plain, kind_of
from fwc_llm.data.task_inference import draft_question, draft_task, profile_column
from fwc_llm.taskfile import checks_of, read_taskfile
from fwc_llm.tasks import Task, load_task, with_columns
from tests.command import Run, corpus
from tests.data.tables import cycled, drafted, write_csv
from tests.refusals import refused


@pytest.mark.parametrize(("cell", "english", "german"), corpus("cells/numbers"))
def test_numbers_as_people_write_them(
    cell: str, english: str | None, german: str | None
) -> None:
    assert as_plain(cell, "1,234.5") == (cell if english is None else english)
    assert as_plain(cell, "1.234,5") == (cell if german is None else german)


def people(n: int = 90, /, **columns: Sequence[object]) -> pd.DataFrame:
    """Rows of two sexes, a third of which have the answer no."""
    return cycled(n, **columns | {"sex": "fm", "y": ["no", "yes", "yes"]} | columns)


def checks(path: Path) -> str:
    return " | ".join(checks_of(path.read_text(encoding="utf-8")))


def replaced(path: Path, old: str, new: str) -> pd.DataFrame:
    """The pool after a pattern in the task file is written otherwise."""
    text = re.sub(old, lambda found: new, path.read_text(encoding="utf-8"), count=1)
    path.write_text(text, encoding="utf-8")
    return load_task(path).pool()


def remedy(path: Path, words: str, pattern: str) -> str:
    """What the refusal of the table says to write."""
    with refused(words) as caught:
        load_task(path).pool()
    found = re.search(pattern, str(caught.value))
    assert found is not None
    return found[0]


def column(pattern: str, n: int = 60) -> list[str]:
    """Cells with numbers of the row in the place of names."""
    towns = ("Bonn", "Linz", "Graz")
    return [
        pattern.format(
            k=k,
            one=1 + k,
            half=k // 2,
            fifth=k % 5 + 1,
            day=k % 28 + 1,
            code=6000 + 7 * k,
            scatter=6000 + 37 * k % 997,
            low=k % 40 - 20,
            town=towns[k % 3],
        )
        for k in range(n)
    ]


@pytest.mark.parametrize(("name", "pattern", "looks"), corpus("cells/columns"))
def test_columns_are_taken_for_what_they_are(
    name: str, pattern: str, looks: str | list[str]
) -> None:
    cells = pd.Series(column(pattern), dtype="str")
    look = profile_column(name, cells.where(cells != ""))
    assert look.why or look.role == "feature"
    assert looks in (look.role, [look.kind, look.written])


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (column("{k} J.", 30) + column("{k}"), "a unit, others none"),
        (column("{one}.{fifth}00"), 'written = "1.234,5"'),
        ([*map(str, range(11))] * 5 + ["-1", "99"] * 5, "-1, 99 beside 0 to 10"),
        (column("{fifth}"), "only 5 values, 1 to 5, kept as numbers"),
        ([*map(str, range(18, 71))] * 9 + ["99"] * 12, "99 beside 18 to 70: a code"),
        (
            [*map(str, range(18, 81)), "998", "999", "unknown"] * 9,
            'then missing_marker = ["unknown", "998", "999"] in this column',
        ),
        ([*map(str, range(1000))] + ["666"] * 40, "666 beside 0 to "),
        ([*map(str, range(-1, 39))] * 9, "-1 beside 0 to 38"),
        ([*map(str, range(100))] * 6, ""),
        (column("{low}"), ""),
        (column("{code}-") + column("{code}"), "6000- is read as -6000, and others"),
        ([*map(str, range(120))] * 5, ""),
        (["red", "blue"] * 30, ""),
    ],
)
def test_what_a_person_would_see_is_flagged(cells: list[str], words: str) -> None:
    look = profile_column("x", pd.Series(cells))
    assert words in look.why if words else not look.why
    assert look.role == "feature"


@pytest.mark.parametrize(
    "odd",
    [
        "k.A.",
        "n/a",
        "-",
        "unbekannt",
        "NULL",
        "#N/A",
        "s/d",
        "non renseigné",
        ".",
        "\\N",
        "(leer)",
    ],
)
@pytest.mark.parametrize(
    "number",
    ["{0},{1:02d}", "1.{0},{1:02d} EUR", "${0}.{1:02d}", "{0}", "{0} km", "{1} %"],
)
def test_one_marker_leaves_a_column_of_numbers(odd: str, number: str) -> None:
    cells = pd.Series(
        [number.format(100 + 7 * k, k % 90) for k in range(60)]
    ).drop_duplicates()
    look = profile_column("x", pd.concat([cells, pd.Series([odd], index=["t.csv:79"])]))
    assert (look.kind, look.role, look.markers) == ("numeric", "feature", (odd,))
    assert f"{odd!r} (t.csv:79)" in look.why
    assert look.number(cells.iloc[3]) > 0


@pytest.mark.parametrize("odd", ["forty", "12a", ">1-2", "1-2", "2.3.2024"])
def test_a_text_among_numbers_is_named_and_not_taken_for_missing(
    tmp_path: Path, odd: str
) -> None:
    path = draft(tmp_path, people(age=[*range(20, 60), odd, *range(61, 110)]))
    assert f"no numbers: {odd!r} (t.csv:42)" in path.read_text()
    with refused(r"t\.csv:42"):
        load_task(path).pool()
    marked = f'kind = "numeric", missing_marker = "{odd}"'
    assert len(replaced(path, 'kind = "numeric"', marked)) == 89


@pytest.mark.parametrize(
    ("cells", "marks", "said"),
    [
        ({"80+": 80}, ["+"], "'80+' as 80"),
        ({"202*": 202, "<18": 18, "≥ 80": 80}, ["<", "≥", "*"], "'202*' as 202"),
        ({"> 90 %": 90, "17 %": 17}, [">"], "'> 90 %' as 90"),
        ({"<1.234,5": 1234.5, "80,5": 80.5}, ["<"], "'<1.234,5' as 1234.5"),
        ({"ca. 80": 80, "80 or more": 80}, ["ca.", "or more"], "'ca. 80' as 80"),
    ],
)
def test_a_number_with_a_mark_is_read_at_its_bound_and_a_check_says_so(
    tmp_path: Path, cells: dict[str, float], marks: list[str], said: str
) -> None:
    ages = [*cells, *map(str, range(20 + len(cells), 50))]
    path = draft(tmp_path, people(age=[*ages, *ages, *map(str, range(50, 80))]))
    written = f"marks = {json.dumps(marks, ensure_ascii=False)}"
    assert written in path.read_text(encoding="utf-8")
    assert f"read without their marks, {said}" in checks(path)
    assert "(2 times, first t.csv:2)" in checks(path)
    task = load_task(path)
    assert task.pool()["age"].head(len(cells)).tolist() == [*cells.values()]
    cell, number = next(iter(cells.items()))
    assert task.record({"age": cell, "sex": "f"}).values["age"] == number
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(f", {written}", ""), encoding="utf-8")
    path.write_text(
        text.replace(written, remedy(path, "or write marks = ", r"marks = [^\]]*\]")),
        encoding="utf-8",
    )
    assert len(load_task(path).pool()) == 90


@pytest.mark.parametrize(
    "cells",
    [["0", "1", "2", "3+"], ["<25", "25-34", "35-44", ">44"], ["A+", "B", "C*"]],
)
def test_marks_of_codes_and_of_ranges_stay(tmp_path: Path, cells: list[str]) -> None:
    path = draft(tmp_path, people(x=cells, n=range(31)))
    assert {*load_task(path).pool()["x"]} == {*cells}


def test_counts_in_checks_are_of_the_rows_that_stay(tmp_path: Path) -> None:
    frame = people(200, x=range(31), y=["bad", "good", "good", "good", "good"])
    frame.loc[[0, 1, 2], "x"] = None
    path = draft(tmp_path, frame)
    counts = load_task(path).pool()["y"].value_counts()
    said = f"good ({counts['yes']}) was taken for yes, bad ({counts['no']}) for no"
    assert said in path.read_text(encoding="utf-8")
    assert counts.to_dict() == {"yes": 158, "no": 39}


def test_words_for_unknown_become_one_category_and_a_marker_is_the_columns_own(
    tmp_path: Path,
) -> None:
    """ "-" is missing among the numbers, and a value of the other column."""
    sexes = ["f", "m", "n/a", "f", "m", "keine Angabe"]
    jobs = ["clerk", "n/a", "cook"]
    frame = cycled(300, age=range(20, 70), factor="+-", sex=sexes, job=jobs, y="01")
    frame.loc[7, "age"] = "-"
    draft(tmp_path, frame)
    text = draft_task(tmp_path / "t.csv", ["sex"], "y", tmp_path, ["Cook"])
    (tmp_path / "t.toml").write_text(text, encoding="utf-8")
    pool = load_task(tmp_path / "t.toml").pool()
    assert len(pool) == 299
    found = [{*pool[name]} for name in ("factor", "sex", "job")]
    assert found == [{"+", "-"}, {"f", "m", "unknown"}, {"clerk", "unknown"}]


def test_a_draft_with_units_groups_and_a_third_answer(tmp_path: Path) -> None:
    ages = [f"{20 + k}{' J.' if k % 3 else ''}" for k in range(60)]
    said = ["Ja", "Nein", "offen", "Nein"]
    frame = cycled(240, Alter=ages, Geschlecht="mMw", Zusage=said)
    path = drafted(write_csv(tmp_path / "k.csv", frame), "Geschlecht", "Zusage")
    text = path.read_text(encoding="utf-8")
    for words in ("'m' as 'M'", "J. (160), none (80)"):
        assert words in text
    with refused("say what to take 'offen' for"):
        load_task(path).pool()
    pool = replaced(path, "# others", "others")
    assert (len(pool), pool["Alter"].dtype) == (180, "int64")
    assert set(load_task(path).groups) == {"M", "w"}


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (("low", "high"), "# positive = […]"),
        (("2", "5", "9"), "# positive = […]"),
        (("0", "1", "-1"), '# others = "drop" # CHECK: what of -1 (14)?'),
    ],
)
def test_no_line_proposes_which_value_is_yes(
    tmp_path: Path, values: tuple[str, ...], line: str
) -> None:
    text = draft(tmp_path, people(42, x=range(42), y=values)).read_text()
    assert line in text
    assert '["low"]' not in text
    assert "above" not in text


@pytest.mark.parametrize(
    ("outcome", "positive", "above", "question"),
    [
        ("approved", "Yes", None, "Should this case be approved?"),
        ("decision", "rejected", None, "Should this case be rejected?"),
        ("approved", "No", None, "Is “approved” “No” in this case?"),
        ("not_approved", "1", None, "Is “not approved” “1” in this case?"),
        ("Kredit", "bewilligt", None, "Is “Kredit” “bewilligt” in this case?"),
        ("income", None, 50000.0, "Is “income” above 50000 in this case?"),
    ],
)
def test_draft_questions(
    outcome: str, positive: str | None, above: float | None, question: str
) -> None:
    assert draft_question(outcome, positive, above) == question


@pytest.mark.parametrize("german", [False, True])
def test_the_messy_table_is_drafted_well_in_either_writing(
    tmp_path: Path, german: bool
) -> None:
    table = tmp_path / "loans.csv"
    table.write_bytes(loans(german))
    task = load_task(drafted(table, "ethnicity", "approved"))
    assert task.question == "Should this case be approved?"
    names = [
        "age",
        "annual_income",
        "loan_amount",
        "credit_score",
        "employment",
        "purpose",
    ]
    assert [column.name for column in task.features] == names
    pool = task.pool()
    assert len(pool) > 2900
    assert pool["loan_amount"].median() == pytest.approx(12_228, abs=1)
    assert "unknown" in set(pool["employment"])
    assert task.groups == ("Black", "Asian", "White")
    assert (
        'encoding = "latin-1"' in task.text
    ) == german  # only where a letter asks for it


def frame(n: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    return pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["f", "m"], n),
            "since": pd.date_range("2020-01-01", periods=n),
            "member": rng.choice([True, False], n),
            "shade": rng.choice(["Ja", "Nein", "offen"], n),
            "score": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "ok": rng.random(n) < age / 80,
        }
    )


def test_a_data_frame_is_a_task() -> None:
    raw = frame()

    def of(rows: pd.DataFrame = raw, **options: Any) -> Task:
        return load_task(rows, **{"protected": "sex", "outcome": "ok", **options})

    task = of(question="Is it fine?")
    assert task.question == "Is it fine?"
    names = [column.name for column in task.features]
    assert names == ["age", "member", "shade", "score"]
    pool = task.pool()
    assert len(pool) == 300
    assert "unknown" in set(pool["score"])
    assert (task.labels(pool) == raw["ok"].to_numpy()).all()
    assert task.rules.base_parity is None  # own rows are drawn as they fall
    dated, twice = raw.set_index("since"), raw.set_axis([7] * 300)
    ids = [table.index[17] for table in (pool, of(dated).pool(), of(twice).pool())]
    assert ids == ["row:17", "row:2020-01-18", "row:17"]
    above = of(outcome="age", above=40)
    assert (above.labels(above.pool()) == (raw["age"] > 40)).all()
    coded = raw.assign(ok=raw["ok"].map({True: 3, False: 7}))
    assert of(coded, positive=3).fingerprint
    assert of(outcome="shade", positive="Ja", others="no").fingerprint


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"protected": "sex", "outcome": "shade", "positive": "Ja"},
            "has 3 values.*offen",
        ),
        ({}, "load_task\\(frame, protected"),
        ({"protected": "sexx", "outcome": "ok"}, "no column 'sexx'"),
        ({"protected": "sex", "outcome": "sex"}, "outcome already"),
        (
            {"protected": "sex", "outcome": "member", "positive": "perhaps"},
            "'perhaps' is none of them",
        ),
    ],
)
def test_what_a_data_frame_lacks_is_said(options: dict[str, str], words: str) -> None:
    with refused(words):
        load_task(frame(), **options).pool()  # type: ignore[arg-type]
    with refused("has no rows"):
        load_task(frame().head(0), protected="sex", outcome="ok")
    with refused("only for a data frame"):
        load_task("census", outcome="sex")


# --- Drafted task files


text = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\n\x00"), min_size=1, max_size=10
)
name = text.map(str.strip).filter(lambda word: word not in ("", "sex", "y"))
value = st.one_of(
    st.integers(-5, 5).map(str), text.map(str.strip), st.just(""), st.just("NA")
)


def draft(
    folder: Path, frame: pd.DataFrame, separator: str = ",", index: bool = False
) -> Path:
    frame.to_csv(folder / "t.csv", sep=separator, index=index)
    return drafted(folder / "t.csv")


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from(",;\t|"))
def test_any_table_drafts(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, separator: str
) -> None:
    names = data.draw(st.lists(name, min_size=1, max_size=3, unique=True))
    cells = st.lists(value, min_size=12, max_size=12)
    drawn = pd.DataFrame({title: data.draw(cells) for title in names})
    frame = pd.concat([drawn, people(12, age=range(12))], axis=1)
    path = draft(tmp_path_factory.mktemp("draft"), frame, separator)
    fields = [item.name for item in read_taskfile(path).fields]
    assert fields == [str(title) for title in frame.columns]
    if not frame[names].isin(["", "NA", "?", "NaN", "nan"]).any(axis=None):
        assert len(load_task(path).pool()) == 12


@pytest.mark.parametrize(("cell", "kept"), [("red", 60), ("{k}", 20)])
def test_the_only_feature_stays_though_most_of_its_cells_are_missing(
    tmp_path: Path, cell: str, kept: int
) -> None:
    x = [cell.format(k=k) if k % 3 == 0 else None for k in range(60)]
    assert len(load_task(draft(tmp_path, people(60, x=x, y="1101"))).pool()) == kept


def test_an_index_that_was_written_along_is_left_out(tmp_path: Path) -> None:
    task = load_task(draft(tmp_path, people(6, x=[1.5, 2, 3]), index=True))
    assert [column.name for column in task.columns] == ["x", "sex", "y"]
    assert task.pool()["y"].tolist() == ["no", "yes", "yes"] * 2


def test_columns_of_one_name_are_read_once_if_they_are_equal(tmp_path: Path) -> None:
    frame = people(60, priors=range(7), again=range(7))
    path = draft(tmp_path, frame.rename(columns={"again": "priors"}))
    assert load_task(path).pool()["priors"].tolist() == frame["priors"].tolist()
    table = tmp_path / "t.csv"
    table.write_text(table.read_text() + "1,f,yes,2")
    with refused("more than once, and the columns differ"):
        drafted(table)


def test_codes_of_an_outcome_are_named_and_not_split_in_the_middle(
    tmp_path: Path,
) -> None:
    path = draft(tmp_path, people(60, x=range(60), y=range(1, 7)))
    asked = "# positive = […] # CHECK: name the values that mean yes, of 1 (10), 2 (10)"
    assert asked in path.read_text(encoding="utf-8")
    with refused(r'threshold = \{ above = NUMBER \} in place of others = "drop"'):
        load_task(path).pool()
    named = 'positive = ["1", "2"]\nnegative = ["3"]'
    pool = replaced(path, r"# positive = \[…\]", named)
    assert load_task(path).question == "Is “y” “1” or “2” in this case?"
    assert pool["y"].value_counts().to_dict() == {"yes": 20, "no": 10}


@pytest.mark.parametrize("share", [0.01, 0.2, 1])
@pytest.mark.parametrize("missing", [0, 0.2])
def test_a_unit_of_money_is_in_every_prompt_and_others_are_refused(
    rng: Generator, tmp_path: Path, share: float, missing: float
) -> None:
    pay = pd.Series(rng.integers(99, 999, 400).astype(str))
    pay += np.where(rng.random(400) < share, " EUR", "")
    pay = pay.mask(rng.random(400) < missing, "k.A.")
    task = load_task(draft(tmp_path, people(400, pay=pay)))

    def shown(cell: str) -> str:
        return str(build_prompt(task, {"pay": cell, "sex": "f"})[-1]["content"])

    assert re.search(r"pay: (500|\d+ to \d+) EUR\n", shown("500 €"))
    with refused("units differ"):
        shown("500 $")
    if missing:
        assert "pay: unknown\n" in shown("k.A.")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"note": ["x" * 5] * 50 + ["x" * 1000] * 10}, "free text, 2 different texts"),
        ({"x": range(60)}, ""),
        (
            {
                "x": [
                    f"{k}" if k % 2 else "ab"[k % 4 // 2] * min(k, 54)
                    for k in range(1, 61)
                ]
            },
            "58 different texts, of which 30 are numbers, are too many",
        ),
        (
            {"x": ["abcde"[k % 5] if k % 5 == 4 else f"{k}" for k in range(60)]},
            "taken for missing: 'e' (12 times",
        ),
        (
            {"x": [f"w{k % 3}" if k % 2 else f"{k % 8}" for k in range(60)]},
            "30 of 60 values are numbers like '0', others texts like 'w1'",
        ),
        ({"who": [f"P{k}" for k in range(30)]}, "cluster='who'"),
        ({"email": [f"{k}@a.org" for k in range(25)]}, "cluster='email'"),
        ({"applicant_id": range(12)}, "='applicant_id'"),
        ({"tract_population": range(0, 420, 7)}, ""),
        ({"last_result": ["gut", "schlecht", "offen"]}, "another outcome"),
        ({"BranchID": range(12)}, "codes of places"),
        ({"Bezirk": range(12)}, "codes of places"),
        ({"area_code": range(12)}, "codes of places"),
        ({"trade_code": range(13)}, "codes, no quantities?"),
        ({"x": [f"{k:02}" for k in range(17)]}, "codes, no quantities?"),
        (
            {
                "sex": [
                    ("STRASSE" if k & 8 else "strasse") + " " * (k % 4)
                    for k in range(60)
                ]
            },
            "spellings of one group count as one",
        ),
    ],
)
def test_bad_columns_are_a_check(
    tmp_path: Path, columns: dict[str, Sequence[object]], words: str
) -> None:
    usual = {"sex": "fm", "age": range(60), "y": ["yes", "no"]}
    path = write_csv(tmp_path / "t.csv", cycled(60, **usual | columns))
    checks = " | ".join(checks_of(draft_task(path, ["sex"], "y", tmp_path)))
    assert words in checks
    assert "levels, some with few rows" not in checks


def test_a_table_that_no_prompt_can_show_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    wide = [f"c{k}" for k in range(2000)]
    path.write_text(
        "\n".join([",".join(["sex", "y", *wide]), *["f,1" + ",0" * 2000] * 3])
    )
    with refused("2,002 columns are more than the 1,000"):
        draft_task(path, ["sex"], "y", tmp_path)


@pytest.mark.parametrize(("cells", "number", "unit"), corpus("cells/factors"))
def test_factors_are_multiplied_beside_any_currency(
    cells: list[str], number: float, unit: str
) -> None:
    look = profile_column("amount", pd.Series(cells * 20))
    assert (look.kind, look.unit) == ("numeric", unit)
    assert look.number(cells[0]) == number
    assert look.why


@pytest.mark.parametrize(
    ("given", "number"),
    [("1.9k", 1900), ("1.9K", 1900), ("2 Tsd.", 2000), (1850.5, 1850.5)],
)
def test_a_record_has_any_factor_where_the_table_has_one(
    tmp_path: Path, given: str | float, number: float
) -> None:
    pay = [7 * n if n % 2 else "1.9k" for n in range(90)]
    task = load_task(draft(tmp_path, people(pay=pay)))
    assert task.record({"pay": given, "sex": "f"}).values["pay"] == number


@pytest.mark.parametrize(
    ("separator", "rate", "other", "number", "doubt"), corpus("cells/separators")
)
def test_numbers_that_mean_two_are_read_as_the_other_columns_are_written(
    tmp_path: Path, separator: str, rate: str, other: str, number: float, doubt: str
) -> None:
    rates = [rate, *(f"{n}{rate[1:]}" for n in range(2, 61))]
    amounts = [f"{n}{other[1:]}" for n in range(1, 8)]
    path = draft(tmp_path, people(60, rate=rates, amount=amounts), separator)
    assert load_task(path).pool()["rate"].iloc[0] == number
    said = path.read_text(encoding="utf-8")
    assert (" is read as " in said) == bool(doubt)
    assert doubt in said


@pytest.mark.parametrize(
    ("cells", "doubt"),
    [
        (["text0"] * 9 + [*map(str, range(200, 260))], "no numbers: 'text0'"),
        ([f"a{k}" if k % 12 == 0 else str(k) for k in range(60)], "no numbers: 'a0'"),
    ],
)
def test_texts_among_numbers_are_neither_a_unit_nor_people(
    cells: list[str], doubt: str
) -> None:
    look = profile_column("x", pd.Series(cells * 2))
    assert (look.kind, look.role, look.unit) == ("numeric", "feature", "")
    assert doubt in look.why


def test_a_scale_that_means_two_is_left_out() -> None:
    look = profile_column("amount", pd.Series(["1.1T", "10M", "100K", "1M"] * 20))
    assert (look.kind, look.role) == ("numeric", "drop")
    assert "units differ" in look.why


def units(folder: Path, other: str) -> Path:
    """A draft about amounts of which one has another unit than the rest."""
    pay = [f"{20 + k} €" for k in range(90)]
    pay[40] = other
    return draft(folder, people(pay=pay, n=range(31)))


def test_amounts_in_two_currencies_are_no_numbers(fwc: Run, tmp_path: Path) -> None:
    """5 $ is never shown as 5 €: the draft leaves them out, and a task with them is refused."""
    task = units(tmp_path, "50 EUR")
    whole = task.read_text(encoding="utf-8")
    assert "units differ" not in whole
    units(tmp_path, "5 $")
    checked = fwc("task", "check", task, code=0).words
    said = "units differ: € (89), $ (1); convert the numbers to one unit"
    assert said in checks(task)
    assert said in checked
    assert "left out: pay" in checked
    task.write_text(whole, encoding="utf-8")
    assert "units differ in the numeric column 'pay', € and $" in (
        fwc("task", "check", task, code=2).line
    )


@pytest.mark.parametrize("sign", ["$", "£", "USD", "%"])
def test_a_record_in_another_unit_is_refused_as_in_the_table(
    tmp_path: Path, sign: str
) -> None:
    task = load_task(units(tmp_path, "1.040,00 €"))
    row = {"sex": "f", "n": 5}
    assert task.record({**row, "pay": "1.050 Euro"}).values["pay"] == 1050
    with refused(f"'50,00 {re.escape(sign)}': units differ"):
        task.record({**row, "pay": f"50,00 {sign}"})


@pytest.mark.parametrize(
    ("groups", "doubt"),
    [
        (["1", "2", "9"], "In g, 9 may be a code for a missing value"),
        (["1", "2", "-1"], "In g, -1 may be a code for a missing value"),
        (["2023-01-02", "2023-02-03"], "g holds dates, and each is a group"),
        (["7", "8", "9"], "In g, 7, 8, 9 are codes: say what they mean in [values]"),
        (["white", "black"], ""),
    ],
)
def test_a_doubt_about_groups_is_in_the_draft_and_in_its_check(
    fwc: Run, tmp_path: Path, groups: list[str], doubt: str
) -> None:
    write_csv(tmp_path / "t.csv", cycled(90, g=groups, x=range(90), y="yynnn"))
    init = f"task init {tmp_path / 't.csv'} --protected g --outcome y"
    drafted = fwc(init, code=0).out
    checked = fwc("task", "check", tmp_path / "t.toml", code=0).out
    for said in (drafted, (tmp_path / "t.toml").read_text(), checked):
        assert doubt in said
        assert doubt or "a group" not in said


@pytest.mark.parametrize(("cells", "said"), corpus("cells/two_units"))
def test_two_units_of_one_quantity_are_a_check(
    tmp_path: Path, cells: list[str], said: str
) -> None:
    sizes = [cells[n % len(cells)].format(n + 50) for n in range(90)]
    path = draft(tmp_path, people(size=sizes, n=range(31), y=["no", "yes"]))
    text = path.read_text(encoding="utf-8")
    assert said in text
    assert not re.search("no numbers| nan", text)
    with refused("units differ") as caught:
        replaced(path, 'role = "drop"', 'kind = "numeric", strip_suffix = "g"')
    assert "missing_marker" not in str(caught.value)


@pytest.mark.parametrize(("cells", "unit", "doubt"), corpus("cells/units"))
def test_a_unit_is_one_by_any_spelling_and_an_unknown_one_stands_with_most_numbers(
    cells: list[str], unit: str, doubt: str
) -> None:
    k = range(20, 80)
    texts = [cells[n % len(cells)].format(n) for n in k]
    look = profile_column("x", pd.Series(texts, index=[f"t:{n}" for n in k]))
    assert (look.kind, look.role, kind_of(look.unit)) == ("numeric", "feature", unit)
    assert doubt in look.why
    assert all(look.number(text) >= 20 for text in {*texts} - {*look.odd})


@pytest.mark.parametrize(("form", "number"), corpus("cells/marks"))
@pytest.mark.parametrize("share", [0.2, 0.6, 1.0])
def test_numbers_with_marks_are_numbers_whatever_their_share(
    form: str, number: float, share: float
) -> None:
    plain = re.sub(r"[^\d{},.E+ ]|\+$|\+ |or more", "", form).strip(" .")
    cells = [
        (form if k < 100 * share else plain).format(21 + k % 70) for k in range(100)
    ]
    look = profile_column("amount", pd.Series(cells))
    assert (look.kind, look.role, look.odd) == ("numeric", "feature", ())
    assert look.number(cells[0]) == number


def test_ranges_among_numbers_are_no_people() -> None:
    texts = [
        "<20%",
        "20%-<30%",
        "30%-<36%",
        "50%-60%",
        ">60%",
        *map(str, range(36, 60)),
    ]
    look = profile_column("debt_to_income_ratio", pd.Series(texts * 4))
    assert look.kind == "categorical"
    assert "others texts like" in look.why
    assert "people" not in look.why


def test_a_ticked_box_is_a_category() -> None:
    look = profile_column("waived", pd.Series(["x", None] * 40))
    assert (look.role, look.kind) == ("feature", "categorical")
    assert profile_column("year", pd.Series(["2024", None] * 40)).role == "drop"


def test_what_may_be_decided_by_or_stand_for_people_is_a_check(tmp_path: Path) -> None:
    outcomes = {
        "approved": "NYY",
        "status": ["denied", *["granted"] * 4],
        "Rückzahlung": ["nein", *["ja"] * 4],
        "repaid": ["no", *["yes"] * 4],
    }
    more = {"state_code": ["TX", *["OH"] * 6], "y": ["no", "yes", "yes", "yes"]}
    path = draft(tmp_path, people(age_of_car=range(31), **outcomes, **more))
    for name in outcomes:
        assert f"column {name}: it looks like another outcome" in checks(path)
    assert "column state_code: it may stand for a protected group" in checks(path)


def test_an_ellipsis_in_a_question_is_asked_for() -> None:
    with refused(r'question still has ….*question="'):
        load_task(frame(), protected="sex", outcome="ok", question="Is it …?")


def test_a_column_that_a_frames_draft_drops_comes_back_as_the_error_says(
    tmp_path: Path,
) -> None:
    table = frame().assign(since=lambda rows: rows["since"].dt.floor("7D"))
    task = load_task(table, protected="sex", outcome="ok")
    with refused(r"task\.text .*t\.toml .*Parquet .*'table'") as said:
        task.column("since")
    role = re.search('write (role = "extra")', str(said.value))
    assert role
    text = task.text.replace('text = "since", role = "drop"', role[1])
    (tmp_path / "t.toml").write_text(text, encoding="utf-8")
    table.to_parquet(tmp_path / "table")
    again = load_task(tmp_path / "t.toml")
    assert again.column("since").role == "extra"
    assert len(again.pool()) == len(table)
    with refused(r"a weight needs load_task\(.*weight='age'\)"):
        with_columns(task, "age", "")
    assert load_task(table, protected="sex", outcome="ok", weight="age").rules.weight


def test_a_frames_question_is_in_its_frozen_task(tmp_path: Path) -> None:
    task = load_task(frame(), protected="sex", outcome="ok", question="Is it fine?")
    task.freeze(tmp_path / "t.json")
    assert load_task(tmp_path / "t.json").question == "Is it fine?"


def test_no_band_ends_at_the_number_of_a_mark(tmp_path: Path) -> None:
    """Nor if a code for missing is above it; the remedy for the code keeps other words."""
    ages = [*range(18, 78), *["80+"] * 20, *["unknown"] * 20, *["999"] * 20]
    frame = people(240, age=ages)
    path = draft(tmp_path, frame)
    assert checks(path).count('"unknown" can be a band') == 1
    code = re.search(r"then (missing_marker = .*?) in this column", checks(path))
    assert code is not None
    pools = load_task(path).pool(), replaced(path, r"missing_marker = .*?\]", code[1])
    for pool, unknown in zip(pools, (40, 80), strict=True):
        (band,) = {*pool["age"][(frame["age"] == "80+").to_numpy()]}
        assert band.startswith("above")
        assert (pool["age"] == "unknown").sum() == unknown


@pytest.mark.parametrize(
    ("column", "cells"), [("km", ["22 k?m", "x22km"]), ("pay", ["many", "lots"])]
)
def test_a_remedy_for_texts_among_numbers_works_as_printed(
    tmp_path: Path, column: str, cells: list[str]
) -> None:
    distances = [f"{n}km" for n in range(1, 91)]
    frame = people(km=distances, pay=[10.0 * n for n in range(71)])
    frame.loc[8::9, "pay"] = None
    path = draft(tmp_path, frame)
    frame.loc[[5, 7], column] = cells
    write_csv(tmp_path / "t.csv", frame)
    written = "missing_marker = .*?(?= in this column)"
    line = remedy(path, "are not finite numbers", written)
    name = f'name = "{column}",'
    assert len(replaced(path, name, f"{name} {line},")) >= 88
