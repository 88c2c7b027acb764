"""What the page on gates shows can be run: its test, the workflow, its conditions."""

import re
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from fwc_llm.gates import parse_condition

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "gates.md").read_text(encoding="utf-8")


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```", PAGE, re.S | re.M)
    assert found
    return found[1]


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
