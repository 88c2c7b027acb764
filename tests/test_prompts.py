"""Prompts: golden conversations, and what a template may and may not do.

`python -m tests.test_prompts` writes the golden files anew; read the difference before committing
it.
"""

import json
import os
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.prompts import Prompt, build_prompt
from fwc_llm.shots.base import Example, Shots
from fwc_llm.tasks import Task, load_task
from tests.command import corpus, read_json
from tests.refusals import refused
from tests.wordings import CHATS, template_set

GOLDEN = Path(__file__).parent / "golden"
# Exact weights of eight examples: the largest is shown as 1.00, a tiny one as 0.01, zero not at
# all.
WEIGHTS = (3.2, 1.6, 1.1, 0.9, 0.7, 0.4995, 0.0005, 0.0)


def shots_of(task: Task, weighted: bool, n: int = len(WEIGHTS)) -> Shots:
    """The first rows of the pool as examples."""
    examples = []
    for position, (row, values) in enumerate(
        task.pool().head(n).to_dict("index").items()
    ):
        shown = {column.name: values[column.name] for column in task.shown}
        weight = WEIGHTS[position] if weighted else None
        examples.append(Example(str(row), shown, values[task.outcome], weight))
    return Shots("test", task.name, task.fingerprint, 0, tuple(examples))


def row_of(task: Task, position: int = 40) -> dict[str, Any]:
    return {
        str(name): value for name, value in task.test().iloc[position].to_dict().items()
    }


def conversations(task: Task, template: str) -> dict[str, Any]:
    """The three kinds of prompt for one row."""
    kinds = {
        "zero": None,
        "few": shots_of(task, False, 4),
        "weighted": shots_of(task, True),
    }
    return {
        kind: build_prompt(task, row_of(task), shots, template)
        for kind, shots in kinds.items()
    }


GOLDEN_CASES = (("adult", "default"), ("adult", "paper"), ("german", "default"))


@pytest.mark.parametrize(("name", "template"), GOLDEN_CASES)
def test_golden_conversations(built_in: Any, name: str, template: str) -> None:
    expected = read_json(GOLDEN / f"prompt-{name}-{template}.json")
    assert conversations(built_in(name), template) == expected


def test_weights_show_only_when_there_are_any_and_only_when_asked(adult: Task) -> None:
    weighted = shots_of(adult, True)
    for template in CHATS:
        shown = json.dumps(Prompt(adult, weighted, template).prefix)
        hidden = Prompt(adult, weighted, template, edits=("unweighted",)).prefix
        bare = tuple(
            replace(example, weight=None) for example in weighted.examples[:-1]
        )
        unweighted = Prompt(adult, replace(weighted, examples=bare), template).prefix
        assert all(
            f"{weight}" in shown for weight in ("1.00", "0.50", "0.34", "0.16", "0.01")
        )
        assert "0.00" not in shown
        assert hidden == unweighted  # the example of weight zero is left out either way
        assert "between 0" not in json.dumps(hidden)


def test_the_fixed_part_comes_first_and_the_row_last(adult: Task) -> None:
    shots = shots_of(adult, True)
    for template in CHATS:
        prompt = Prompt(adult, shots, template)
        one = prompt.build(row_of(adult, 1))
        other = prompt.build(row_of(adult, 2))
        assert one[:-1] == other[:-1] == prompt.prefix
        assert one[-1] != other[-1]
        assert one[-1]["role"] == "user"


def test_the_outcome_is_never_looked_at(adult: Task) -> None:
    row = row_of(adult)
    shots = shots_of(adult, True)
    for template in CHATS:
        without = build_prompt(
            adult, {k: v for k, v in row.items() if k != "income"}, shots, template
        )
        for outcome in ("yes", "no", "∞"):
            assert (
                build_prompt(adult, {**row, "income": outcome}, shots, template)
                == without
            )


def test_a_series_is_a_row_and_extras_show_only_where_named(adult: Task) -> None:
    row = adult.test().iloc[7]
    for template in CHATS:
        assert build_prompt(adult, row, None, template) == build_prompt(
            adult, row.to_dict(), None, template
        )
    unnamed = {name: value for name, value in row.to_dict().items() if name != "fnlwgt"}
    assert build_prompt(adult, unnamed) == build_prompt(adult, row)
    with refused("'fnlwgt'"):
        build_prompt(adult, unnamed, None, "decodingtrust")


def test_the_papers_own_row_is_serialised_as_the_paper_prints_it(adult: Task) -> None:
    printed = (
        "A person in 1996 has the following attributes: Age: 21.0, workclass: Private, "
        "education: Some-college, highest education level: 10.0, marital status: Never-married, "
        "occupation: Other-service, relationship: Own-child, race: White, sex: Female, "
        "capital gain: 0.0, capital loss: 0.0, hours per week: 25.0, native country: United-States"
    )
    values = (
        21,
        "Private",
        "Some-college",
        10,
        "Never-married",
        "Other-service",
        "Own-child",
        "White",
        "Female",
        0,
        0,
        25,
        "United-States",
    )
    names = [column.name for column in adult.shown if column.role != "extra"]
    row = dict(zip(names, values, strict=True))
    assert build_prompt(adult, row, None, "paper")[-1]["content"] == printed


@pytest.mark.slow
def test_wordings_made_for_adult_refuse_other_tasks(built_in: Any) -> None:
    german = built_in("german")
    for template in ("paper", "decodingtrust"):
        with refused(f"'{template}'.*adult or census.*'german'"):
            build_prompt(german, row_of(german), None, template)
        census = load_task("census")
        assert build_prompt(census, row_of(census), None, template)


