"""`select_shots` and every strategy: real rows, the seed, the refusals."""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm import TaskRow, select_shots
from fwc_llm.shots import (
    Example,
    Request,
    Shots,
    accepted_options,
    is_per_row,
    strategies,
)
from fwc_llm.shots.examples import make_shots
from fwc_llm.shots.registry import strategy
from fwc_llm.taskfile import Protected
from fwc_llm.tasks import Task, load_task
from tests.command import corpus
from tests.data.tables import small_task
from tests.people import make_people, write_people
from tests.refusals import refused

CHOOSING = [name for name in strategies() if name not in {"zero", "ids"}]
WEIGHTED = {"fwc", "kmeans", "kmedoids"}


def options_of(name: str, task: Task) -> dict[str, Any]:
    if name == "nearest":
        return {"query": task.test().iloc[3].to_dict()}
    return {}


def cell(example: Example) -> tuple[str, str]:
    return example.values["group"], example.label


def cells_of(shots: Shots) -> Counter[tuple[str, str]]:
    return Counter(map(cell, shots.examples))


def rows_of(shots: Shots) -> list[str]:
    return [example.row for example in shots.examples]


@pytest.mark.parametrize("name", CHOOSING)
def test_people_of_unknown_group_are_no_examples(name: str, tmp_path: Path) -> None:
    groups = ("a", "b", "unknown")
    rows = [f"{k},red,{groups[k % 3]},{('no', 'yes')[k // 3 % 2]}" for k in range(90)]
    task = small_task(tmp_path, "\n".join(["x,colour,sex,y", *rows]) + "\n")
    options: dict[str, Any] = {}
    if name == "nearest":
        options = {"query": {"x": 4, "colour": "red", "sex": "unknown"}}
    shots = select_shots(task, name, m=8, progress=False, **options)
    assert shots.m == 8
    assert {example.values["sex"] for example in shots.examples} == {"a", "b"}
    chosen = select_shots(task, "ids", rows=["data.csv:4"], progress=False)
    assert chosen.examples[0].values["sex"] == "unknown"
    with refused("only 60 rows may become examples"):
        select_shots(task, name, m=61, progress=False, **options)


def test_a_coarse_table_needs_columns_in_which_people_differ(tmp_path: Path) -> None:
    rows = [
        f"{k % 2},red,{'ab'[k // 2 % 2]},{('no', 'yes')[k // 4 % 2]}" for k in range(90)
    ]
    task = small_task(tmp_path, "\n".join(["x,colour,sex,y", *rows]) + "\n")
    with refused("0 rows .*; 8 of 90 differ.*, draw fewer test rows, or add columns"):
        select_shots(
            task, "balanced", m=1, candidates=np.zeros(90, bool), progress=False
        )


def test_fwc_counter_is_fwc_in_counter_slots_without_weights(two: Task) -> None:
    shots = select_shots(two, "fwc-counter", 8)
    fwc = select_shots(two, "fwc", 8, slots="counter")
    assert {*rows_of(shots)} == {*rows_of(fwc)}
    assert [example.label for example in shots.examples] == ["no", "yes"] * 4
    assert not shots.weighted
    assert shots.certificate is None


@pytest.mark.parametrize("name", CHOOSING)
def test_examples_are_distinct_candidates_with_all_that_a_prompt_shows(
    name: str, two: Task
) -> None:
    pool = two.pool()
    candidates = np.arange(240) % 2 == 0
    options = {"candidates": candidates, **options_of(name, two)}
    shots = select_shots(two, name, m=12, seed=5, **options)
    assert {*rows_of(shots)} <= set(pool.index[candidates])
    assert len({*rows_of(shots)}) == shots.m == 12
    assert (shots.strategy, shots.task, shots.seed) == (name, "people", 5)
    assert shots.fingerprint == two.fingerprint
    names = [column.name for column in two.shown]
    for example in shots.examples:
        row = pool.loc[example.row]
        assert dict(example.values) == row[names].to_dict()
        assert example.label == row["y"]
        assert {type(value) for value in example.values.values()} <= {int, float, str}
    json.dumps([dict(example.values) for example in shots.examples])
    assert shots.weighted == (name in WEIGHTED)
    if shots.weighted:
        weights: Any = [example.weight for example in shots.examples]
        assert all(type(weight) is float and weight >= 0 for weight in weights)
        assert sum(weights) == pytest.approx(12, abs=1e-9)
        assert weights == sorted(weights, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOOSING)
def test_the_seed_decides(name: str, two: Task) -> None:
    first, again, other = (
        rows_of(select_shots(two, name, 12, seed=seed, **options_of(name, two)))
        for seed in (1, 1, 2)
    )
    assert first == again
    # These may well find the same rows from another start.
    if name not in {"nearest", "fwc", "fwc-counter", "kmedoids"}:
        assert first != other


