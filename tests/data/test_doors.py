"""Every door reads a messy table alike: tasks and audits, of files and of frames."""

import re
import shlex
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from openpyxl import Workbook

from fwc_llm import FwcError, audit, load_task, select_shots
from fwc_llm.data.task_inference import draft_task
from fwc_llm.metrics.run_answers import RunAnswers
from fwc_llm.report.audit_answers import Audit
from fwc_llm.report.audit_file import audit_of_file
from fwc_llm.report.audit_options import AuditOptions
from fwc_llm.taskfile import checks_of
from fwc_llm.tasks import Task
from tests.command import Run, corpus
from tests.data.tables import drafted, write_csv
from tests.refusals import refused

N = 240
PAIRS = [*map(tuple, corpus("pairs"))]  # what means yes, and what means no
NOBODY_KNOWS = [("2", "1"), ("high", "low"), ("A", "B"), ("yes", "maybe")]
UNKNOWN = ["", "?", "NaN", "n/a", "keine Angabe", "prefer not to say", "unknown"]
THIRD = ["9", "pending"]
GROUPS = corpus("groups")
TYPED = [
    pd.Series([1.0, 2.0, None] * 80),
    pd.Series([True, False] * 120),
    pd.Series([1, 2, 99] * 80),
    pd.Series([1.5, 2.5, None] * 80),
]
Counts = dict[str, tuple[int, int]]


def audited(frame: Any, **options: Any) -> Audit:
    return audit(
        frame, **{"answer": "said", "protected": "group", "label": None, **options}
    )


def drafts(frame: pd.DataFrame, folder: Path) -> Path:
    """The task file that is drafted for the table."""
    return drafted(write_csv(folder / "t.csv", frame), "group", "said")


def agreed(frame: pd.DataFrame, folder: Path) -> Counts | str:
    """What every door finds."""
    found = {name: outcome_of(door) for name, door in doors(frame, folder).items()}
    (first, *others) = found.values()
    assert all(counts == first for counts in others), found
    return first


def of_task(task: Task) -> Counts:
    """Rows of each group by no and yes; a task leaves out whom it cannot use."""
    cells = task.cells_of(task.table).tolist()
    return {
        group: (no, yes) for group, (no, yes) in zip(task.groups, cells, strict=True)
    }


def of_answers(answered: RunAnswers) -> Counts:
    """Answers of each group by no and yes."""
    answers = answered.answers["answers"]
    counts = pd.crosstab(np.asarray(answers.group, object), answers.answer)
    counts = counts.reindex(columns=[0.0, 1.0], fill_value=0)
    return {str(group): (int(no), int(yes)) for group, no, yes in counts.itertuples()}


def task_of_file(path: Path) -> Counts:
    return of_task(load_task(drafted(path, "group", "said")))


def audit_of_a_file(path: Path, **options: Any) -> Counts:
    asked = AuditOptions(protected=("group",), answer="said", **options)
    return of_answers(audit_of_file(path, asked).crossed.answered)


def task_of_frame(frame: Any, **options: Any) -> Counts:
    return of_task(load_task(frame, protected="group", outcome="said", **options))


def audit_of_frame(frame: Any, **options: Any) -> Counts:
    return of_answers(audited(frame, **options).answered)


def doors(frame: pd.DataFrame, folder: Path) -> dict[str, Callable[[], Counts]]:
    """Each way to read the table."""
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t2.csv", index=False, sep=";", encoding="utf-16")
    frame.to_parquet(folder / "t.parquet")
    frame.to_json(folder / "t.jsonl", orient="records", lines=True)
    found: dict[str, Callable[[], Counts]] = {}
    for name in ("t.csv", "t2.csv", "t.parquet", "t.jsonl"):
        found[f"task of {name}"] = partial(task_of_file, folder / name)
        found[f"audit of {name}"] = partial(audit_of_a_file, folder / name)
    frames = {
        "pandas": frame,
        "Polars": pl.from_pandas(frame),
        "Arrow": pa.table(frame),
    }
    for name, one in frames.items():
        found[f"task of {name}"] = partial(task_of_frame, one)
        found[f"audit of {name}"] = partial(audit_of_frame, one)
    return found


