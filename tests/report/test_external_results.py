"""Output of the Batch API is audited as it is; results of other tools by the page's recipe.

`external_results/promptfoo-0.121.20.json` (without its white space) was written by this version: twelve
applicants, hired by a rule that asks women for six years and men for four. Logs of Inspect:
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

from fwc_llm.errors import FwcError
from fwc_llm.report.external_results import open_results
from tests.command import Run
from tests.conftest import CHECKOUT
from tests.faults.mutation import hostile

PROMPTFOO = Path(__file__).parent / "external_results" / "promptfoo-0.121.20.json"
PEOPLE: list[dict[str, Any]] = [
    {"sex": ("man", "woman")[n % 2], "years": n, "hired": "yes" if n > 5 else "no"} for n in range(12)
]
REPLIES = ["Yes." if one["years"] > (6 if one["sex"] == "woman" else 4) else "No." for one in PEOPLE]


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """Output of the Batch API with the replies about the twelve applicants."""
    lines = []
    for number, reply in enumerate(REPLIES):
        choices = [{"message": {"role": "assistant", "content": reply}}]
        response = {"status_code": 200, "body": {"model": "gpt-6-luna", "choices": choices}}
        lines.append({"id": f"b{number}", "custom_id": f"c{number}", "error": None, "response": response})
    path = tmp_path / "batch.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_batch_output_takes_its_people_from_a_population(fwc: Run, batch: Path, tmp_path: Path) -> None:
    pd.DataFrame(PEOPLE).assign(row=[f"c{n}" for n in range(12)]).to_csv(tmp_path / "all.csv", index=False)
    words = ("audit", batch, "--protected", "sex", "--answer", "decision", "--key", "row")
    outcome = fwc(*words, "--population", tmp_path / "all.csv", "--json", code=0)
    assert json.loads(outcome.out)["statistics"]["sex"]["arms"][0]["n"] == 12
    table = open_results(batch, batch.read_bytes())
    assert table.texts("arm").tolist() == ["gpt-6-luna"] * 12
    batch.write_text(batch.read_text().replace("choices", "answers"))
    assert "response.body.choices[0].message.content" in fwc(*words, code=2).line


def test_the_recipe_of_the_page_reads_promptfoo(
    fwc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(PROMPTFOO, tmp_path / "results.json")
    monkeypatch.chdir(tmp_path)
    refused = fwc("audit", "results.json", "--protected", "sex", "--answer", "decision", code=2)
    assert "json_normalize" in refused.line
    page = (CHECKOUT / "docs" / "own-data.md").read_text()
    recipe, command = re.findall(
        r"```(?:python)?\n(.*?)```", page.split("## Results of other tools")[1], re.S
    )[:2]
    exec(recipe)
    outcome = fwc(*command.split()[1:], "--json", code=0)
    (arm,) = json.loads(outcome.out)["statistics"]["vars.sex"]["arms"]
    assert (arm["n"], arm["unanswered"]) == (12, 0)
    assert arm["accuracy"]["value"] == 1.0  # whole years: nobody is between the two bars


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
