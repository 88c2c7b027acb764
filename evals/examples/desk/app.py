"""A web handler that decides with a language model and saved examples.

POST a person as a JSON object: `{"answer": "yes" | "no"}` comes back. What the model does not answer with yes
or no goes to a person (503); a row that lacks an attribute is the caller's mistake (400).

`python -m evals.examples.desk.app` serves it on http://127.0.0.1:8080. `shots.json` holds the examples:

    fwc-llm shots --task census --strategy fwc --m 8 -o evals/examples/desk/shots.json
"""

import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any
from wsgiref.simple_server import make_server

from openai import OpenAI, OpenAIError

from fwc_llm import FwcError, Reply, Shots, Task, build_prompt, load_shots, load_task
from fwc_llm.answers import parse_answer

MODEL = "gpt-6-luna"
LARGEST = 100_000  # bytes of a request


@cache
def desk() -> tuple[Task, Shots, OpenAI]:
    """The task, the examples and the client: made once, at the first request."""
    return load_task("census"), load_shots(Path(__file__).with_name("shots.json")), OpenAI(timeout=20.0)


def decide(person: dict[str, Any]) -> str | None:
    """Return "yes", "no", or None where the model does not decide. `FwcError`: the row lacks a value."""
    task, shots, client = desk()
    messages: Any = build_prompt(task, person, shots)
    reply = client.chat.completions.create(model=MODEL, messages=messages, temperature=0, max_tokens=20)
    message = reply.choices[0].message
    return parse_answer(Reply(message.content or "", refusal=message.refusal is not None)).value


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer one request, as WSGI has it."""
    status, body = _answer(environ)
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(body).encode()]


def _answer(environ: dict[str, Any]) -> tuple[str, dict[str, str]]:
    if environ["REQUEST_METHOD"] != "POST":
        return "405 Method Not Allowed", {"error": "POST a person"}
    try:
        person = json.loads(environ["wsgi.input"].read(min(int(environ.get("CONTENT_LENGTH") or 0), LARGEST)))
        if not isinstance(person, dict):
            raise ValueError("it is no object")
        answer = decide(person)
    except (ValueError, FwcError) as error:
        return "400 Bad Request", {"error": str(error)}
    except OpenAIError:
        answer = None
    if answer is None:
        return "503 Service Unavailable", {"error": "no decision: a person has to look at this"}
    return "200 OK", {"answer": answer}


if __name__ == "__main__":
    with make_server("127.0.0.1", 8080, application) as server:
        server.serve_forever()
