"""`tune`: from a target to the examples that reach it, tested on rows that took no part in the choice."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.evaluation.tune import tune
from fwc_llm.models import Messages, Reply
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.prompts import build_prompt
from fwc_llm.runs.splits import row_values
from fwc_llm.shots import load_shots
from fwc_llm.tasks import Task, load_task
from tests.models.four_members import FourMembers

SMALL: dict[str, Any] = {
    "rows": 40, "n_test": 40, "candidates": 6, "strategies": ["strata", "random"], "progress": False,
}  # fmt: skip


class Counting:
    """The surrogate, which counts and can break off."""

    name = "surrogate"
    simulated = True

    def __init__(self, most: int = 10**9) -> None:
        self.asked: list[str] = []
        self.most = most

    @property
    def parameters(self) -> Mapping[str, Any]:
        return Surrogate().parameters

    async def ask(self, messages: Messages) -> Reply:
        if len(self.asked) >= self.most:
            raise ProviderError("the service has gone")
        self.asked.append(json.dumps(list(messages)))
        return Surrogate().reply(messages)

    async def aclose(self) -> None:
        pass


@pytest.fixture(scope="module")
def census() -> Task:
    return load_task("census")


@pytest.mark.slow
def test_it_chooses_tests_and_continues(census: Task, tmp_path: Path) -> None:
    first = Counting(most=150)
    with pytest.raises(ProviderError):
        tune(census, first, 0.3, out=tmp_path / "t", **SMALL)
    second = Counting()
    tuned = tune(census, second, 0.3, out=tmp_path / "t", **SMALL)

    assert tuned.shots is not None
    assert list((tmp_path / "t").rglob("shots.json")) == [tmp_path / "t" / "shots.json"]
    assert load_shots(tmp_path / "t" / "shots.json", census) == tuned.shots
    build_prompt(census, census.test().iloc[0], tuned.shots)
    assert tuned.result is not None
    assert [arm["arm"] for arm in tuned.result.arms] == ["tuned", "zero", "balanced", "fwc"]
    assert sum(line["chosen"] for line in tuned.front) == 1
    assert {line["rows"] for line in tuned.front} <= {10, 20, 40}

    # Pool rows, test rows and examples never meet, not even as equal rows.
    pool = census.pool()
    records = [json.loads(line) for line in (tmp_path / "t" / "journal.jsonl").read_text().splitlines()[1:]]
    raced = {record["row"] for record in records if record["arm"].startswith("pool ")}
    assert len(raced) == 40
    held = set(row_values(census, pool.loc[sorted(raced)]))
    tested = set(row_values(census, census.test().loc[tuned.result.answers()["row"].unique()]))
    chosen = set(row_values(census, pool.loc[[example.row for example in tuned.shots.examples]]))
    assert not held & tested
    assert not chosen & (held | tested)

    # What was answered before the break was not asked again, and a third call asks nothing.
    assert len(first.asked) == 150
    assert len(first.asked) + len(second.asked) == len({(r["request"]) for r in records})
    third = Counting()
    again = tune(census, third, 0.3, out=tmp_path / "t", **SMALL)
    assert third.asked == []
    assert (again.verdict, again.tuning) == (tuned.verdict, tuned.tuning)
    with pytest.raises(FwcError, match="holds another tuning \\(goal differs\\)"):
        tune(census, third, 0.2, out=tmp_path / "t", **SMALL)

    # The report shows front and test.
    page = tuned.result.report(tmp_path / "r.html").read_text(encoding="utf-8")
    text = tuned.result.report(tmp_path / "r.md").read_text(encoding="utf-8")
    for shown in (page, text):
        assert "How the examples were tuned" in shown
        assert "DP gap, pool rows" in shown
        assert shown.count("dropped") >= 1


@pytest.mark.slow
def test_a_model_that_ignores_its_examples_gets_none(census: Task, tmp_path: Path) -> None:
    options = SMALL | {"strategies": ["random"], "m": 4, "candidates": 3}
    tuned = tune(census, FourMembers(), 0.0, out=tmp_path / "t", **options)
    assert tuned.verdict.startswith("no candidate differs from zero-shot beyond noise")
    assert (tuned.shots, tuned.result, tuned.reached) == (None, None, False)
    assert not list((tmp_path / "t").rglob("shots.json"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_dp": 1.0}, "outside \\[0, 1\\)"),
        ({"target_dp": -0.1}, "outside \\[0, 1\\)"),
        ({"target_dp": float("nan")}, "outside \\[0, 1\\)"),
        ({"target": "dp_ratio=0"}, "outside \\(0, 1\\]"),
        ({"target": "kindness=0.1"}, "names no metric: choose one of dp, eo, dp_ratio"),
        ({"target": "eo=low"}, "has no number"),
        ({}, "name one target"),
        ({"target_dp": 0.1, "target": "eo=0.1"}, "name one target"),
        ({"target_dp": 0.1, "max_loss": -1}, "max-loss is -1"),
        ({"target_dp": 0.1, "rows": 8}, "at least 40 rows"),
        ({"target_dp": 0.1, "rows": 20000}, "rows to draw from, but .* are needed"),
        ({"target_dp": 0.1, "rows": 41}, "the nearest number that works is"),
        ({"target_dp": 0.1, "candidates": 0}, "candidates is 0"),
        ({"target_dp": 0.1, "strategies": ["flipped"]}, "examples that are not true"),
        ({"target_dp": 0.1, "strategies": ["nearest"]}, "chooses anew for every row"),
        ({"target_dp": 0.1, "m": 0}, "m is 0"),
        ({"target_dp": 0.1, "m": 50_000}, "but only .* rows may become examples"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    census: Task, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(FwcError, match=message):
        tune(census, FourMembers(), out=tmp_path / "t", **(SMALL | options))
    assert not (tmp_path / "t").exists()
