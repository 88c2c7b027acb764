"""Task files: what they say, and a clear complaint for every mistake in one."""

from pathlib import Path

import pytest

from fwc_llm.taskfile import Column, choose, read_taskfile
from fwc_llm.tasks import load_task
from tests.refusals import refused

GOOD = """
question = "Is it?"
columns = [
  { name = "age", kind = "numeric", unit = "years" },
  { name = "job_type", role = "extra", strip_suffix = "." },
  { name = "size", kind = "ordinal" },
  { name = "sex", text = "gender" },
  { name = "id", role = "id" },
  { name = "y" },
]
[values.size]
S = "small"
L = "large"
[data]
file = "data.csv"
[outcome]
column = "y"
positive = 1
[[protected]]
column = "sex"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "my.toml"
    path.write_text(text)
    return path


def test_what_a_task_file_says(tmp_path: Path) -> None:
    task = load_task(write(tmp_path, GOOD))
    assert task.name == "my"
    assert task.question == "Is it?"
    assert task.columns == (
        Column("age", "age", "numeric", unit="years"),
        Column("job_type", "job type", role="extra"),
        Column(
            "size",
            "size",
            "ordinal",
            values={"S": "small", "L": "large"},
            order=("S", "L"),
        ),
        Column("sex", "gender"),
        Column("y", "y"),
    )
    assert [column.name for column in task.features] == ["age", "size"]
    assert [column.name for column in task.shown] == ["age", "job_type", "size", "sex"]
    assert task.column("sex").text == "gender"
    with refused("has no column 'sexx'"):
        task.column("sexx")
    assert read_taskfile(tmp_path / "my.toml").outcome.positive == ("1",)
    assert load_task(
        write(tmp_path, "column_weights = { age = 2 }" + GOOD)
    ).rules.column_weights == {"age": 2.0}


def test_what_it_says_about_its_purpose_and_data(tmp_path: Path) -> None:
    task = load_task(
        write(
            tmp_path, GOOD + '[about]\nlimits = " few rows "\nintended_use = "none"\n'
        )
    )
    assert task.rules.about == {"intended_use": "none", "limits": "few rows"}
    assert not load_task(write(tmp_path, GOOD)).rules.about


# What is written otherwise (or at the end), and the words of the complaint.
BAD = {
    "no toml": (GOOD, "x,y\n1,2\n", "is not a TOML file"),
    "deep": (GOOD, "a = " + "[" * 5000 + "]" * 5000, "is not a TOML file"),
    "unknown key": (
        "question",
        "qestion",
        "unknown key 'qestion'; did you mean 'question'?",
    ),
    "empty question": ("Is it?", " ", "question: the text is empty"),
    "weight of no column": (
        "\nquestion",
        "column_weights = { aeg = 2 }\nquestion",
        "column_weights: there is no column 'aeg'; did you mean 'age'?",
    ),
    "protected that is none": (
        "\nquestion",
        'use_protected = "age"\nquestion',
        "'age': it is in the table, and not protected (role = \"feature\"); to protect it, add "
        "[[protected]] with column = 'age'",
    ),
    "protected that is dropped": (
        "columns = [",
        'use_protected = "zip"\ncolumns = [ { name = "zip", role = "drop" },',
        "'zip': it is in the table, and dropped (role = \"drop\"); to protect it, add",
    ),
    "negative weight": (
        "\nquestion",
        "column_weights = { age = -1 }\nquestion",
        "column_weights.age: ",
    ),
    "no columns": (GOOD, 'question = "?"', "columns: it is missing"),
    "bad missing": (
        "\nquestion",
        'missing = "ignore"\nquestion',
        "missing: input should be 'error', 'drop' or 'category'; found",
    ),
    "nameless column": ('name = "age", ', "", "columns[1].name: it is missing"),
    "unknown column key": (
        "unit =",
        "units =",
        "columns['age']: unknown key 'units'; did you mean 'unit'?",
    ),
    "column twice": ('"age"', '"sex"', "columns: 'sex' is named 2 times"),
    "ordinal without order": (
        'S = "small"\n',
        "",
        "column 'size': order = [lowest, …, highest]",
    ),
    "order of a number": ('unit = "years"', "order = [1, 2]", "order belongs to kind"),
    "values of nothing": (
        "[values.size]",
        "[values.sise]",
        "no column 'sise'; did you mean 'size'?",
    ),
    "unknown protected": (
        'column = "sex"',
        'column = "sx"',
        "no column 'sx'; did you mean 'sex'?",
    ),
    "protected twice": (
        "",
        '[[protected]]\ncolumn = "sex"\n',
        "protected: 'sex' is named 2 times",
    ),
    "protected outcome": (
        'column = "sex"',
        'column = "y"',
        "'y' is the outcome already",
    ),
    "map and threshold": (
        "",
        'map = { a = "b" }\nthreshold = { above = 1 }\n',
        "either a map or a threshold",
    ),
    "renamed for nothing": (
        "",
        'name = "gender"\n',
        "protected['gender']: name = 'gender' is for a derived",
    ),
    "a taken name": (
        "",
        'name = "age"\nmap = { a = "b" }\n',
        "'age' is a column of its own",
    ),
    "levels": (
        "",
        'threshold = { above = 1 }\nlevels = ["one"]\n',
        "names the two sides",
    ),
    "threshold": ("", "threshold = { over = 1 }\n", "write the threshold as"),
    "threshold nan": (
        "",
        "threshold = { above = nan }\n",
        "threshold: input should be a finite number",
    ),
    "unknown outcome": (
        'column = "y"',
        'column = "why"',
        "outcome: there is no column 'why'",
    ),
    "positive and threshold": (
        "positive = 1",
        "positive = 1\nthreshold = { above = 0 }",
        "not both",
    ),
    "base parity": ("\nquestion", "base_parity = 1.5\nquestion", "base_parity"),
    "separator": ("[outcome]", 'separator = ", "\n[outcome]', "data.separator: "),
    "outcome dropped": (
        'name = "y"',
        'name = "y", role = "drop"',
        "the outcome cannot be",
    ),
    "a long key": ("", "k" * 200000 + " = 1\n", "unknown key"),
    "file and pool": ("file =", 'pool = "a"\nfile =', "either file, or pool and test"),
    "pool is test": ('file = "data.csv"', 'pool = "a"\ntest = "a"', "the same file"),
    "url alone": (
        "[outcome]",
        'url = "http://a"\n[outcome]',
        "needs the sha256 of every file",
    ),
    "about at length": ("", f"[about]\nlimits = '{'x' * 4001}'\n", "at most 4000"),
    "no feature": (
        GOOD,
        GOOD.replace('"numeric", unit = "years"', '"numeric", role = "extra"').replace(
            '"ordinal"', '"ordinal", role = "drop"'
        ),
        "no feature is left",
    ),
}


@pytest.mark.parametrize(("old", "new", "message"), BAD.values(), ids=BAD)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = write(tmp_path, GOOD.replace(old, new) if old else GOOD + new)
    with refused() as caught:
        load_task(path)
    assert str(caught.value).startswith(f"{path}")
    assert message in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_an_unknown_task_names_those_there_are() -> None:
    with refused("unknown task 'adlut'; did you mean 'adult'"):
        load_task("adlut")


SPELLINGS = (
    'use_protected = [\n  "sex",\n]',
    "use_protected = 'sex'",
    '"use_protected" = "sex"',
    "",
)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_another_choice_of_protected_takes_the_place_of_the_files_own(
    tmp_path: Path, spelling: str
) -> None:
    limits = '[about]\nlimits = """\nuse_protected = "x"\n"""\n'
    offered = '[[protected]]\ncolumn = "size"\noptional = true\n'
    chosen = choose(
        read_taskfile(write(tmp_path, f"{spelling}{GOOD}{offered}{limits}")),
        "use_protected",
        ["size"],
    )
    assert [one.name for one in chosen.protected] == ["size"]
    assert chosen.about["limits"] == 'use_protected = "x"'


def test_another_weight_leaves_the_words_of_a_value_of_that_name(
    tmp_path: Path,
) -> None:
    text = GOOD.replace('S = "small"', 'S = "small"\nweight = "by weight"')
    column = '{ name = "w", kind = "numeric", role = "extra" }'
    text = text.replace('{ name = "y" }', f'{column},\n  {{ name = "y" }}')
    assert (
        'weight = "by weight"'
        in choose(read_taskfile(write(tmp_path, text)), "weight", "w").text
    )
