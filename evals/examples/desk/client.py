"""Asks the desk in this process, without a server."""

from typing import Any

from fastapi.testclient import TestClient

from evals.examples.desk.app import app

PERSON = {
    "age": 41,
    "workclass": "Private",
    "education": "Bachelors",
    "education-num": 13,
    "marital-status": "Never-married",
    "occupation": "Prof-specialty",
    "relationship": "Not-in-family",
    "race": "White",
    "sex": "Female",
    "capital-gain": 0,
    "capital-loss": 0,
    "hours-per-week": 38,
    "native-country": "United-States",
}


def post(person: Any) -> tuple[int, str]:
    """The status, and the answer or what is wrong."""
    response = TestClient(app).post("/decisions", json=person)
    body = response.json()
    return response.status_code, body.get("answer") or str(body["detail"])
