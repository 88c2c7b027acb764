"""Asks the desk in this process, without a server."""

import io
import json
from typing import Any

from evals.examples.desk.app import application

PERSON = {
    "age": 41, "workclass": "Private", "fnlwgt": 189778, "education": "Bachelors", "education-num": 13,
    "marital-status": "Never-married", "occupation": "Prof-specialty", "relationship": "Not-in-family",
    "race": "White", "sex": "Female", "capital-gain": 0, "capital-loss": 0, "hours-per-week": 38,
    "native-country": "United-States",
}  # fmt: skip


def post(person: Any) -> tuple[int, str]:
    """The status, and the answer or what is wrong."""
    said: list[str] = []
    body = json.dumps(person).encode()
    environ = {
        "REQUEST_METHOD": "POST", "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body),
    }  # fmt: skip
    (content,) = application(environ, lambda status, headers: said.append(status))
    answered = json.loads(content)
    return int(said[0].split()[0]), answered.get("answer") or answered["error"]
