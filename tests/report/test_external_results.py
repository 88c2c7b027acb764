"""Output of the Batch API is audited as it is; results of other tools by the page's recipe.

`external_results/promptfoo-0.121.20.json` (without its white space) was written by this version:
twelve applicants, hired by a rule that asks women for six years and men for four. Logs of Inspect:
`tests/inspect/test_log.py`.
"""

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fwc_llm import audit
from fwc_llm.errors import FwcError
from fwc_llm.metrics.records import Records
from fwc_llm.report.external_results import open_results
from tests.command import Run, corpus
from tests.conftest import CHECKOUT
from tests.data.tables import cycled, write_csv
from tests.faults.mutation import hostile

PROMPTFOO = Path(__file__).parent / "external_results" / "promptfoo-0.121.20.json"
PEOPLE: list[dict[str, Any]] = [
    {"sex": ("man", "woman")[n % 2], "years": n, "hired": "yes" if n > 5 else "no"}
    for n in range(12)
]
REPLIES = [
    "Yes." if one["years"] > (6 if one["sex"] == "woman" else 4) else "No."
    for one in PEOPLE
]


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """Output of the Batch API with the replies about the twelve applicants."""
    lines = []
    for number, reply in enumerate(REPLIES):
        choices = [{"message": {"role": "assistant", "content": reply}}]
        response = {
            "status_code": 200,
            "body": {"model": "gpt-6-luna", "choices": choices},
        }
        lines.append(
            {
                "id": f"b{number}",
                "custom_id": f"c{number}",
                "error": None,
                "response": response,
            }
        )
    path = tmp_path / "batch.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_batch_output_takes_its_people_from_a_population(
    fwc: Run, batch: Path, tmp_path: Path
) -> None:
    pd.DataFrame(PEOPLE).assign(row=[f"c{n}" for n in range(12)]).to_csv(
        tmp_path / "all.csv", index=False
    )
    words = f"audit {batch} --protected sex --answer decision --key row"
    outcome = fwc(words, "--population", tmp_path / "all.csv", "--json", code=0)
    assert outcome.json["statistics"]["sex"]["arms"][0]["n"] == 12
    table = open_results(batch, batch.read_bytes())
    assert table.texts("arm").tolist() == ["gpt-6-luna"] * 12
    batch.write_text(batch.read_text().replace("choices", "answers"))
    assert (
        "no row has a reply of chat completions or of the Responses API"
        in fwc(words, code=2).line
    )


def _chat(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}


REFUSED = [
    (case["body"], 200, case["reason"])
    for case in corpus("bodies")
    if case["reason"] in ("refused", "filtered")
]


BLOCKED = {"error": {"code": "content_filter", "message": "content management policy"}}


