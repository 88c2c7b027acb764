"""Turn rows of a task into `Shots`: functions shared by strategies."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pandas as pd

from fwc_llm.apportion import largest_remainder
from fwc_llm.coreset.weights import random_order, read_weights
from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Example, Request, Shots
from fwc_llm.tasks import known_groups
from fwc_llm.words import ANSWERS

if TYPE_CHECKING:
    from fwc_llm.coreset.rivals.base import LabelledTable
    from fwc_llm.tasks import Task

_Item = TypeVar("_Item")
COUNTER = "counter"  # slots against the base rates
_PAIR = re.compile(r"\s*(.+):([^:=]+)=\s*(-?\d+)\s*")
_made: "dict[str, tuple[Task, pd.DataFrame, Any]]" = {}


def make_shots(
    request: Request,
    strategy: str,
    positions: "Sequence[int] | np.ndarray | None",
    weights: "np.ndarray | None" = None,
    note: str = "",
    **options: Any,
) -> Shots:
    """Shots of the pool's rows at `positions`; `weights` (m,) order them, highest first.

    The shots record m, the `options` and a `note` on deviations.
    """
    chosen = np.asarray(positions, dtype=np.int64)
    if weights is not None:
        order = np.argsort(-weights, kind="stable")
        chosen = chosen[order]
        weights = weights[order]
    return Shots(
        strategy=strategy,
        task=request.task.name,
        fingerprint=request.task.fingerprint,
        protected=request.task.protected,
        seed=request.seed,
        examples=make_examples(request.task, request.pool.iloc[chosen], weights),
        options={"m": request.m, **options, **({"note": note} if note else {})},
    )


def make_examples(
    task: "Task", rows: pd.DataFrame, weights: "np.ndarray | None" = None
) -> tuple[Example, ...]:
    """Turn m rows, in this order, into examples; `weights` (m,) are scaled so that they sum to
    m.
    """
    labels = task.labels(rows)
    referred = rows.index[labels >= len(task.example_labels)]
    if len(referred):
        raise FwcError(
            f"the row {referred[0]!r} was referred to a person: such rows are examples only with "
            f"examples_refer = true in [outcome] of the task file"
        )
    theta: list[float | None] = [None] * len(rows)
    if weights is not None and len(rows):
        theta = [
            float(weight)
            for weight in np.asarray(weights, float) * (len(rows) / np.sum(weights))
        ]
    names = [column.name for column in task.shown]
    return tuple(
        Example(
            str(row),
            {name: values[name] for name in names},
            ANSWERS[label],  # type: ignore[arg-type]
            weight,
        )
        for row, values, label, weight in zip(
            rows.index, rows.to_dict("records"), labels, theta, strict=True
        )
    )


def cell_shares(
    request: Request, counts: Mapping[tuple[str, int], int] | None = None
) -> list[tuple[str, np.ndarray, int]]:
    """Every cell's label, candidates (positions), and number of examples.

    `counts` has the numbers by (level, label), 0 for missing cells. By default numbers are equal;
    if m is not a multiple of the number of cells, the first cells get one more.
    """
    sensitive = request.task.sensitive(request.pool)
    labels = request.task.labels(request.pool)
    codes = range(len(request.task.example_labels))
    cells = [(str(level), code) for level in np.unique(sensitive) for code in codes]
    fewest, more = divmod(request.m, len(cells))
    shares = []
    for number, (level, code) in enumerate(cells):
        label = ANSWERS[code]
        wanted = fewest + (number < more)
        if counts:
            wanted = counts.get((level, code), 0)
        rows = np.flatnonzero(
            (sensitive == level) & (labels == code) & request.candidates
        )
        if wanted > len(rows):
            raise FwcError(
                f"the cell '{level}', {label!r} is too small: {wanted} examples are needed from "
                f"it, and only "
                f"{len(rows)} of its rows may become examples: lower --m, give the cell fewer "
                "slots, or merge levels by a map in the task file"
            )
        shares.append((label, rows, wanted))
    return shares


def draw(
    request: Request, rng: np.random.Generator, rows: np.ndarray, count: int
) -> np.ndarray:
    """Draw `count` rows (positions) without replacement, uniformly or in proportion to their
    weights.
    """
    if request.weights is None:
        return np.asarray(rng.choice(rows, count, replace=False))
    return np.asarray(rows[random_order(request.weights[rows], rng)[:count]])


def shuffle(request: Request, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """Return the rows (positions) in random order, weighted as in `draw`."""
    if request.weights is None:
        return rng.permutation(rows)
    return draw(request, rng, rows, len(rows))


def features_frame(
    task: "Task", frame: pd.DataFrame, protected: bool = False
) -> pd.DataFrame:
    """The features and, if `protected`, the protected columns, ordinal ones ordered."""
    chosen = {column.name for column in task.features} | (
        set(task.protected) if protected else set()
    )
    columns = [column for column in task.columns if column.name in chosen]
    table = frame[[column.name for column in columns]].copy()
    for column in columns:
        if column.kind == "ordinal":
            table[column.name] = pd.Categorical(
                table[column.name], categories=list(column.order), ordered=True
            )
        elif column.kind == "categorical":
            table[column.name] = table[column.name].astype(str)
    return table


def once_a_pool(request: Request, name: str, make: "Callable[[], _Item]") -> _Item:
    """The result of `make`, kept by `name` as long as task and pool stay the same."""
    task, pool, made = _made.get(name, (None, request.pool, None))
    if task is not request.task or not pool.equals(request.pool):
        made = make()
        _made[name] = request.task, request.pool, made
    return cast("_Item", made)


def labelled_pool(
    task: "Task", pool: pd.DataFrame, weights: np.ndarray | None = None
) -> "LabelledTable":
    """Encode the pool's rows as points of features, protected level and label, as in FWC."""
    from fwc_llm.coreset.rivals.base import as_rows

    return as_rows(
        features_frame(task, pool), task.labels(pool), task.sensitive(pool), weights
    )