def test_balanced_has_equal_cells_and_alternating_labels(
    two: Task, three: Task
) -> None:
    shots = select_shots(two, "balanced", 16, seed=3)
    assert set(cells_of(shots).values()) == {4}
    assert [example.label for example in shots.examples] == ["no", "yes"] * 8
    uneven = cells_of(select_shots(three, "balanced", 16, seed=3))
    assert sorted(uneven.values()) == [2, 2, 3, 3, 3, 3]
    assert sum(count for (_, label), count in uneven.items() if label == "yes") == 8


def test_fwc_meets_the_limit_and_certifies_it(two: Task) -> None:
    shots = select_shots(two, "fwc", 12, epsilon=0.05, seed=2)
    certificate: Any = shots.certificate
    weights: Any = Counter()
    for example in shots.examples:
        weights[cell(example)] += example.weight
    target = (two.pool()["y"] == "yes").mean()
    for level in ("a", "b"):
        rate = weights[level, "yes"] / (weights[level, "yes"] + weights[level, "no"])
        assert abs(rate / target - 1) <= 0.05 + 1e-9
        assert abs((1 - rate) / (1 - target) - 1) <= 0.05 + 1e-9
    assert certificate["violation"] <= 0.05 + 1e-9
    bound = pytest.approx(certificate["lower_bound"], rel=1e-9)
    assert certificate["objective"] == bound
    assert certificate["rows"] == rows_of(shots)
    assert certificate["weights"] == [example.weight for example in shots.examples]
    assert certificate["fingerprint"] == two.fingerprint
    counts = cells_of(shots)
    slots = {(s["level"], s["label"]): s["count"] for s in certificate["slots"]}
    assert slots == counts
    assert counts["a", "yes"] == counts["b", "yes"]
    assert certificate["seed"] == 2
    assert certificate["restarts"] >= 1
    json.dumps(certificate)


def test_soft_limits_and_limits_of_each_attribute_are_recorded(two: Task) -> None:
    soft: Any = select_shots(two, "fwc", 12, penalty=0.4)
    assert (soft.options["penalty"], soft.options["epsilon"]) == (0.4, None)
    assert 0 <= soft.certificate["imbalance"] < 0.5
    json.dumps(soft.certificate)
    offered = (*two.rules.offered, Protected.model_validate("job"))
    rules = two.rules.model_copy(update={"offered": offered})
    both = replace(two, rules=rules)
    each: Any = select_shots(both, "fwc", 40, epsilon=0.1, crossed=False)
    assert each.options["crossed"] is False
    assert each.certificate["violation"] <= 0.1 + 1e-9
    proven: Any = select_shots(two, "fwc", 12, prove=True)
    assert 0 < proven.certificate["outer_bound"] <= proven.certificate["objective"]
    assert "outer_bound" not in soft.certificate
    json.dumps(proven.certificate)


def test_weights_of_columns_are_given_or_the_task_s(two: Task) -> None:
    weights = {"age": 3.0, "job": 0.25}
    given: Any = select_shots(two, "fwc", 12, column_weights="age=3, job=0.25")
    assert given.options["column_weights"] == weights
    more = weights | {"group": 2.0}  # which is protected, and no feature
    rules = two.rules.model_copy(update={"column_weights": more})
    own = replace(two, rules=rules)
    assert select_shots(own, "fwc", 12).examples == given.examples
    plain: Any = select_shots(two, "fwc", 12)
    assert "column_weights" not in plain.options
    assert given.certificate["objective"] != plain.certificate["objective"]


def test_fwc_without_limit_does_not_keep_it(two: Task) -> None:
    free: Any = select_shots(two, "fwc", 12, epsilon=None)
    assert free.options["epsilon"] is None
    assert (
        free.certificate["violation"] > 0.05
    )  # the groups' rates differ, and nothing evens them out


def test_strata_has_the_numbers_asked_for(two: Task) -> None:
    assert set(cells_of(select_shots(two, "strata", 12)).values()) == {3}
    only = select_shots(two, "strata", 10, slots="b:yes=10")
    assert cells_of(only) == {("b", "yes"): 10}


def test_nearest_is_nearest(two: Task) -> None:
    pool = two.pool()
    asked = pool.iloc[17]
    query = two.test().iloc[17].to_dict()
    ranks = pool["school"].map({"low": 0, "middle": 1, "high": 2})
    numbers = pool[["age", "hours"]].assign(school=ranks).astype(float)
    distance = (np.abs(numbers - numbers.iloc[17]) / numbers.std(ddof=0)).sum(axis=1)
    for name in ("job", "group"):
        distance += pool[name] != asked[name]
    distance.iloc[17] = np.inf  # the queried row itself
    order = distance.sort_values(kind="stable").index
    shots = select_shots(two, "nearest", 8, query=query)
    assert rows_of(shots) == [*order[:8]]
    within = select_shots(two, "nearest", 8, query=query, within="cell")
    assert set(cells_of(within).values()) == {2}
    nearest = pool.loc[order].groupby(["group", "y"]).head(2)
    assert {*rows_of(within)} == {*nearest.index}


