"""What the page on gates shows can be run: its test, the workflow, its conditions."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from fwc_llm import IncompleteRunError, Result
from fwc_llm.gates import parse_condition

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "gates.md").read_text(encoding="utf-8")


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```", PAGE, re.S | re.M)
    assert found
    return found[1]


@pytest.mark.slow
def test_the_example_is_a_test_that_passes(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile(block("python"), "gates.md", "exec"), names)
    names["test_the_prompt_keeps_to_parity"](tmp_path)
    whole = Result(tmp_path / "run", {"unanswered": 2, "requests": 400})
    with pytest.raises(IncompleteRunError, match="2 of 400 requests have no reply; no gate was decided"):
        whole.check("dp > 0.1")


def workflow() -> dict[str, str]:
    step = yaml.safe_load(block("yaml"))["jobs"]["gate"]["steps"][1]
    assert step["uses"].startswith("fwc-llm/")
    given: dict[str, str] = step["with"]
    return given


def test_every_condition_of_the_page_can_be_read() -> None:
    conditions = [*re.findall(r'--fail-if "([^"]+)"', PAGE), *workflow()["fail-if"].splitlines()]
    assert len(conditions) >= 6
    for condition in [*conditions, 'dp["a]b"] > 0']:
        parse_condition(condition)


def test_the_workflow_gives_the_action_what_it_takes() -> None:
    action = yaml.safe_load((CHECKOUT / "action.yml").read_text(encoding="utf-8"))
    assert set(workflow()) <= set(action["inputs"])
