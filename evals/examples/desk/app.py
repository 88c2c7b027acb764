"""A web service that decides with a language model, saved examples and a frozen task; it has no
table.

fwc-llm task freeze census -o evals/examples/desk/task.json
fwc-llm shots --task census --strategy fwc --m 8 -o evals/examples/desk/shots.json
uvicorn evals.examples.desk.app:app
"""

from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException
from openai import OpenAI, OpenAIError

from fwc_llm import FwcError, build_prompt, load_shots, load_task, parse_answer

FOLDER = Path(__file__).parent
TASK = load_task(FOLDER / "task.json")
SHOTS = load_shots(FOLDER / "shots.json", TASK)
app = FastAPI()
client = cache(lambda: OpenAI(timeout=20.0))


def decide(person: dict[str, Any]) -> str | None:
    """Return "yes", "no", or None where the model does not decide. `FwcError`: no such row was
    evaluated.
    """
    messages = build_prompt(TASK, person, SHOTS)
    create = client().chat.completions.create
    completion = create(
        model="gpt-6-luna", messages=messages, temperature=0, max_tokens=20
    )
    return parse_answer(completion, TASK).value


@app.post("/decisions")
def decision(person: dict[str, Any]) -> dict[str, str]:
    """Decide about a row of the table's file; 503 is for a person to look at."""
    try:
        answer = decide(person)
    except FwcError as error:
        raise HTTPException(422, str(error)) from error
    except OpenAIError:
        answer = None
    if answer is None:
        raise HTTPException(503, "no decision: a person has to look at this")
    return {"answer": answer}
