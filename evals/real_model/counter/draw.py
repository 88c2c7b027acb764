"""Draw the examples and the rows of the plan: sets.csv and rows.csv, committed before any
question.
"""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from evals.real_model.ask import read_answers
from fwc_llm.runs.splits import equal_rows
from fwc_llm.shots import select_shots
from fwc_llm.shots.base import Example, Shots
from fwc_llm.shots.examples import make_examples
from fwc_llm.tasks import Task, load_task

HERE = Path(__file__).resolve().parent
SETS_FILE = HERE / "sets.csv"
ROWS_FILE = HERE / "rows.csv"
TASK = "adult"
SEED = 73
M = 16
SETS = 10
ROUNDS = 5
EACH = 5  # rows of a cell in one round of one set, and among the rows for a set's threshold
THRESHOLD_ROUND = 0
COUNTER_SLOTS = "Female:no=2,Female:yes=6,Male:no=6,Male:yes=2"
ZERO = "zero"
ARMS = {
    "balanced": "balanced",
    "fwc": "FWC, weights hidden",
    "fwc-shown": "FWC, weights shown",
    "fwc-slots": "random rows in FWC's slots",
    "counter": "counter slots, random rows",
    "counter-fwc": "counter slots, FWC's rows",
}


def draw() -> None:
    """Write sets.csv and rows.csv; exit where two sets are equal."""
    task = load_task(TASK)
    pool = task.pool()
    order = np.random.default_rng(SEED).permutation(len(pool))
    chosen = {}
    for number, part in enumerate(np.array_split(order, SETS), 1):
        chosen.update(_choose(task, pool.iloc[np.sort(part)], number))
    check_different(chosen)
    lines = [
        {"arm": arm, "set": number, "row": example.row, "weight": example.weight}
        for (arm, number), shots in chosen.items()
        for example in shots.examples
    ]
    pd.DataFrame(lines).to_csv(SETS_FILE, index=False, lineterminator="\n")
    _draw_rows(task, chosen).to_csv(ROWS_FILE, index=False, lineterminator="\n")


def _choose(
    task: Task, part: pd.DataFrame, number: int
) -> dict[tuple[str, int], Shots]:
    """The sets of all arms from one tenth of the pool, with the labels in one order: no, yes,
    no, …
    """

    def select(strategy: str, **options: Any) -> Shots:
        common: dict[str, Any] = {
            "m": M,
            "seed": number,
            "pool": part,
            "order": "alternate",
        }
        return select_shots(task, strategy, **common, **options)

    fwc = select("fwc")
    cells = Counter((str(e.values[task.protected[0]]), e.label) for e in fwc.examples)
    slots_of_fwc = ",".join(
        f"{level}:{label}={count}" for (level, label), count in sorted(cells.items())
    )
    arms = {
        "balanced": select("balanced"),
        "fwc": without_weights(fwc),
        "fwc-shown": fwc,
        "fwc-slots": select("strata", slots=slots_of_fwc),
        "counter": select("strata", slots=COUNTER_SLOTS),
        "counter-fwc": without_weights(select("fwc", slots=COUNTER_SLOTS)),
    }
    return {(arm, number): shots for arm, shots in arms.items()}


def without_weights(shots: Shots) -> Shots:
    """The same examples, which show no weights."""
    return replace(
        shots,
        examples=tuple(replace(example, weight=None) for example in shots.examples),
    )


def check_different(chosen: dict[tuple[str, int], Shots]) -> None:
    """Exit where two prompts would have the same examples with the same weights, in whatever
    order.
    """
    first: dict[str, tuple[str, int]] = {}
    for key, shots in chosen.items():
        content = json.dumps(
            sorted([e.row, e.label, shown or ""] for e, shown in shots.shown())
        )
        if content in first:
            raise SystemExit(
                f"{key} and {first[content]} are the same examples: draw again"
            )
        first[content] = key


def _draw_rows(task: Task, chosen: dict[tuple[str, int], Shots]) -> pd.DataFrame:
    """Rows of the test file by set and round, as many of each cell; none was asked about or
    shown before.
    """
    test = task.test()
    asked = {row["row"] for row in read_answers()}
    shown = [example.values for shots in chosen.values() for example in shots.examples]
    names = [column.name for column in task.shown]
    free = ~(
        test.index.isin(asked) | equal_rows(task, test, shown) | test.duplicated(names)
    )
    groups = np.searchsorted(sorted(task.groups), task.sensitive(test))
    cells = 2 * groups + task.labels(test)
    rng = np.random.default_rng(SEED)
    lines = []
    for cell in range(4):
        rows = rng.permutation(np.flatnonzero(free & (cells == cell)))
        rounds = rows[: SETS * (ROUNDS + 1) * EACH].reshape(SETS, ROUNDS + 1, EACH)
        for (number, turn, _), place in np.ndenumerate(rounds):
            lines.append(
                {
                    "set": number + 1,
                    "round": turn,
                    "cell": cell,
                    "row": test.index[place],
                }
            )
    mixed = pd.DataFrame(lines).sample(frac=1, random_state=SEED)
    return mixed.sort_values(["set", "round"], kind="stable").drop(columns="cell")


def read_sets(task: Task) -> dict[tuple[str, int], Shots]:
    """The committed sets, by arm and number."""
    pool = task.pool()
    found = {}
    for key, lines in pd.read_csv(SETS_FILE).groupby(["arm", "set"], sort=False):
        arm, number = cast(tuple[str, int], key)
        examples = make_examples(task, pool.loc[lines["row"]])
        if lines["weight"].notna().all():
            weighted = zip(examples, lines["weight"], strict=True)
            examples = tuple(
                replace(example, weight=float(weight)) for example, weight in weighted
            )
        found[arm, number] = shots_of(task, arm, number, examples)
    return found


def shots_of(task: Task, arm: str, number: int, examples: tuple[Example, ...]) -> Shots:
    """The examples of an arm as a set that a prompt or an evaluation takes."""
    name = f"{arm}-{number}"
    return Shots(
        name, task.name, task.fingerprint, number, examples, protected=task.protected
    )


def read_rows() -> pd.DataFrame:
    """The committed rows: set, round (0: for the threshold) and row, in the order of asking."""
    return pd.read_csv(ROWS_FILE)