def alternate(*lists: "Sequence[_Item] | np.ndarray") -> list[_Item]:
    """Alternate items of the lists: no, yes, …; the rest of the longest list comes last."""
    rounds = zip_longest(*lists)
    return [item for items in rounds for item in items if item is not None]


def read_slots(slots: Any, request: Request) -> dict[tuple[str, int], int]:
    """The number of examples of every cell (protected level, code of the label).

    `slots` is a text LEVEL:ANSWER=COUNT,…, a mapping of (level, answer) to counts, "counter" (see
    `counter_slots`), or the name of a rule of `fwc`. Levels are spelled as in the table or in
    prompts, in lower or upper case.
    """
    task = request.task
    pool = request.pool
    from fwc_llm.coreset.problem.allocation import RULES, count_slots, read_counts
    from fwc_llm.coreset.problem.cells import find_cells

    masses = read_weights(request.weights, len(pool))
    cells = find_cells(task.labels(pool), task.sensitive(pool), len(pool), masses)
    if slots == COUNTER:
        slots = counter_slots(task, request.m)
    if isinstance(slots, str) and slots in RULES:
        allowed = request.candidates[masses.positive]
        available = np.bincount(cells.cell[allowed], minlength=cells.n_cells)
        counts = count_slots(slots, request.m, cells, available, constrained=False)
    else:
        counts = read_counts(_named_counts(slots, task), request.m, cells)
    names = [cells.labels(g) for g in range(cells.n_cells)]
    return {
        (level, int(label)): int(n)
        for (level, label), n in zip(names, counts, strict=True)
    }


def counter_slots(task: "Task", m: int, share: float = 0.75, more: float = 0.0) -> str:
    """Counter-stereotypical slots as text: "Female:no=0,Female:yes=8,…".

    The share of yes falls from `share` in the group with the lowest base rate to 1 − `share` in the
    group with the highest. The number of examples falls from 1 + `more` to 1 − `more` times the
    average.
    """
    if len(task.example_labels) > 2:
        raise FwcError(
            "slots against the base rates are of yes and no: leave examples_refer out of the task "
            "file, or name the slots"
        )
    groups = known_groups(task)
    if len(groups) > 1:
        steps = np.linspace(-1.0, 1.0, len(groups))
    else:
        steps = np.zeros(1)
    sizes = largest_remainder((1.0 - more * steps) * m / len(groups), m).tolist()
    cells = []
    for number, (group, size) in enumerate(zip(groups, sizes, strict=True)):
        yes_share = share + (1.0 - 2.0 * share) * number / max(1, len(groups) - 1)
        yes = int(size * yes_share + 0.5)
        cells += [f"{group}:no={size - yes}", f"{group}:yes={yes}"]
    return ",".join(cells)


def _named_counts(slots: Any, task: "Task") -> dict[tuple[str, int], int]:
    """Parse counts, keyed by the table's level and the code of the label."""
    groups = known_groups(task)
    levels = {level.lower(): level for level in groups}
    if len(task.protected) == 1:
        words = dict(task.column(task.protected[0]).values)
        levels |= {words[level].lower(): level for level in groups if level in words}
    pairs = (
        slots.items()
        if isinstance(slots, Mapping)
        else map(_read_pair, str(slots).split(","))
    )
    counts: dict[tuple[str, int], int] = {}
    for (level, answer), count in pairs:
        name = levels.get(str(level).strip().lower())
        if name is None:
            raise FwcError(
                f"slots: no protected level {level!r}; there are {', '.join(groups)}"
            )
        labels = task.example_labels
        label = str(answer).strip().lower()
        if isinstance(answer, int) and 0 <= answer < len(labels):
            label = labels[answer]
        if label not in labels:
            raise FwcError(
                f"slots: the answer {answer!r} is none of {', '.join(labels)}"
            )
        cell = name, labels.index(label)
        if cell in counts:
            raise FwcError(f"slots: the cell {name}:{label} is named twice")
        counts[cell] = count
    return counts


def _read_pair(part: str) -> tuple[tuple[str, str], int]:
    match = _PAIR.fullmatch(part)
    if match is None:
        raise FwcError(
            f"slots: {part.strip()!r} is not LEVEL:ANSWER=COUNT; write, for example, "
            "slots=Female:no=1,Female:yes=7,Male:no=7,Male:yes=1"
        )
    return (match[1], match[2]), int(match[3])
