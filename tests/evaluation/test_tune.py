"""`tune`: from a target to the examples that reach it, tested on rows that took no part in the
choice.
"""

import json
import re
import shutil
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fwc_llm.errors import IncompleteRunError, ProviderError
from fwc_llm.evaluation.tune import tune
from fwc_llm.files import resource_dir
from fwc_llm.models import Client, Messages, Reply
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.prompts import build_prompt
from fwc_llm.runs import batch as batch_module
from fwc_llm.runs.splits import row_values
from fwc_llm.shots import load_shots
from fwc_llm.tasks import Task, census_task, load_task
from tests.command import Run, corpus, read_json
from tests.faults.batch_service import BatchService
from tests.faults.loopback import Service, refusal, serve_in_thread
from tests.models.four_members import FourMembers
from tests.people import make_people, write_people
from tests.refusals import refused

SMALL: dict[str, Any] = {
    "rows": 120,
    "n_test": 40,
    "candidates": 6,
    "strategies": ["strata", "random"],
    "progress": False,
}
LARGER = SMALL | {"m": 8, "candidates": 8, "n_test": 120}


class Counting(FourMembers):
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


@pytest.fixture(scope="module")
def census() -> Task:
    """Small: its tests are quick."""
    return census_task(1000, 600)


@pytest.mark.slow
def test_it_chooses_tests_and_continues(census: Task, tmp_path: Path) -> None:
    first = Counting(most=150)
    options = SMALL | {"out": tmp_path / "t"}
    with pytest.raises(ProviderError):
        tune(census, first, 0.3, **options)
    second = Counting()
    tuned = tune(census, second, 0.3, **options)

    assert tuned.shots is not None
    assert list((tmp_path / "t").rglob("shots.json")) == [tmp_path / "t" / "shots.json"]
    assert load_shots(tmp_path / "t" / "shots.json", census) == tuned.shots
    build_prompt(census, census.test().iloc[0], tuned.shots)
    assert tuned.result is not None
    assert tuned.result.arms == ("tuned", "zero", "balanced", "fwc")
    assert sum(line["chosen"] for line in tuned.front) == 1
    assert {line["rows"] for line in tuned.front} <= {36, 72, 120}
    assert sum(not line["dropped"] for line in tuned.front) == 6

    # Pool rows, test rows and examples never meet, not even as equal rows.
    pool = census.pool()
    journal = (tmp_path / "t" / "journal.jsonl").read_text()
    records = [json.loads(line) for line in journal.splitlines()[1:]]
    raced = {record["row"] for record in records if record["arm"].startswith("pool ")}
    assert len(raced) == 120
    judged = set(row_values(census, pool.loc[sorted(raced)]))
    tested = set(
        row_values(census, census.test().loc[tuned.result.answers()["row"].unique()])
    )
    chosen = set(
        row_values(census, pool.loc[[example.row for example in tuned.shots.examples]])
    )
    assert not judged & tested
    assert not chosen & (judged | tested)

    # What was answered before the break was not asked again, and a third call asks nothing.
    assert len(first.asked) == 150
    assert len(first.asked) + len(second.asked) == len(
        {(r["request"]) for r in records}
    )
    again = tune(census, Counting(most=0), 0.3, **options)
    assert (again.verdict, again.tuning) == (tuned.verdict, tuned.tuning)
    with refused("holds another tuning \\(goal differs\\)"):
        tune(census, second, 0.2, **options)

    # The report shows front and test.
    for name in ("r.html", "r.md"):
        shown = tuned.result.report(tmp_path / name).read_text(encoding="utf-8")
        for words in ("How the examples were tuned", "even the sign of", "dropped"):
            assert words in shown


def _age_and_group(text: str) -> tuple[int, str]:
    ((age, group),) = re.findall(r"age: (\d+).*?group: (\w)", text, re.DOTALL)
    return int(age), group


def heeds(messages: Messages) -> str:
    """Judges group a harder than b, unless more of a's examples than of b's are yes."""
    pairs = zip(messages[1:-1:2], messages[2::2], strict=True)
    shown = [
        (_age_and_group(row["content"])[1], reply["content"] == "yes")
        for row, reply in pairs
    ]
    yes = {
        group: np.mean([y for g, y in shown if g == group] or [0.0]) for group in "ab"
    }
    age, group = _age_and_group(messages[-1]["content"])
    if age > (45 if yes["a"] > yes["b"] else {"a": 65, "b": 25}[group]):
        return "yes"
    return "no"


