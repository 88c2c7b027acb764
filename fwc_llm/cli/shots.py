"""`fwc-llm shots`: choose examples and save them, or compare strategies."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.cli import console, flags
from fwc_llm.errors import FwcError
from fwc_llm.files import check_new, in_shell
from fwc_llm.number_format import number, percent
from fwc_llm.report.table_model import Section, terminal
from fwc_llm.runs.settings import Settings
from fwc_llm.shots import Shots, is_per_row, order_shots, save_shots
from fwc_llm.shots.registry import BUILT_IN
from fwc_llm.shots.select import select_shots
from fwc_llm.shots.storage import shots_json

if TYPE_CHECKING:
    from fwc_llm.tasks import Task


@flags.command("shots", Settings, names=("m", "epsilon", "seed", "weight"))
def shots(
    task: str | None = flags.TASK,
    protected: str | None = flags.PROTECTED,
    strategy: str = flags.option(
        f"Strategy: {', '.join(BUILT_IN)}, or module:function; of several with commas, distances "
        "from the table are shown.",
        default="fwc",
    ),
    order: str = flags.option(
        "Order: alternate, random, by-weight, or given (the strategy's own).",
        default="given",
    ),
    option: list[str] | None = flags.option(
        "Option KEY=VALUE of the strategy, such as slots=Female:no=1,Female:yes=7 or, of fwc, "
        "column_weights=age=2,hours=0.5, penalty=0.1 and crossed=false; repeatable."
    ),
    prove: bool = flags.switch(
        "Prove a lower bound of fwc's objective, up to 5,000 rows.", "--prove"
    ),
    out: Path | None = flags.option(
        "File to save the examples to, as JSON.", "--out", "-o", "--output"
    ),
    data_dir: Path | None = flags.DATA_DIR,
    force: bool = flags.FORCE,
    as_json: bool = flags.JSON,
    **others: Any,
) -> None:
    """Choose the examples of a prompt and save them, or compare the choices of strategies.

    Saved examples are used with `fwc-llm eval --shots shots.json`.
    """
    from fwc_llm.runs.defaults import fit_m

    settings = flags.read(Settings, others)
    names = flags.words(strategy)
    if len(names) > 1 and out is not None:
        raise FwcError(
            f"--out {out} saves one strategy's examples: name one of {strategy}"
        )
    for name in names:
        if is_per_row(name):
            raise FwcError(
                f"{name} chooses anew for every queried row, so there is nothing to show or save: "
                f"use it with fwc-llm eval --shots {name}"
            )
    check_new(force, out)
    options = flags.read_pairs(option, "--option")
    if prove:
        options["prove"] = True
    if "penalty" in options and "epsilon" in settings.chosen:
        raise FwcError("penalty takes the place of --epsilon: leave out one of them")
    if "weight" in settings.chosen:
        weight = settings.weight or ""
    else:
        weight = None
    table = flags.open_task(task, data_dir, protected, weight)
    m = settings.m
    limit = settings.epsilon
    seed = settings.seed
    chosen = []
    with console.working("reading the table") as step:
        m, moved = (m, "") if "m" in settings.chosen else fit_m(table)
        console.notes(*table.notes, moved)
        for name in names:
            step(f"choosing examples: {name}")
            kept = select_shots(table, name, m, limit, seed, progress=False, **options)
            chosen.append(order_shots(kept, order, seed))
    if len(chosen) > 1:
        _compare(chosen, table, as_json)
    else:
        _show(chosen[0], table, task, out, as_json)


def _compare(chosen: Sequence[Shots], table: "Task", as_json: bool) -> None:
    """Print distances of the strategies' examples from the table, the closest first."""
    from fwc_llm.report.strategies import closeness

    found = [(shots, *closeness(table, shots)) for shots in chosen if shots.examples]
    found.sort(key=lambda line: line[1])
    if as_json:
        strategies = [
            {**shots_json(shots), "distance": distance, "violation": violation}
            for shots, distance, violation in found
        ]
        document = {"format": "fwc-llm-strategies/1", "task": table.name}
        flags.print_json(document | {"strategies": strategies})
        return
    rows = []
    for shots, distance, violation in found:
        yes = sum(example.label == "yes" for example in shots.examples)
        numbers = number(distance, 3), number(violation, 3)
        rows.append((shots.strategy, *numbers, f"{yes} of {shots.m}"))
    headings = "strategy", "distance", "parity violation", "yes"
    title = f"{table.title}, {len(table.pool()):,} rows"
    console.out.print(terminal(Section(title, headings, rows)))
    empty = [shots.strategy for shots in chosen if not shots.examples]
    console.notes(*(f"{name}: no examples" for name in empty))


def _show(
    chosen: Shots, table: "Task", task: str | None, out: Path | None, as_json: bool
) -> None:
    """Print or save the examples, with notes."""
    if as_json:
        flags.print_json(shots_json(chosen))
    elif out is None:
        weights = {example.row: weight for example, weight in chosen.shown()}
        rows = []
        for row in chosen.examples:
            group = " & ".join(str(row.values[name]) for name in table.protected)
            if row.weight is None:
                theta = ""
            else:
                theta = f"{row.weight:.4f}"
            rows.append((row.row, group, row.label, weights.get(row.row) or "", theta))
        headings = ("row", "group", "answer", "shown", "θ")
        title = f"{chosen.m} examples by {chosen.strategy}"
        console.out.print(terminal(Section(title, headings, rows, keys=3)))
    if out is not None:
        save_shots(chosen, out, force=True)
        if table.name in {"adult", "census"}:
            more = ""
        else:
            more = " --model baseline"
        use = f"fwc-llm eval --task {in_shell(task or table.name)} --shots {in_shell(out)}{more}"
        console.notes(
            f"{chosen.m} examples by {chosen.strategy} are in {out}; use them with: {use}"
        )
    proof = chosen.certificate or {}
    if {"objective", "lower_bound", "violation"} <= set(proof):
        measure = "distance and penalty" if "imbalance" in proof else "distance"
        console.notes(
            f"certificate: {measure} {proof['objective']:.6f}, lower bound of the inner problem "
            f"{proof['lower_bound']:.6f}, largest parity violation {proof['violation']:.6f}"
        )
    if "outer_bound" in proof:
        bound = proof["outer_bound"]
        found = proof["objective"]
        if bound > 0:
            within = f": the chosen rows are within {percent(found / bound - 1, 2)} of the best"
        else:
            within = ""
        console.notes(
            f"no {chosen.m} rows with these slots have an objective below {bound:.6f}{within}"
        )