@pytest.mark.parametrize(
    ("body", "status", "metric"), [*REFUSED, (BLOCKED, 400, "filtered")], ids=str
)
@pytest.mark.parametrize("column", ["--reply output", "--answer decision"])
def test_what_a_model_or_a_filter_refuses_is_no_denial(
    fwc: Run, tmp_path: Path, body: Any, status: int, metric: str, column: str
) -> None:
    """A quarter of the women have no answer, nor the name of a model; the others say yes as often
    as the men, in versions of one model, which are no arms.
    """
    lines = []
    for number in range(400):
        response = {"status_code": status, "body": body}
        if number % 8 != 1:
            said = _chat("Yes" if number // 2 % 2 else "No")
            said["model"] = f"gpt-6-version-{number % 3}"  # of one name
            response = {"status_code": 200, "body": said}
        line = {"custom_id": f"c{number}", "error": None, "response": response}
        lines.append(json.dumps(line))
    (tmp_path / "batch.jsonl").write_text("\n".join(lines))
    people = cycled(400, row=[f"c{number}" for number in range(400)], sex="mf")
    population = write_csv(tmp_path / "people.csv", people)
    words = f"audit {tmp_path / 'batch.jsonl'} {column} --protected sex --key row"
    words += f" --population {population} --fail-if '{metric}_gap > 0.1'"
    told = fwc(words, code=5).words
    what = f"{metric} for 0.0 % of m and 25.0 % of f, a {metric} gap of 25.0 points ("
    assert f"outside {what}" in told
    assert f": {metric} for 0.0 % of m and 25.0 % of f" in told


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        ("refused", "refused"),
        ("filtered", "filtered"),
        ("truncated", "truncated"),
        ("unfinished", "unfinished"),
        ("unread", "other"),
    ],
)
def test_a_rate_of_missing_answers_is_not_known_from_blanks(
    fwc: Run, tmp_path: Path, metric: str, reason: str
) -> None:
    lines = ["m,yes,", "m,no,", "f,,", "f,no,"] * 100
    path = tmp_path / "plain.csv"
    path.write_text("\n".join(["sex,said,reason", *lines]))
    words = f"audit {path} --answer said --protected sex"
    words += f" --fail-if '{metric}_gap > 0.1' --fail-if '{metric} > 0.1'"
    blank = fwc(words, code=6)
    assert blank.out.count("100 answers are missing for unknown reasons") == 3
    frame = pd.read_csv(path)
    blanks = audit(frame, answer="said", protected="sex")
    assert not blanks.statistics.rates("answers", metric)
    checked = blanks.check(f"{metric}_gap > 0.1")
    assert (checked.outcome, checked.lacking) == ("cannot say", "replies")

    frame["reason"] = frame["said"].isna().map({True: reason, False: ""})
    frame.to_csv(path, index=False)
    assert f"a {metric} gap of 50.0 points (" in fwc(words, code=5).out
    audited = audit(frame, answer="said", protected="sex")
    assert audited.check(f"{metric} > 0.1").outcome == "outside"
    rates = audited.statistics.rates("answers", metric)
    assert {name: record.value for name, record in rates.items()} == {
        "f": 0.5,
        "m": 0.0,
    }


def test_a_blank_reply_has_no_known_reason_without_a_word_on_its_end(
    fwc: Run, tmp_path: Path
) -> None:
    path = tmp_path / "replies.csv"
    path.write_text(
        "\n".join(["sex,said", *["m,Yes.", "m,No.", "f,", "f,I cannot help."] * 50])
    )
    words = f"audit {path} --reply said --protected sex --fail-if"
    outcome = fwc(words, "refused > 0.1", code=6)
    assert "100 of 200 replies hold no answer: blank 50, refused 50" in outcome.out
    pd.read_csv(path).assign(finish_reason="stop").to_csv(path, index=False)
    fwc(words, "refused > 0.1", code=5)
    frame = pd.read_csv(path).assign(
        refusal=[None, "false", "I can't help with that.", None] * 50
    )
    frame.to_csv(path, index=False)
    outcome = fwc(words, "refused > 0.4", code=5)
    assert "100 of 200 replies hold no answer: refused 100" in outcome.out


def test_the_recipe_of_the_page_reads_promptfoo(
    fwc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(PROMPTFOO, tmp_path / "results.json")
    monkeypatch.chdir(tmp_path)
    refused = fwc("audit results.json --protected sex --answer decision", code=2)
    assert "json_normalize" in refused.line
    page = (CHECKOUT / "docs" / "own-data.md").read_text()
    recipe, command = re.findall(
        r"```(?:python)?\n(.*?)```", page.split("## Results of other tools")[1], re.S
    )[:2]
    exec(recipe)
    outcome = fwc(command.partition(" ")[2], "--json", code=0)
    found = Records.read(outcome.json["records"], "vars.sex")
    accuracy = found.of("accuracy", "answers")
    assert (accuracy.n, accuracy.value) == (
        12,
        1.0,
    )  # whole years: nobody is between the bars


def test_damaged_files_are_read_or_refused_by_name(batch: Path) -> None:
    rng = random.Random(0)
    refused = list[str]()
    good = batch.read_bytes().splitlines()
    for _ in range(100):
        lines = good.copy()
        number = rng.randrange(len(lines))
        lines[number] = hostile(lines[number], rng)
        try:
            table = open_results(batch, b"\n".join(lines))
            for title in table.titles:
                table.texts(title)
        except FwcError as error:
            refused.append(str(error))
    assert 5 < len(refused) < 95
    assert all(batch.name in message for message in refused)
