"""A template folder of someone else's: words of prompts it may decide, not how long and how large."""

import os
from pathlib import Path

import pytest

from fwc_llm.errors import FwcError
from fwc_llm.prompts import Prompt
from fwc_llm.tasks import census_task

TASK = census_task(60, 60)
GOOD = '{% call message("user") %}Is it? {{ row["age"] }}{% endcall %}'


def template(folder: Path, text: str) -> Path:
    for name in ("system.j2", "shots.j2"):
        (folder / name).write_text("")
    (folder / "query.j2").write_text(text)
    return folder


def render(folder: Path) -> str:
    return Prompt(TASK, template=folder).build(TASK.test().iloc[0])[-1]["content"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("evil", "words"),
    [
        ("{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}", "too long"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}", "too long"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
        ("{% set n = namespace(x='x' * 999) %}{% for a in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
         "too much memory"),
        ("{{ 'x' * 9999999999 }}", "too much memory"),
        ("{{ 'x'.ljust(9999999999) }}", "too much memory"),
        ("{{ 'x'|center(9999999999) }}", "too much memory"),
        ("{{ '%09999999999d' % 1 }}", "too much memory"),
        ("{{ 10 ** 100000000 }}", "number is too large"),
        ("{% call message('user') %}{{ 'x' * 20000000 }}{% endcall %}", "too many"),
        ("{{ 1.5|round(1000000000, 'floor') }}", "cannot be rounded"),
        ("{{ lipsum(1, false, 1000000000, 1000000001) }}", "lipsum"),
        ("{{ [1]|slice(1000000000)|map('length')|sum }}", "too long"),
        ("{% call message('user', name=range(3)) %}x{% endcall %}", "name of a message"),
        ("{{ ('<!---->' * 400000)|striptags }}", "striptags"),
    ],
    ids=range(15),
)  # fmt: skip
def test_work_and_memory_have_an_end(tmp_path: Path, evil: str, words: str) -> None:
    folder = template(tmp_path, evil + GOOD)
    with pytest.raises(FwcError, match=words):
        render(folder)


def test_an_ordinary_template_is_not_kept_from_its_work(tmp_path: Path) -> None:
    line = "{{ name }} = {{ value }}{{ '!' * 3 }} {{ 2 ** 10 }}\n"
    loop = f"{{% for name, value in row.attributes %}}{line}{{% endfor %}}"
    text = render(template(tmp_path, f"{{% call message('user') %}}{loop * 20}{{% endcall %}}"))
    assert text.count("1024") == 20 * (len(TASK.shown) - 1), (
        "all but the one column that templates must ask for"
    )


def test_half_a_character_and_a_pipe_are_no_obstacle(tmp_path: Path) -> None:
    text = render(template(tmp_path, "{% call message('user') %}{{ '\\ud800' }}{% endcall %}"))
    assert text == "\\ud800"
    (tmp_path / "query.j2").unlink()
    os.mkfifo(tmp_path / "query.j2")
    with pytest.raises(FwcError, match=r"query\.j2"):
        render(tmp_path)


def test_a_link_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "more.j2").symlink_to(tmp_path / "secret")
    folder = template(tmp_path / "set", "{% call message('user') %}{% include 'more.j2' %}{% endcall %}")
    with pytest.raises(FwcError, match=r"more\.j2"):
        render(folder)