def test_shots_of_another_task_and_what_is_no_row_are_refused(
    adult: Task, built_in: Any
) -> None:
    german = built_in("german")
    with refused(r"for the task 'german', not 'adult'"):
        build_prompt(adult, row_of(adult), shots_of(german, False))
    with refused("a row is a mapping or Series"):
        build_prompt(adult, [39, "Private"])  # type: ignore[arg-type]


# --- Templates of one's own


def test_a_folder_is_a_template_set_and_is_read_again_when_it_changes(
    adult: Task, tmp_path: Path
) -> None:
    folder = template_set(tmp_path / "mine")
    row = {**row_of(adult), "age": 33}
    assert build_prompt(adult, row, None, str(folder)) == [
        {"role": "user", "content": "33"}
    ]
    (folder / "query.j2").write_text(
        '{% call message("user") %}Age {{ row.raw["age"] }}?{% endcall %}'
    )
    os.utime(
        folder / "query.j2", ns=(1, 1)
    )  # a change within the clock's grain is a change too
    assert build_prompt(adult, row, None, folder) == [
        {"role": "user", "content": "Age 33?"}
    ]


@pytest.mark.parametrize(("query", "says"), corpus("mistakes/templates"))
def test_a_mistake_in_a_template_names_the_place(
    adult: Task, tmp_path: Path, query: str, says: str
) -> None:
    folder = template_set(tmp_path / "mine", query=query)
    with refused(says):
        build_prompt(adult, row_of(adult), None, folder)


def test_mistakes_in_other_files_name_them(adult: Task, tmp_path: Path) -> None:
    folder = template_set(tmp_path / "a", shots="{{ example.label }}")
    with refused(r"shots\.j2, line 1: 'example' is undefined"):
        build_prompt(adult, row_of(adult), shots_of(adult, False), folder)
    folder = template_set(
        tmp_path / "b",
        part="{% macro f() %}\n{{ x }}{% endmacro %}",
        query='{% from "part.j2" import f %}{% call message("user") %}{{ f() }}{% endcall %}',
    )
    with refused(r"part\.j2, line 2: 'x' is undefined"):
        build_prompt(adult, row_of(adult), None, folder)


def test_unknown_template_sets_are_refused_with_the_list(
    adult: Task, tmp_path: Path
) -> None:
    for wrong in ("papre", str(tmp_path / "nowhere"), ""):
        with refused("there are decision, decodingtrust, default, paper, or name"):
            Prompt(adult, None, wrong)
    (tmp_path / "system.j2").write_text("")
    with refused(r"is not a template set: it has no shots\.j2"):
        Prompt(adult, None, tmp_path)


@pytest.mark.parametrize("template", CHATS)
def test_a_probability_is_asked_for_in_the_place_of_a_word(template: str) -> None:
    """Examples keep their words: their labels are what happened, and no probabilities."""
    task = load_task("census")
    row = row_of(task)
    for shots in (None, shots_of(task, weighted=False)):
        words = build_prompt(task, row, shots, template)
        stated = build_prompt(task, row, shots, template, False, "probability")
        assert stated[1:-1] == words[1:-1]
        text = str([stated[0], stated[-1]])
        assert "number from 0 to 1" in text
        assert re.search("or '?no'?[.]", text) is None


def test_a_template_set_without_a_sentence_for_a_probability_is_named(
    tmp_path: Path,
) -> None:
    task = load_task("census")
    given: Any = {"template": template_set(tmp_path), "answer_format": "probability"}
    with refused("has no sentence that asks for a probability: write one between"):
        build_prompt(task, row_of(task), **given)


if __name__ == "__main__":
    for name, template in GOLDEN_CASES:
        text = json.dumps(
            conversations(load_task(name), template), indent=1, ensure_ascii=False
        )
        (GOLDEN / f"prompt-{name}-{template}.json").write_text(text + "\n")


# --- The template set `decodingtrust` against every recorded conversation


Key = tuple[str, ...]


@pytest.fixture(scope="module")
def rows(adult: Task) -> dict[Key, list[dict[Any, Any]]]:
    """The rows of adult.data and adult.test by what their description says."""
    names = [column.name for column in adult.shown]
    found: dict[Key, list[dict[Any, Any]]] = defaultdict(list)
    for row in (*adult.pool().to_dict("records"), *adult.test().to_dict("records")):
        found[tuple(str(row[name]) for name in names)].append(row)
    return found


def described(text: str) -> Key:
    """What a description says of each column, in the file's order."""
    said = text.partition("attributes: ")[2].partition(".\n")[0]
    return tuple(part.rpartition(" ")[2] for part in said.split(", "))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "m"),
    [
        ("gpt-4-0314_adult_0_200.jsonl", 0),
        ("gpt-4-0314_adult_0_200_8.jsonl", 0),
        ("gpt-4-0314_adult_4_200.jsonl", 4),
        ("gpt-4-0314_adult_16_200.jsonl", 16),
        ("gpt-3.5-turbo-0301_adult_0_200.jsonl", 0),
    ],
)
def test_every_recorded_conversation_is_reproduced(
    adult: Task,
    rows: dict[Key, list[dict[Any, Any]]],
    data_dir: Path,
    file: str,
    m: int,
) -> None:
    recorded = read_json(data_dir / "gpt4-answers" / file)
    assert len(recorded) == 200
    for messages, _ in recorded:
        examples = []
        for question, answer in zip(messages[1:-1:2], messages[2:-1:2], strict=True):
            label = answer["content"].lower()
            row = next(
                row
                for row in rows[described(question["content"])]
                if row["income"] == label
            )
            examples.append(Example("adult.data", row, label))
        assert len(examples) == m
        if m:
            shots = Shots("recorded", "adult", adult.fingerprint, 0, tuple(examples))
        else:
            shots = None
        row = rows[described(messages[-1]["content"])][0]
        assert build_prompt(adult, row, shots, "decodingtrust") == messages
