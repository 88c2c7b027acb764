"""`select_shots`, which checks a strategy's input and result, and `order_shots`."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack, get_args

from fwc_llm.errors import FwcError, check_index, checked, require
from fwc_llm.progress import choose as show
from fwc_llm.sanitize import described
from fwc_llm.shots.base import DEFAULT_M, Example, Request, Shots
from fwc_llm.shots.registry import find_strategy, strategies
from fwc_llm.words import ANSWERS

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import pandas as pd
    from narwhals.typing import IntoFrame

    from fwc_llm.cell_rules import TaskRow
    from fwc_llm.keywords import StrategyKeywords
    from fwc_llm.tasks import Task

Order: TypeAlias = Literal["given", "alternate", "by-weight", "random"]
ORDERS: tuple[Order, ...] = get_args(Order)


@checked
def select_shots(
    task: "str | Path | Task",
    strategy: str = "fwc",
    m: int = DEFAULT_M,
    epsilon: float | None = 0.01,
    seed: int = 0,
    pool: "IntoFrame | None" = None,
    candidates: "np.ndarray | None" = None,
    query: "TaskRow | Mapping[Any, Any] | pd.Series | None" = None,
    order: Order = "given",
    progress: bool | None = None,
    sample_weight: "np.ndarray | None" = None,
    **options: "Unpack[StrategyKeywords]",
) -> Shots:
    """Choose m examples for a prompt about `task`, a name, a task file or a `Task`.

    `pool` is the table (n rows, by default the task's own pool): rows of `task.pool()`, or raw
    rows, which are cleaned as the task's table was. `candidates` (n,) bool marks the rows that may
    become examples (default: all). `epsilon` is the relative
    parity limit of the strategies that have one; None: no limit. `query` is the row that the prompt
    asks about, as for `build_prompt`, for strategies that choose per row. `seed` determines
    all random draws. `order` arranges the examples (see `order_shots`). Progress is shown in a
    notebook and on a terminal, but not for a single `query`; `progress` False hides it.
    `sample_weight` (n,) are the pool's sampling weights, by default the task's (docs/own-data.md,
    "Weights"). All other options are those of the strategy (docs/baselines.md). People of unknown
    group are no examples, unless `ids` names them.

    Errors: `FwcError` for an unknown strategy, option or order; m below 1 or above the number of
    candidates; an ε outside [0, 1); duplicate row ids; and a strategy that fails or returns an
    invalid result.
    """
    import numpy as np

    from fwc_llm.coreset.checks import candidate_mask, check_epsilon
    from fwc_llm.coreset.weights import read_weights
    from fwc_llm.tasks import as_task, is_queried, known_groups, sampling_weights

    m = int(m)
    seed = int(seed)
    if seed < 0:
        raise FwcError(f"seed is {seed}: give a whole number from 0 up")
    if m < 1:
        raise FwcError(
            f"m is {m}: at least 1 example is needed (the strategy 'zero' takes none)"
        )
    check_epsilon(epsilon)
    task = as_task(task)
    require(strategy, str, "strategy", f"give a name ({', '.join(strategies())})")
    choose = find_strategy(strategy)
    given = task.pool() if pool is None else pool
    check_index(candidates, given, "candidates")
    check_index(sample_weight, given, "sample_weight")
    if pool is None:
        table = task.pool()
    else:
        table, kept = task.cleaned(pool)
        if not len(kept) and strategy != "zero":
            raise FwcError(
                "no row is left for examples: lower --n-test, or give another pool"
            )
        candidates = candidate_mask(candidates, len(kept))[kept]
        if sample_weight is not None:
            read_weights(sample_weight, len(kept))
            sample_weight = np.asarray(sample_weight, dtype=float)[kept]
    if sample_weight is None:
        weights = sampling_weights(task, table)
    else:
        weights = sample_weight
    mask = candidate_mask(candidates, len(table))
    if query is not None:
        record = task.record(query)
        mask &= ~is_queried(task, query, record, table)
        query = record.values
    masses = read_weights(weights, len(table))
    if not table.index.is_unique:
        twice = table.index[table.index.duplicated()][0]
        raise FwcError(
            f"the row id {twice!r} occurs twice in the pool: row ids must be unique"
        )
    numbers = None if masses.equal else np.asarray(weights, dtype=float)
    if strategy not in {"zero", "ids"}:
        weighed = masses.values > 0
        # Rows of an unknown group or of another label are never examples.
        labels = range(len(task.example_labels))
        known = np.isin(task.sensitive(table), known_groups(task))
        known &= np.isin(task.labels(table), labels)
        free = mask & weighed & known
        if m > free.sum():
            different = len(table.drop_duplicates())
            raise FwcError(
                f"m is {m}, but only {free.sum()} rows may become examples; {different:,} of "
                f"{len(table):,} differ, and a row that equals a test row is none: lower m, draw "
                "fewer test rows, or add columns in which people differ"
            )
        mask = free
        if not known.all():
            table = table[known]
            mask = mask[known]
            numbers = None if numbers is None else numbers[known]
    request = Request(
        task, table, mask, m, epsilon, seed, query, dict(options), numbers
    )
    ours = str(getattr(choose, "__module__", "")).startswith("fwc_llm.")
    hidden = progress is None and query is not None
    with show(False if hidden else progress).working(
        f"choosing {request.m} examples by {strategy}"
    ):
        try:
            shots = choose(request)
        except Exception as error:
            if ours or isinstance(error, FwcError):
                raise
            raise FwcError(
                f"strategy {strategy!r} failed: {described(error)}"
            ) from error
    _check_result(shots, strategy, request)
    if shots.examples and not ours:
        _check_rows(shots, strategy, request)
    if request.weights is not None:
        if sample_weight is not None:
            source = "given"
        else:
            source = task.rules.weight
        shots = replace(shots, options={**shots.options, "sample_weight": source})
    return order_shots(replace(shots, strategy=strategy), order, seed)


def _check_result(shots: Any, strategy: str, request: Request) -> None:
    if not isinstance(shots, Shots) or not all(
        isinstance(example, Example) for example in shots.examples
    ):
        raise FwcError(
            f"strategy {strategy!r} returned {type(shots).__name__}, not Shots made of Examples"
        )
    check_examples(shots.examples, f"strategy {strategy!r}")
    if (shots.task, shots.fingerprint) != (request.task.name, request.task.fingerprint):
        raise FwcError(
            f"strategy {strategy!r} returned shots of another task or table ({shots.task!r})"
        )
    if shots.m > request.m and strategy != "ids":
        raise FwcError(
            f"strategy {strategy!r} returned {shots.m} examples, {request.m} were asked for"
        )


def _check_rows(shots: Shots, strategy: str, request: Request) -> None:
    """Raise `FwcError` if a plugin's examples are not candidates of the table, with its cells."""
    named = {"rows": [example.row for example in shots.examples]}
    try:
        real = find_strategy("ids")(replace(request, options=named)).examples
    except FwcError as error:
        raise FwcError(f"strategy {strategy!r} returned other rows: {error}") from None
    for example, true in zip(shots.examples, real, strict=True):
        if (example.values, example.label) != (true.values, true.label):
            raise FwcError(
                f"strategy {strategy!r} returned the row {example.row!r}, which differs from the "
                "table's: return its own values and label"
            )


def check_examples(examples: tuple[Example, ...], where: str) -> None:
    """Raise `FwcError` for duplicate rows and invalid weights."""
    for row, times in Counter(example.row for example in examples).items():
        if times > 1:
            raise FwcError(f"{where}: the row {row!r} occurs twice")
    weighted = [example.weight for example in examples if example.weight is not None]
    for weight in weighted:
        if not 0 <= weight < inf:
            raise FwcError(
                f"{where}: a row has the weight {weight}; weights are finite and not negative"
            )
    if weighted and len(weighted) < len(examples):
        raise FwcError(f"{where}: some rows have a weight and some have none")
    if weighted and sum(weighted) <= 0:
        raise FwcError(f"{where}: all weights are 0")


def check_order(order: str) -> Order:
    """The order with this name; `FwcError` for an unknown one."""
    if order not in ORDERS:
        raise FwcError(f"unknown order {order!r}: choose one of {', '.join(ORDERS)}")
    return order


def order_shots(shots: Shots, order: str, seed: int = 0) -> Shots:
    """Return the same examples in another order.

    * `given`: the order of the strategy or the file;
    * `alternate`: no, yes, no, …, each label in its given order, the rest of the longer list at the
      end;
    * `by-weight`: highest weight first, equal weights (and unweighted shots) in the given order;
    * `random`: a shuffle that depends on the seed alone.

    Errors: `FwcError` for an unknown order.
    """
    check_order(order)
    examples = list(shots.examples)
    if order == "alternate":
        from fwc_llm.shots.examples import alternate

        of_labels = (
            [example for example in examples if example.label == label]
            for label in ANSWERS
        )
        examples = alternate(*of_labels)
    elif order == "by-weight":
        examples.sort(key=lambda example: -(example.weight or 0.0))
    elif order == "random":
        random.Random(seed).shuffle(examples)
    return replace(shots, examples=tuple(examples))