def outcome_of(door: Callable[[], Counts]) -> Counts | str:
    """What a door finds; for a refusal the values that need a meaning."""
    try:
        return door()
    except FwcError as error:
        text = str(error)
        if "; say wh" in text:
            return text[text.index("has ") : text.index(":", text.index("say "))]
        return text


@settings(max_examples=6)
@given(
    st.sampled_from([*PAIRS, *NOBODY_KNOWS]),
    st.sampled_from([*UNKNOWN, *THIRD]),
    st.sampled_from(GROUPS),
    st.sampled_from(UNKNOWN),
    st.integers(0, 99),
)
@example(("Yes.", "No."), "keine Angabe", ("Québec", "Que\u0301bec"), "?", 0)
@example(("approved", "denied"), "pending", ("a & b", "c"), "n/a", 1)
@example(("2", "1"), "unknown", ("WH", "NA"), "", 2)
def test_every_door_reads_the_same_people_and_answers(
    tmp_path_factory: pytest.TempPathFactory,
    pair: tuple[str, str],
    no_answer: str,
    groups: tuple[str, str],
    no_group: str,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    said = rng.choice([*pair, no_answer], N, p=[0.4, 0.5, 0.1])
    group = rng.choice([*groups, "third", no_group], N, p=[0.3, 0.3, 0.3, 0.1])
    frame = answered().assign(group=group, said=said)
    found = agreed(frame, tmp_path_factory.mktemp("doors"))
    if pair in NOBODY_KNOWS or no_answer in THIRD:
        assert isinstance(found, str)
        assert found.startswith("has ")
    else:
        assert isinstance(found, dict)
        sums = [sum(counts) for counts in zip(*found.values(), strict=True)]
        assert sums == [(said == pair[1]).sum(), (said == pair[0]).sum()]


@pytest.mark.parametrize(
    ("yes", "no", "refusal"),
    [
        (["approved", "1.0"], ["0.0"], ""),
        (["1", "true"], ["0", "false"], ""),
        (["yes", "1"], ["no", "0"], ""),
        (["yes"], ["0"], ""),
        (["1,0"], ["0,0"], ""),
        (["100%"], ["0%"], "which means yes"),
        (["1"], ["0", "maybe"], "what to take 'maybe' for"),
    ],
)
def test_words_and_numbers_of_an_outcome_are_read_alike_and_as_typed(
    tmp_path: Path, yes: list[str], no: list[str], refusal: str
) -> None:
    said = np.random.default_rng(2).choice([*yes, *no], N)
    frame = answered().assign(said=said)
    found = agreed(frame, tmp_path)
    assert refusal in str(found)
    typed = {"positive": yes, "negative": no}
    of_frame = task_of_frame(frame, **typed)
    assert of_frame == audit_of_frame(frame, **typed)
    assert sum(count for _, count in of_frame.values()) == np.isin(said, yes).sum()
    if not refusal:
        assert found == of_frame


@pytest.mark.parametrize(("cells", "doubted"), corpus("codes"))
def test_codes_of_groups_are_the_same_groups_at_every_door(
    tmp_path: Path, cells: list[str], doubted: bool
) -> None:
    frame = answered(np.random.default_rng(0).choice(cells, N))
    found = agreed(frame, tmp_path)
    assert isinstance(found, dict)
    assert sum(map(sum, found.values())) == N
    draft = drafts(frame, tmp_path).read_text(encoding="utf-8")
    for said in (audited(frame).statistics.notes, checks_of(draft)):
        words = "may be a code for a missing value|holds dates"
        assert bool([note for note in said if re.search(words, note)]) == doubted


@pytest.mark.parametrize("group", TYPED, ids=lambda group: str(group.dtype))
def test_typed_and_written_groups_have_the_same_names(
    tmp_path: Path, group: pd.Series
) -> None:
    found = agreed(answered().assign(group=group), tmp_path)
    assert len(found) == group.nunique(dropna=False)


def test_unknown_groups_are_one_and_a_dropped_column_is_named_as_such() -> None:
    frame = answered(["f", "m", "Not disclosed"]).assign(zip=10115)
    task = load_task(frame, protected="group", outcome="said")
    for spelled in ("Not disclosed", "not disclosed", "n/a"):
        row = task.record({"group": spelled, "age": 30})
        assert row.values["group"] == "unknown"
    with refused(r"in the table, but left out.*weight='zip'"):
        select_shots(task, "fwc", 4, column_weights={"zip": 2})


@pytest.mark.parametrize("tick", ["x", "ja", "JA,ja", "✓", "approved"])
def test_an_empty_cell_means_no_at_every_door_if_the_caller_says_so(
    fwc: Run, tmp_path: Path, tick: str
) -> None:
    """A ticked box: rows without a tick are refusals, and messages offer it."""
    frame = answered()
    yes = frame["said"] == "yes"
    frame["said"] = np.where(yes, np.resize(tick.split(","), N), "")
    path = write_csv(tmp_path / "t.csv", frame)
    counts = task_of_frame(frame, negative="")
    assert sum(count for _, count in counts.values()) == yes.sum()
    assert audit_of_frame(frame, negative="") == counts
    assert audit_of_a_file(path, negative="") == counts
    draft = f"task init {path} --protected group --outcome said --force"
    offered = "if an empty cell means no, "
    assert f'{offered}negative = [""]' in fwc(draft, code=0).words
    assert "240 of 240 rows kept" in fwc(draft, "--negative", "", code=0).out
    assert of_task(load_task(tmp_path / "t.toml")) == counts
    ticked = f"audit {path} --protected group --answer said --positive {tick}"
    frame["born"] = frame["said"]
    for label in (None, "born"):  # both columns may be boxes
        with refused(f"{offered}negative=''"):
            audited(frame, label=label, positive=tick)
    assert f"{offered}--negative ''" in fwc(ticked, code=2).line
    found = fwc(f"{ticked} --missing drop", code=0).out
    assert f"{offered}--negative ''" in " ".join(found.split())
    both = fwc(f"{ticked} --negative never").words
    assert f"{N - yes.sum()} answers are missing, and each may be a yes or a no" in both
    for positive in (None, tick):
        with refused(f"{offered}negative=''"):
            task_of_frame(frame, positive=positive)


SUMS = [  # cells of group, age, and the outcome, of rows that sum others up
    [("Summe", 2000, None)],
    [("TOTAL:", 2000, "yes")],
    [("Σ Total", 2000, None), ("Mittelwert", 50, None)],
    [("Total général", 2000, "yes"), ("Итого", 2000, "no"), ("合計", 2000, "yes")],
    [("Total f", 1000, "yes"), ("Sub-total (n=20)", 1000, "yes")],
    [("all", 2000, None)],
]


@pytest.mark.parametrize("rows", SUMS, ids=lambda rows: rows[0][0])
@pytest.mark.parametrize(("ending", "at"), [("csv", 40), ("xlsx", 40), ("csv", 20)])
def test_rows_that_sum_the_others_up_are_named_at_every_door(
    fwc: Run, tmp_path: Path, rows: list[tuple[Any, ...]], ending: str, at: int
) -> None:
    people = answered().head(40).astype(object)
    sums = pd.DataFrame(rows, columns=people.columns)
    frame = pd.concat([people[:at], sums, people[at:]], ignore_index=True)
    path = tmp_path / f"t.{ending}"
    write = frame.to_csv if ending == "csv" else frame.to_excel
    write(path, index=False)
    seem = "seems to sum the others up: remove it"
    if len(rows) > 1:
        seem = "seem to sum the others up: remove them"
    words = [row[0] for row in rows]
    of_file, of_frame = (
        f"{', '.join(f'{word!r} in row {n}' for n, word in enumerate(words, at + start))} {seem}"
        for start in (2, 0)
    )
    drafted = fwc(f"task init {path} --protected group --outcome said", code=0).out
    assert of_file in " ".join(drafted.split())
    found = fwc(f"audit {path} --protected group --answer said", code=0).out
    assert of_file in " ".join(found.split())
    has_answer = any(row[2] for row in rows)
    assert has_answer or re.search(r"yes for \S+ % of [fm] and", found)
    assert f"{of_frame}." in audited(frame).answered.unused


@pytest.mark.parametrize("word", ["Total", "all", "Total SA", "Media"])
def test_a_group_or_a_value_with_the_name_of_a_sum_is_none(word: str) -> None:
    group = answered(["f", "m", word]).assign(empty=None)
    one = answered().assign(sector="IT")
    one.loc[7, "sector"] = "Media" if word in ("Total", "all") else word
    for frame in (group, one):
        notes = audited(frame).answered.unused
        assert not any("sum the others up" in note for note in notes)


def test_labels_that_are_missing_for_one_answer_are_told_at_every_door(
    fwc: Run, tmp_path: Path
) -> None:
    frame = answered()
    known = (frame["said"] == "yes") | (np.arange(N) % 9 == 0)
    born = np.random.default_rng(3).choice(["paid", "unpaid"], N)
    frame["repaid"] = np.where(known, born, "")
    frame["decision"] = frame.pop("said").map({"yes": "approved", "no": "denied"})
    path = write_csv(tmp_path / "t.csv", frame)
    shares = (frame["repaid"] == "").groupby(frame["decision"]).mean() * 100
    told = (
        f"missing for {shares['denied']:.1f} % of the rows with a no, and 0 % of those"
    )
    draft = fwc(f"task init {path} --protected group --outcome repaid", code=0).out
    assert told in " ".join(draft.split())
    asked = f"audit {path} --answer decision --label repaid --protected group"
    assert told in fwc(asked, code=2).line
    assert told in fwc(f"{asked} --missing drop", code=0).words
    even = frame.assign(repaid=np.where(np.arange(N) % 3 == 0, born, ""))
    for table, words in ((frame, told), (even, "missing for")):
        found = audited(table, answer="decision", label="repaid", missing="drop")
        assert (words in str(found.answered.unused)) == (words == told)


@pytest.mark.parametrize(
    "name", ["Sex, self-reported", 'the "sex"', '"sex", as told', "sex , given,twice"]
)
def test_a_column_with_commas_or_quotes_can_be_named(
    fwc: Run, tmp_path: Path, name: str
) -> None:
    frame = answered().rename(columns={"group": name})
    frame["race"] = ["a", "b", "b", "a"] * 60
    path = write_csv(tmp_path / "t.csv", frame)
    for typed in (f"{name},race", f"race,{name}"):
        asked = f"--protected {shlex.quote(typed)}"
        draft = fwc(f"task init {path} {asked} --outcome said --force", code=0).out
        assert f"column {name}: " in draft or "column age: " in draft
        assert f"by {name}" in fwc(f"audit {path} {asked} --answer said", code=0).out
    checked = fwc("task check", tmp_path / "t.toml", "--protected", name, code=0)
    assert f"Groups by {name}, " in checked.out


def test_a_column_is_found_in_both_unicode_forms(fwc: Run, tmp_path: Path) -> None:
    forms = [unicodedata.normalize(form, "Müde") for form in ("NFC", "NFD")]
    for title, typed in (forms, forms[::-1]):
        names = {"said": title, "group": f"{title}2"}
        frame = answered().rename(columns=names)
        path = write_csv(tmp_path / "t.csv", frame)
        asked = f"{path} --protected {typed}2"
        fwc(f"audit {asked} --answer {typed}", code=0)
        drafted = fwc(f"task init {asked} --outcome {typed} --force", code=0).out
        assert "240 of 240 rows kept" in drafted
        named: dict[str, Any] = {"protected": f"{typed}2"}
        of_frame = of_task(load_task(frame, outcome=typed, **named))
        assert audit_of_frame(frame, answer=typed, **named) == of_frame
        assert of_task(load_task(tmp_path / "t.toml")) == of_frame


def test_a_number_above_which_answers_mean_yes(fwc: Run, tmp_path: Path) -> None:
    frame = answered(["f", "Female", "m"])
    frame["points"] = np.random.default_rng(0).integers(300, 850, N)
    path = write_csv(tmp_path / "t.csv", frame)
    asked = f"audit {path} --protected group --answer points"
    assert "--above NUMBER" in fwc(asked, code=2).line
    with refused("above=NUMBER"):
        audited(frame, answer="points")
    yes = (frame["points"] > 600).groupby(frame["group"]).sum()
    found = audit_of_frame(frame, answer="points", above=600)
    assert {group: n for group, (_, n) in found.items()} == dict(yes)
    assert "60" in fwc(f"{asked} --above 600", code=0).out


@pytest.mark.parametrize(
    ("forms", "refusal"),
    [
        (["{}"], ""),
        (["{} %", "{} percent", "%{}", "{} Prozent"], ""),
        (["{} €"], ""),
        (["{}", "{}+", "{}*", "ca. {}"], ""),
        (["{} min"], ""),
        (["{}", "{} %"], "units differ|in one unit"),
        (["{} €", "{} $"], "units differ|in one unit"),
        (["{}", "{}", "pending"], "numeric column|not a number"),
    ],
    ids=str,
)
def test_numbers_beside_a_threshold_are_read_alike_at_every_door(
    tmp_path: Path, forms: list[str], refusal: str
) -> None:
    points = np.random.default_rng(0).integers(0, 100, N)
    said = [forms[k % len(forms)].format(point) for k, point in enumerate(points)]
    frame = answered().assign(said=said)
    path = write_csv(tmp_path / "t.csv", frame)
    answer = {"threshold": {"above": 60}}
    draft = draft_task(path, ["group"], "said", tmp_path, answer=answer)
    (tmp_path / "t.toml").write_text(draft, encoding="utf-8")
    if "pending" not in forms:
        with refused("above.NUMBER"):
            audit_of_a_file(path)
    for door in (
        lambda: task_of_frame(frame, above=60),
        lambda: of_task(load_task(tmp_path / "t.toml")),
        lambda: audit_of_frame(frame, above=60),
        lambda: audit_of_a_file(path, above=60),
    ):
        if refusal:
            with refused(refusal):
                door()
        else:
            counts = door()
            assert sum(yes for _, yes in counts.values()) == (points > 60).sum()
            assert sum(map(sum, counts.values())) == N


@pytest.mark.parametrize(
    "other",
    [
        "--answer '' --p-yes points",
        "--score points",
        "--reply said",
        "--answer points --positive 60",
        "--answer points --others no",
        "--answer points --positive-answer 60 --label said",
    ],
)
def test_a_number_above_which_answers_are_yes_goes_with_no_other_rule(
    fwc: Run, tmp_path: Path, other: str
) -> None:
    path = write_csv(tmp_path / "t.csv", answered().assign(points=np.arange(N)))
    shared = f"audit {path} --protected group --above 60"
    assert "--above" in fwc(f"{shared} {other}", code=2).line
    assert "yes for" in fwc(f"{shared} --answer points --label said --positive yes").out


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Female", "f", True),
        ("Asian; White", "White; Asian", True),
        ("02138", "2138", True),
        ("<20", ">20", False),
        ("0", "1", False),
        ("+", "-", False),
        ("A", "A+", False),
    ],
)
def test_two_groups_that_may_be_one_are_told_at_every_door(
    tmp_path: Path, one: str, other: str, alike: bool
) -> None:
    frame = answered([one, other, "m"])
    told = f"In group, {one} and {other} are two groups, and may be one"
    draft = drafts(frame, tmp_path).read_text(encoding="utf-8")
    for said in (audited(frame).statistics.notes, checks_of(draft)):
        assert any(told in note for note in said) == alike