def deaf(messages: Messages) -> str:
    return heeds([messages[0], messages[-1]])


def by_hash(messages: Messages) -> str:
    if zlib.crc32(json.dumps(list(messages)).encode()) % 2:
        return "yes"
    return "no"


@pytest.mark.parametrize("model", [heeds, deaf, by_hash])
def test_a_verdict_is_about_answers_beyond_noise(
    model: Callable[[Messages], str], tmp_path: Path
) -> None:
    task = load_task(write_people(tmp_path, make_people(1200, 2)))
    tuned = tune(task, model, 0.15, 30.0, **LARGER, out=tmp_path / "t")
    if model is not heeds:
        assert tuned.verdict.startswith("Nothing chosen: on 120 rows")
        assert ("rows=480" in tuned.verdict) == (model is by_hash)
        assert ("None changed an answer" in tuned.verdict) == (model is deaf)
        assert (tuned.shots, tuned.result, tuned.reached) == (None, None, False)
        assert not list((tmp_path / "t").rglob("shots.json"))
        return
    assert tuned.reached
    assert tuned.result is not None
    (chosen,) = (line for line in tuned.front if line["chosen"])
    for number in (chosen["loss"], *chosen["loss_interval"]):
        assert f"{100 * abs(number):.1f}" in tuned.verdict
    assert (
        "below balanced" if chosen["loss"] > 0 else "above balanced"
    ) in tuned.verdict
    assert chosen["kind"].split()[0] in tuned.verdict
    gaps = [tuned.result.records.of("dp_gap", arm).value for arm in ("tuned", "zero")]
    assert gaps[0] < gaps[1] - 0.2


def test_the_front_the_verdict_and_the_test_are_printed(
    fwc: Run, tmp_path: Path
) -> None:
    task = write_people(tmp_path, make_people(1200, 2))
    asked = f"--task {task} --model python:tests.evaluation.test_tune:heeds"
    goal = "tune --target-dp 0.15 --max-loss 30"
    line = f"{goal} {asked} --m 8 --rows 120 --n-test 120 --candidates 8"
    line += f" --strategy strata,random --out {tmp_path / 'tuned'}"
    planned = fwc(f"{line} --dry-run --json", code=0)
    assert not (tmp_path / "tuned").exists()
    outcome = fwc(line, code=0)
    asked_of = len((tmp_path / "tuned" / "journal.jsonl").read_text().splitlines()) - 1
    assert asked_of <= planned.json["tuning"]["forecast"]["requests"] < 1.5 * asked_of
    for words in ("Candidates on the pool rows", "chosen", "DP gap at most 15 points"):
        assert words in outcome.out
    assert outcome.out.count("\n") + outcome.err.count("\n") <= 40
    assert str(tmp_path / "tuned" / "tuning.json") in "".join(outcome.out.split())
    fwc("verify", tmp_path / "tuned", "--task", task, code=0)
    several = fwc(f"{goal} --model surrogate,baseline").line
    assert "tune takes one model" in several
    quoted = fwc(goal, "--model", '"replay:a,b"').line
    assert "cannot read a,b/run.json" in quoted
    shots = tmp_path / "tuned" / "shots.json"
    saved = f"eval {asked} --shots {shots} --n-test 8 --out"
    fwc(saved, tmp_path / "run", code=0)


def test_two_kinds_meet_every_wording_in_every_order(tmp_path: Path) -> None:
    task = load_task(write_people(tmp_path, make_people(1200, 2)))
    own = [
        str(shutil.copytree(resource_dir("prompts") / "default", tmp_path / name))
        for name in "ab"
    ]
    options: dict[str, Any] = {
        "strategies": ["random", "balanced"],
        "m": [4, 8],
        "rows": 120,
    }
    names = "strategy", "template", "order", "m"
    for orders, templates in ((None, own), (None, ["default", *own]), (["given"], own)):
        n = 4 * len(orders or "gr") * len(templates)
        asked = options | {"orders": orders, "templates": templates, "candidates": n}
        planned = tune(task, deaf, 0.1, dry_run=True, **asked).tuning["candidates"]
        assert len({tuple(line[name] for name in names) for line in planned}) == n
    with refused("does not say the question"):  # before anything is asked
        tune(task, deaf, 0.1, **options | {"templates": ["default", "decision"]})


