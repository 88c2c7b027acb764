"""Task files: what they say, and a clear complaint for every mistake in one."""

from pathlib import Path

import pytest

from fwc_llm.taskfile import Column, choose, read_taskfile
from fwc_llm.tasks import load_task
from tests.command import corpus
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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        *corpus("mistakes/task_files"),
        (None, "a = " + "[" * 5000 + "]" * 5000, "is not a TOML file"),
    ],
)
def test_a_mistake_is_named(
    tmp_path: Path, old: str | None, new: str, message: str
) -> None:
    """What is written otherwise, at the end or in the place of all."""
    text = new
    if old is not None:
        text = GOOD.replace(old, new) if old else GOOD + new
    path = write(tmp_path, text)
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