def test_cells_that_are_merged_over_rows_are_refused(tmp_path: Path) -> None:
    book = Workbook()
    sheet = book.active
    for row in (
        ["people", None],
        ["sex", "said"],
        ["f", "yes"],
        [None, "no"],
        ["m", "no"],
    ):
        sheet.append(row)
    sheet.merge_cells("A1:B1")
    sheet.merge_cells("A3:A4")
    book.save(tmp_path / "t.xlsx")
    options = AuditOptions(protected=("sex",), answer="said", skip=1)
    with refused("cells A3 to A4 are merged"):
        audit_of_file(tmp_path / "t.xlsx", options)


@pytest.mark.parametrize("form", ["{}", "{} years", "€ {}.000", "ca. {}"])
def test_numbers_are_no_groups_at_any_door(tmp_path: Path, form: str) -> None:
    """One "80+" or another word among ages does not make groups of them."""
    ages = [form.format(20 + k % 60) for k in range(N - 3)]
    frame = answered([*ages, "80+", "80+", "nobody asked"])
    for door in doors(frame, tmp_path).values():
        with refused(r"6[0-2] numbers .* and 5[5-7] more.* at most 20"):
            door()


def test_a_map_makes_a_group_of_empty_cells(tmp_path: Path) -> None:
    frame = answered(["x", ""])
    path = drafts(frame, tmp_path)
    draft = path.read_text(encoding="utf-8")
    (line,) = [one for one in checks_of(draft) if "if an empty cell is a group" in one]
    group_map = line.rpartition("too, ")[2].partition(";")[0]
    path.write_text(f"{draft}{group_map}\n", encoding="utf-8")
    task = load_task(path)
    assert {*task.groups} == {*task.sensitive(frame)} == {"x", "no x"}
    assert task.record({"group": "", "age": 30}).values["group"] == "no x"
    assert "if an empty cell is a group" in str(audited(frame).answered.unused)