@pytest.mark.parametrize(("options", "message"), corpus("mistakes/tunings"))
def test_bad_input_makes_no_folder(
    census: Task, tmp_path: Path, options: Any, message: str
) -> None:
    with refused(message):
        tune(census, FourMembers(), out=tmp_path / "t", **(SMALL | options))
    assert not (tmp_path / "t").exists()


def test_a_folder_without_a_reply_is_for_any_model_and_others_refused(
    census: Task, tmp_path: Path
) -> None:
    options = SMALL | {
        "out": tmp_path / "t",
        "candidates": 1,
        "strategies": ["random"],
        "m": 4,
    }
    with serve_in_thread(
        lambda request: refusal(404, "no such model", "model_not_found")
    ) as url:
        for name in ("mistyped", "surrogate-2"):
            with pytest.raises(ProviderError, match=name):
                tune(census, name, 0.3, client=Client(base_url=f"{url}/v1"), **options)
    with pytest.raises(ProviderError, match="has gone"):
        tune(census, Counting(most=1), 0.3, **options)
    said = read_json(tmp_path / "t" / "tuning.json")
    assert (said["model"], len(said["candidates"])) == ("surrogate", 1)
    with refused("holds another tuning \\(model differs\\)"):
        tune(census, FourMembers(), 0.3, **options)


def _said(messages: Any) -> str:
    return Surrogate().reply(messages).text or ""


@pytest.mark.slow
def test_broken_batches_are_taken_up(
    census: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_module, "FIRST_POLL_SECONDS", 0.0)
    monkeypatch.setattr(batch_module, "POLL_GROWTH", 1.0)
    service = BatchService(answer=_said)
    service.broken = {step: refusal(401, "No such key") for step in (3, 9, 20)}
    options = SMALL | {"out": tmp_path / "t", "n_test": 8, "m": 4, "candidates": 3}
    with serve_in_thread(service) as url:
        client = Client(base_url=f"{url}/v1", batch=True)
        for _ in service.broken:
            with refused("No such key"):
                tune(census, "test-model", 0.3, client=client, **options)
        tuned = tune(census, "test-model", 0.3, client=client, **options)
        steps = service.steps
        again = tune(census, "test-model", 0.3, client=client, **options)
    assert tuned.result is not None
    assert tuned.result.unanswered == 0
    assert service.live.total() == 0  # nothing was asked at the full price
    assert set(service.worked.values()) == {1}  # and nothing twice
    assert len(service.batches) == 4  # one a round, and the test
    assert (service.steps, again.tuning) == (steps, tuned.tuning)


@pytest.mark.slow
def test_a_limit_of_cost_counts_race_and_test_together(
    census: Task, tmp_path: Path
) -> None:
    service = Service(lambda body: _said(body["messages"]))
    prices = tmp_path / "prices.toml"
    prices.write_text(
        'source = "x"\ndate = 2026-11-01\n[models."my-model"]\ninput = 10.0\noutput = 10.0\n'
    )
    options = SMALL | {"out": tmp_path / "t", "n_test": 16, "m": 4, "candidates": 3}
    with serve_in_thread(service) as url:
        client = Client(base_url=f"{url}/v1", prices=prices, concurrency=1)
        with pytest.raises(
            IncompleteRunError, match=r"stopped before max_cost.*raise it and run again"
        ):
            tune(
                census, "my-model", 0.3, client=client.updated(max_cost=0.1), **options
            )
        assert (
            0 < len(service.bodies) < 100
        )  # a reply costs 0.00101 dollars, and its worst case must fit
        raced = 0.00101 * 600  # three candidates, zero-shot, balanced
        tuned = tune(
            census,
            "my-model",
            0.3,
            client=client.updated(max_cost=raced + 0.04),
            **options,
        )
        assert tuned.result is not None
        assert tuned.result.unanswered > 0
        assert "stopped before --max-cost" in tuned.result.data["stopped"]
        spent = 0.00101 * len(service.bodies)
        assert spent <= raced + 0.04
        done = tune(
            census, "my-model", 0.3, client=client.updated(max_cost=9.0), **options
        )
    assert done.result is not None
    assert done.result.unanswered == 0
    assert done.tuning == tuned.tuning
    assert len(service.bodies) == 600 + 4 * 16  # each question once
