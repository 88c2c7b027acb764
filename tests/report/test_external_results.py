"""Results of other tools, audited as they are.

`external_results/promptfoo-0.121.20.json` (without its white space) and `mlflow-3.17.2.json` were written by
these versions: twelve applicants, hired by a rule that asks women for six years and men for four. The other
files follow the documentation, they are no recordings: OpenAI's SDK (`types/evals/runs`), Langfuse's field
reference of its exports, MLflow's `search_traces`. Logs of Inspect: `tests/inspect/test_log.py`.
"""

import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from openai.types.evals.runs import OutputItemListResponse

from fwc_llm.errors import FwcError
from fwc_llm.report.external_results import open_results
from tests.command import Run
from tests.faults.mutation import hostile

HERE = Path(__file__).parent / "external_results"
PEOPLE: list[dict[str, Any]] = [
    {"sex": ("man", "woman")[n % 2], "years": n, "hired": "yes" if n > 5 else "no"} for n in range(12)
]
REPLIES = ["Yes." if one["years"] > (6 if one["sex"] == "woman" else 4) else "No." for one in PEOPLE]
ASKED = ("--protected", "sex", "--answer", "decision", "--label", "hired", "--json")


def items() -> list[dict[str, Any]]:
    """Output items of OpenAI Evals, as its SDK reads them."""
    made = []
    for n, (person, reply) in enumerate(zip(PEOPLE, REPLIES, strict=True)):
        sample = {
            "error": {"code": "", "message": ""}, "finish_reason": "stop",
            "input": [{"role": "user", "content": "Hire?"}],
            "max_completion_tokens": 16, "model": "gpt-6-luna", "seed": 1, "temperature": 1.0, "top_p": 1.0,
            "output": [{"role": "assistant", "content": reply}],
            "usage": {"cached_tokens": 0, "completion_tokens": 1, "prompt_tokens": 9, "total_tokens": 10},
        }  # fmt: skip
        made.append({
            "id": f"o{n}", "object": "eval.run.output_item", "created_at": n, "datasource_item": person,
            "datasource_item_id": n, "eval_id": "e", "run_id": "r", "status": "pass",
            "results": [{"name": "match", "passed": True, "score": 1.0}], "sample": sample,
        })  # fmt: skip
        OutputItemListResponse.model_validate(made[-1], strict=True)
    return made


def written(kind: str, folder: Path) -> Path:
    """A file of the results of the twelve applicants, as another tool writes it."""
    pairs = list(zip(PEOPLE, REPLIES, strict=True))
    ending = "csv" if kind.endswith("csv") else "jsonl" if kind.endswith("lines") else "json"
    path = folder / f"{kind}.{ending}"
    if kind.startswith("evals"):
        lines = items()
        whole: Any = {"object": "list", "data": lines, "has_more": False}
        if kind == "evals stored lines":
            lines = [{"item": one, "sample": {"output_text": reply}} for one, reply in pairs]
    elif kind == "batch lines":
        whole = lines = [
            {"id": f"b{n}", "custom_id": f"c{n}", "error": None,
             "response": {"status_code": 200, "body": {
                 "model": "gpt-6-luna", "choices": [{"message": {"role": "assistant", "content": reply}}]}}}
            for n, reply in enumerate(REPLIES)
        ]  # fmt: skip
    elif kind.startswith("langfuse"):
        whole = lines = [
            {"id": f"{n}", "trace_id": f"t{n}", "input": "Hire?", "output": reply, "metadata": one}
            for n, (one, reply) in enumerate(pairs)
        ]
    else:
        whole = lines = [
            {"trace_id": f"t{n}", "request": json.dumps(one), "response": json.dumps(reply), "tags": {}}
            for n, (one, reply) in enumerate(pairs)
        ]
    if ending == "csv":
        cells = [{k: json.dumps(v) if isinstance(v, dict) else v for k, v in one.items()} for one in lines]
        pd.DataFrame(cells).to_csv(path, index=False)
    else:
        path.write_text("\n".join(map(json.dumps, lines)) if ending == "jsonl" else json.dumps(whole))
    return path


KINDS = [
    "promptfoo-0.121.20", "mlflow-3.17.2", "evals", "evals lines", "evals stored lines", "langfuse",
    "langfuse lines", "langfuse csv", "mlflow traces", "mlflow traces csv",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_applicants_from_every_tool(fwc: Run, tmp_path: Path, kind: str) -> None:
    path = HERE / f"{kind}.json" if "-" in kind else written(kind, tmp_path)
    outcome = fwc("audit", path, *ASKED, code=0)
    arm = json.loads(outcome.out)["statistics"]["sex"]["arms"][0]
    assert (arm["n"], arm["unanswered"]) == (12, 0)
    assert arm["accuracy"]["value"] == 1.0  # whole years: nobody is between the two bars


def test_a_results_page_of_another_tool(fwc: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    fwc("audit", HERE / "promptfoo-0.121.20.json", *ASKED[:-1], "--report", page, code=0)
    assert "promptfoo" in page.read_text()


BAD = {
    "a later version": ({"evalId": "e", "results": {"version": 4, "results": []}}, "results.version"),
    "somebody's object": ({"model": "x", "answers": []}, "the keys model, answers"),
    "another object of OpenAI": ({"object": "list", "data": [{"object": "eval.run"}]}, "row 1: object: "),
    "no such column": ({"object": "list", "data": items()[:1]}, "no column 'age'"),
}


@pytest.mark.parametrize("kind", list(BAD))
def test_what_is_not_known_is_refused(fwc: Run, tmp_path: Path, kind: str) -> None:
    document, reason = BAD[kind]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document))
    assert reason in fwc("audit", path, "--protected", "age", "--answer", "decision", code=2).err


def test_batch_output_takes_its_people_from_a_population(fwc: Run, tmp_path: Path) -> None:
    path = written("batch lines", tmp_path)
    pd.DataFrame(PEOPLE).assign(row=[f"c{n}" for n in range(12)]).to_csv(tmp_path / "all.csv", index=False)
    words = ("audit", path, "--protected", "sex", "--answer", "decision", "--key", "row")
    outcome = fwc(*words, "--population", tmp_path / "all.csv", "--json", code=0)
    assert json.loads(outcome.out)["statistics"]["sex"]["arms"][0]["n"] == 12
    table = open_results(path, path.read_bytes())
    assert table.texts("arm").tolist() == ["gpt-6-luna"] * 12
    path.write_text(path.read_text().replace("choices", "answers"))
    assert "response.body.choices[0].message.content" in fwc(*words, code=2).line


def test_damaged_files_are_read_or_refused_by_name(tmp_path: Path) -> None:
    rng, refused = random.Random(0), list[str]()
    paths = [
        HERE / f"{kind}.json" if "-" in kind else written(kind, tmp_path) for kind in [*KINDS, "batch lines"]
    ]
    for turn in range(400):
        path = paths[turn % len(paths)]
        lines = path.read_bytes().splitlines() if path.suffix == ".jsonl" else [path.read_bytes()]
        place = rng.randrange(len(lines))
        lines[place] = hostile(lines[place], rng)
        try:
            table = open_results(path, b"\n".join(lines))
            for title in table.titles:
                table.texts(title)
        except FwcError as error:
            refused.append(str(error) if path.name not in str(error) else "")
    assert 40 < len(refused) < 360
    assert not any(refused)