def answered(group: Sequence[Any] = "fm") -> pd.DataFrame:
    """A table whose column of groups repeats these cells."""
    rng = np.random.default_rng(1)
    said = rng.choice(["yes", "no"], N)
    group = np.resize(np.array([*group], object), N)
    return pd.DataFrame({"group": group, "age": rng.integers(20, 90, N), "said": said})


@pytest.mark.parametrize(("column", "third"), [("said", "withdrawn"), ("born", "")])
def test_rows_left_out_of_an_audit_are_counted_by_crossed_groups(
    column: str, third: str
) -> None:
    frame = answered().assign(race=["a", "b", "b", "a"] * 60)
    frame["born"] = frame["said"]
    frame.loc[:3, column] = third
    drop = {"others": "drop", "missing": "drop", "label": "born"}
    found = audited(frame, protected=["group", "race"], **drop)
    counts = "f & a 1, m & b 1, f & b 1, m & a 1."
    assert any(note.endswith(counts) for note in found.statistics.notes)


def test_few_people_without_a_group_are_unknown_to_an_audit_and_left_out_of_a_task(
    tmp_path: Path,
) -> None:
    """No example can be chosen from a group of four; a CHECK says so."""
    frame = answered([*"fm" * 118, *[""] * 4])
    for name, door in doors(frame, tmp_path).items():
        counts = door()
        unknown = counts.pop("unknown", (0, 0))
        assert sum(map(sum, counts.values())) == 236
        assert sum(unknown) == (4 if name.startswith("audit") else 0)
    checks = checks_of(drafts(frame, tmp_path).read_text(encoding="utf-8"))
    assert "have no known group and are left out" in str(checks)
