"""`until_decided`: asking stops when all is decided, and what is said then holds at every look."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

from fwc_llm import Client, FwcError, ProviderError, Reply, Result, Settings, evaluate
from fwc_llm.evaluation.verification import verify
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.sequential import (
    GroupSequential,
    equal_looks,
    nominal_levels,
    simulate,
)
from fwc_llm.metrics.statistics import statistics
from fwc_llm.runs.recorded_run import read_run
from fwc_llm.runs.splits import interleave_cells
from fwc_llm.tasks import load_task
from tests.command import Run
from tests.faults.loopback import Service, serve_in_thread
from tests.people import make_people, write_people

GAP = "dp_gap"
OPTIONS: dict[str, Any] = {"arms": ["zero", "balanced"], "m": 4, "n_test": 400}
OPTIONS["until_decided"] = ("dp_gap > 0.1",)


def unequal(messages: Any) -> str:
    return "yes" if "Female" in messages[-1]["content"] else "no"


def alike(body: Any) -> str:
    """Both groups are told the same: it takes hundreds of rows."""
    if "Private" in body["messages"][-1]["content"]:
        return "yes"
    return "no"


def rows_of(folder: Path, file: str) -> list[str]:
    lines = map(json.loads, (folder / file).read_text().splitlines()[1:])
    return [line["row"] if file == "journal.jsonl" else line[2] for line in lines]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return evaluate(
        "census", unequal, out=tmp_path_factory.mktemp("until") / "run", **OPTIONS
    )


def test_asking_stops_and_everything_is_of_the_rows_that_were_asked(
    stopped: Result, tmp_path: Path
) -> None:
    rows = stopped.data["until_decided"]["rows"]
    assert 60 <= rows < 150
    assert (stopped.data["requests"], stopped.unanswered) == (2 * rows, 0)
    whole = evaluate(
        "census", unequal, out=tmp_path / "whole", **OPTIONS | {"until_decided": ()}
    )
    order = list(dict.fromkeys(rows_of(whole.folder, "questions.jsonl")))
    assert set(rows_of(stopped.folder, "journal.jsonl")) == set(
        order[:rows]
    )  # a beginning of what was drawn
    content = verify(stopped.folder)
    assert content["differs"] == 0, content
    described = statistics(read_run(stopped.folder).answered)
    assert (
        f"Asked until decided: {rows} of at most 400 rows ({400 - rows} requests"
        in described.notes[0]
    )
    pair = described.pairs[0]
    change = described.of(f"{GAP}_difference", pair.second, against=pair.first)
    assert np.isnan(change.p)
    assert "fixed number of rows are invalid" in change.reason
    sample = read_run(stopped.folder).answered.samples["zero"]
    gap = ArmEstimates(sample)[GAP]
    fixed = ArmEstimates(read_run(whole.folder).answered.samples["zero"])[GAP]
    assert gap.high - gap.low > 1.3 * (fixed.high - fixed.low)
    assert np.isnan(gap.p_value)
    record = json.loads((stopped.folder / "run.json").read_text())
    assert record["looks"] == [40 * k for k in range(1, 11)]
    assert rows in record["looks"]
    assert [at["gap"] for at in record["expected"]["gaps"]] == [0, 0.05, 0.1, 0.2, 0.3]
    assert record["expected"]["fixed"] == 385


def test_a_limit_of_cost_ends_it_at_a_look_that_is_whole(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(
        'source = "x"\ndate = 2026-11-01\n[models."my-model"]\ninput = 10.0\noutput = 10.0\n'
    )
    with serve_in_thread(Service(alike)) as url:
        client = Client(base_url=f"{url}/v1", prices=prices, concurrency=1)
        few, some = (
            evaluate(
                "census",
                "my-model",
                out=tmp_path / str(c),
                client=client,
                max_cost=c,
                **OPTIONS,
            )
            for c in (0.05, 0.35)
        )
    assert "--max-cost" in few.data["stopped"]  # before the first look
    assert (some.data["stopped"], some.unanswered) == (None, 0)
    assert "--max-cost" in some.data["until_decided"]["ended"]
    note = statistics(read_run(some.folder).answered).notes[0]
    assert "--max-cost" in note
    assert "saved" not in note
    assert 60 <= some.data["until_decided"]["rows"] < 400
    assert (
        len(rows_of(some.folder, "journal.jsonl")) > some.data["requests"]
    )  # what is under way is kept


def test_a_row_that_is_always_refused_counts_as_unparsed_and_asking_goes_on(
    tmp_path: Path,
) -> None:
    heard: list[Any] = []

    def refusing(messages: Any) -> Reply:
        heard.append(messages)
        lost = messages == heard[0]
        if lost:
            return Reply(None, error="filtered")
        return Reply(alike({"messages": messages}))

    options = OPTIONS | {"arms": ["zero"], "n_test": 160, "concurrency": 1}
    found = [evaluate("census", refusing, out=tmp_path, **options) for _ in range(2)]
    assert [result.unanswered for result in found] == [1, 1]
    assert found[0].data["until_decided"] == found[1].data["until_decided"]
    assert found[0].data["until_decided"]["rows"] == 160  # beyond the first look


def test_other_commands_withhold_what_a_fixed_number_of_rows_would_give(
    stopped: Result,
) -> None:
    compared = stopped.compare(stopped.folder)
    assert "fixed number of rows are invalid" in compared["arms"][0]["reason"]
    for change in compared["records"].where(metric=f"{GAP}_difference"):
        assert np.isnan([change.p, change.low]).all()
    assert (
        "of the population, valid at every check"
        in stopped.check("dp_gap[zero] > 0.1").reason
    )
    with pytest.raises(
        FwcError, match="names the arm 'other'"
    ):  # before anything is asked
        evaluate(
            "census", unequal, **OPTIONS | {"until_decided": "dp_gap[other] > 0.1"}
        )


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"until_decided": ("dp_gap[a] - dp_gap[b] > 0",)}, "differences between arms"),
        ({"until_decided": ("auc_gap > 0.1",)}, "no intervals for auc"),
        ({"until_decided": ("dp >",)}, "cannot read the condition"),
        ({"repeats": 2}, "does not go with repeats"),
        ({"counterfactual": True}, "go with counterfactual"),
    ],
)
def test_what_no_sequence_exists_for_is_refused_by_name(
    options: dict[str, Any], why: str
) -> None:
    with pytest.raises(FwcError, match=why):
        Settings(**{"until_decided": ("dp_gap > 0.1",), **options})


def test_the_command_says_what_it_saved_and_what_to_expect(
    fwc: Run, tmp_path: Path
) -> None:
    asked = "eval --task census --model surrogate --shots zero --until-decided"
    result = fwc(asked, "--n-test", 600, "--out", tmp_path / "run", code=0)
    assert re.search(
        r"Asked until decided: \d+ of at most 600 rows", " ".join(result.out.split())
    )
    fwc("eval", tmp_path / "run" / "experiment.toml", "--out", tmp_path / "b", code=0)
    assert (tmp_path / "b" / "answers.csv").read_text() == (
        tmp_path / "run" / "answers.csv"
    ).read_text()
    for command in ("power", "eval --shots zero --until-decided --dry-run"):
        line = f"{command} --fail-if 'dp_gap > 0.1' --task census --n-test 400"
        assert "until dp_gap > 0.1 is decided, at most 400 rows (simulated" in " ".join(
            fwc(line).out.split()
        )


def test_every_beginning_of_the_order_has_the_same_shares() -> None:
    cells = np.random.default_rng(0).permutation(
        np.repeat([0, 1, 2, 3], [15, 45, 45, 15])
    )
    for n in (16, 40, 80):
        share = np.bincount(cells[interleave_cells(cells)][:n], minlength=4) / n
        np.testing.assert_allclose(share, [0.125, 0.375, 0.375, 0.125], atol=1.01 / n)


def test_boundaries_are_those_of_the_literature() -> None:
    """Lan and DeMets' two-sided boundaries of O'Brien and Fleming's form, 5 looks (Reboussin et
    al. 2000).
    """
    levels = nominal_levels((0.2, 0.4, 0.6, 0.8, 1.0))
    published = [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]
    assert ndtri((1 + np.array(levels)) / 2) == pytest.approx(published, abs=2e-4)
    design = GroupSequential(equal_looks(2000))
    assert [design.critical_value(rows) for rows in (2000, 1999, 1)] == sorted(
        design.critical_value(rows) for rows in (2000, 1801, 200)
    )
    assert equal_looks(7) == tuple(range(1, 8))


TEN_LOOKS = GroupSequential(equal_looks(2000))
ALWAYS = GroupSequential(tuple(range(1, 241)))


@pytest.mark.parametrize(
    ("rates", "design"),
    [
        ([0.45, 0.55], TEN_LOOKS),
        ([0.02, 0.12], TEN_LOOKS),
        ([0.5, 0.6, 0.5, 0.5], TEN_LOOKS),
        ([0.45, 0.55], ALWAYS),
    ],
)
def test_wrong_verdicts_at_the_bound_are_rare_at_all_looks_together(
    rates: list[float], design: Any
) -> None:
    """Also where a run looks after every row."""
    _, failed = simulate(rates, [1.0] * len(rates), (0.1, 0.1), design, 2000)
    assert max((failed == 1).mean(), (failed == 0).mean()) <= 0.025 + 2.6 * np.sqrt(
        0.025 * 0.975 / 2000
    )


def aged(messages: Any) -> str:
    """Both groups alike."""
    age = re.findall(r"age: (\d+)", messages[-1]["content"])[-1]
    return "yes" if int(age) > 45 else "no"


def by_group(messages: Any) -> str:
    if messages[-1]["content"].split("group: ")[1].startswith("a"):
        return "yes"
    return "no"


@pytest.mark.parametrize(("model", "giant"), [(by_group, 0), (aged, 0), (aged, 200)])
def test_with_people_looks_are_at_whole_people(
    model: Any, giant: int, tmp_path: Path
) -> None:
    """Of one to five rows each, or one of them of half of all rows."""
    rng = np.random.default_rng(0)
    size = rng.integers(1, 6, 150)
    size[0] += giant
    person = np.repeat(np.arange(150), size)
    frame = make_people(len(person), 2).assign(
        note=person, group=rng.choice(["a", "b"], 150)[person]
    )
    options = {
        "arms": ["zero"],
        "until_decided": "dp_gap > 0.1",
        "cluster": "note",
        "base_parity": None,
    }
    options["n_test"] = 350
    task = load_task(write_people(tmp_path, frame))
    result = evaluate(task, model, out=tmp_path / "run", **options)
    looks = json.loads((tmp_path / "run" / "run.json").read_text())["looks"]
    people = pd.read_csv(tmp_path / "run" / "answers.csv")["cluster"]
    assert (
        people.nunique() == (people != people.shift()).sum()
    )  # whole people, one after another
    assert result.data["until_decided"]["rows"] in looks
    assert (verify(tmp_path / "run")["differs"], len(looks)) == (0, 10)
    wanted = (
        {"outside"}
        if model is by_group
        else {"cannot say"}
        if giant
        else {"within", "cannot say"}
    )
    assert result.check("dp_gap > 0.1").outcome in wanted
    with pytest.raises(FwcError, match="splits"):
        evaluate(task, model, **options | {"n_test": 150, "base_parity": 0.5})


def test_a_cap_is_kept(stopped: Result) -> None:
    for cap in (600, 200):
        with pytest.raises(FwcError, match="n_test"):
            evaluate("census", unequal, out=stopped.folder, **OPTIONS | {"n_test": cap})


def test_a_run_broken_off_at_and_between_looks_ends_as_one_that_was_not(
    tmp_path: Path,
) -> None:
    """Of weighted rows; 80 answers are those of a look."""
    frame = make_people(700, 2).assign(
        group=["a", "b"] * 350, note=np.arange(700) % 3 + 1
    )
    path = write_people(tmp_path, frame)
    extra = 'name = "note", kind = "{}", role = "extra"'
    path.write_text(
        path.read_text().replace(extra.format("categorical"), extra.format("numeric"))
    )
    task = load_task(path)
    options: dict[str, Any] = {
        "arms": ["zero"],
        "until_decided": "dp_gap > 0.1",
        "n_test": 200,
        "weight": "note",
    }
    options |= {"base_parity": None, "concurrency": 1}
    ends = {}
    last = None
    asked = 0

    def answer(messages: Any) -> str:
        nonlocal asked
        asked += 1
        if asked == last:
            raise ProviderError("No such key")
        return aged(messages)

    for last in (None, 80, 81):
        out = tmp_path / f"{last}"
        asked = 0
        if last is not None:
            with pytest.raises(ProviderError, match="No such key"):
                evaluate(task, answer, out=out, **options)
        result = evaluate(task, answer, out=out, **options)
        ends[last] = result.data["until_decided"], (out / "answers.csv").read_text()
        assert asked == result.data["requests"] + (
            last is not None
        )  # nothing was asked twice
    assert ends[None][0]["rows"] > 100
    assert all(end == ends[None] for end in ends.values())
