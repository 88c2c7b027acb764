"""The public functions explain every parameter they take."""

import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

PUBLIC = [
    ("fwc_llm", "load_task"),
    ("fwc_llm", "select_shots"),
    ("fwc_llm", "build_prompt"),
    ("fwc_llm", "evaluate"),
    ("fwc_llm", "Settings"),
    ("fwc_llm", "Client"),
    ("fwc_llm.coreset", "FairCoreset"),
    ("fwc_llm.coreset", "FairWASP"),
    ("fwc_llm.coreset", "fair_transport"),
    ("fwc_llm.models", "open_model"),
    ("fwc_llm.models.openai.chat", "ChatModel"),
    ("fwc_llm.shots", "load_shots"),
    ("fwc_llm.shots", "save_shots"),
    ("fwc_llm.runs.splits", "draw_split"),
    ("fwc_llm.metrics", "group_metrics"),
    ("fwc_llm.answers", "parse_answer"),
    ("fwc_llm.answers", "p_yes"),
]


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=str)
def test_every_parameter_is_explained(module: str, name: str) -> None:
    documented: Callable[..., Any] = getattr(importlib.import_module(module), name)
    words = set(re.findall(r"\w+", inspect.getdoc(documented) or ""))
    parameters = [
        parameter.name
        for parameter in inspect.signature(documented).parameters.values()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    assert [parameter for parameter in parameters if parameter not in words] == []