def test_of_equally_near_rows_the_earlier_comes_first(tmp_path: Path) -> None:
    """Ages on both sides of the query, and one mismatch or several, are as near but for
    rounding.
    """
    people = make_people(240, 2, seed=1).assign(hours=40.0, school="low")
    task = load_task(write_people(tmp_path, people))
    alike = {"hours": 40.0, "school": "low", "job": "pilot", "group": "c"}
    for age in (30, 41, 57):
        query = TaskRow(task.name, {"age": age, **alike})
        shots = select_shots(task, "nearest", 60, query=query)
        mismatches = 1 + (people["job"] != "pilot")  # nobody is of group c
        exact = abs(people["age"] - age) / people["age"].std(ddof=0) + mismatches
        expected = np.argsort(exact.round(9), kind="stable")[:60]
        assert rows_of(shots) == list(task.pool().index[expected])


def test_ids_are_the_rows_named_in_their_order(two: Task) -> None:
    index = [str(two.pool().index[k]) for k in (7, 2)]
    for rows in (index, ", ".join(index)):
        assert rows_of(select_shots(two, "ids", rows=rows)) == index


QUERY: dict[str, Any] = {
    "age": 30,
    "hours": 1,
    "job": "cook",
    "school": "low",
    "group": "a",
}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        *corpus("mistakes/shots"),
        ("nearest", {"query": pd.DataFrame([QUERY])}, "a row is a mapping or Series"),
    ],
)
def test_bad_input_is_refused_in_words(
    name: str, options: dict[str, Any], message: str, two: Task
) -> None:
    with refused(message):
        select_shots(two, name, **options)


def test_bad_tables_are_refused(two: Task) -> None:
    pool = two.pool()
    twice = pool.iloc[[0, *range(len(pool))]]
    with refused(re.escape(f"{pool.index[0]!r} occurs twice")):
        select_shots(two, "random", pool=twice)
    with refused(r"candidates must be a boolean mask"):
        select_shots(two, "random", candidates=np.ones(3, bool))
    with refused("named twice"):
        select_shots(two, "ids", rows=[pool.index[1], pool.index[1]])
    with refused("may not become an example"):
        select_shots(two, "ids", rows=[pool.index[1]], candidates=np.arange(240) != 1)


# Strategies of a user's own, found as `module:function`.


@strategy(skip=0)
def every_other(request: Request, skip: int) -> Shots:
    return make_shots(request, "every other", range(skip, skip + 2 * request.m, 2))


def changed(request: Request, **fields: Any) -> Shots:
    """The first row, with something changed."""
    shots = make_shots(request, "own", [0])
    return replace(shots, examples=(replace(shots.examples[0], **fields),))


NONSENSE: dict[str, tuple[Callable[[Request], Any], str]] = {
    "nothing": (lambda request: None, "returned NoneType, not Shots"),
    "too many": (
        lambda request: make_shots(request, "own", range(5)),
        "5 examples, 4 were asked for",
    ),
    "one twice": (lambda request: make_shots(request, "own", [0, 0]), "occurs twice"),
    "no candidate": (
        lambda request: make_shots(request, "own", [9]),
        "may not become an example",
    ),
    "unknown row": (
        lambda request: changed(request, row="nowhere:1"),
        "'nowhere:1' is not in the pool",
    ),
    "no label": (lambda request: changed(request, label="maybe"), "label is 'maybe'"),
    "wrong value": (
        lambda request: changed(request, values={"age": 1}),
        "differs from the table's",
    ),
    "bad weight": (
        lambda request: changed(request, weight=-1.0),
        "has the weight -1.0",
    ),
    "other task": (
        lambda request: replace(changed(request), task="other"),
        "of another task",
    ),
}


def nonsense(request: Request) -> Any:
    return NONSENSE[str(request.options["kind"])][0](request)


@pytest.mark.parametrize("kind", NONSENSE)
def test_a_strategy_that_returns_nonsense_is_refused(kind: str, two: Task) -> None:
    with refused(NONSENSE[kind][1]):
        select_shots(
            two, f"{__name__}:nonsense", 4, candidates=np.arange(240) != 9, kind=kind
        )


def test_a_strategy_of_ones_own(two: Task) -> None:
    own = f"{__name__}:every_other"
    shots = select_shots(two, own, 3, skip=1)
    assert shots.strategy == own
    assert rows_of(shots) == list(two.pool().index[[1, 3, 5]])
    assert accepted_options(own) == {"skip": int}
    assert not is_per_row(own)
