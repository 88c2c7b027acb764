"""`fwc-llm shots`: choose examples and save them, or compare the strategies."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.cli import console, flags
from fwc_llm.errors import FwcError
from fwc_llm.files import check_new, in_shell
from fwc_llm.number_format import DASH, number
from fwc_llm.report.table_model import Section, terminal
from fwc_llm.runs.settings import Settings
from fwc_llm.shots import Shots, is_per_row, order_shots, save_shots
from fwc_llm.shots.registry import BUILT_IN
from fwc_llm.shots.select import select_shots
from fwc_llm.shots.storage import shots_json

if TYPE_CHECKING:
    from fwc_llm.report.strategies import StrategyComparison
    from fwc_llm.tasks import Task


@flags.command("shots", Settings, names=("m", "epsilon", "seed", "template", "weight"))
def shots(
    task: str | None = flags.TASK,
    protected: str | None = flags.PROTECTED,
    strategy: str | None = flags.option(
        f"Strategy: {', '.join(BUILT_IN)}, or module:function; several with --compare. "
        "[default: fwc; all but ids with --compare]"
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
    compare: bool = flags.switch(
        "Compare strategies by distance, parity, tokens and seconds.", "--compare"
    ),
    model: str = flags.option(
        "Model whose tokenizer counts the tokens.", default="gpt-4"
    ),
    data_dir: Path | None = flags.DATA_DIR,
    force: bool = flags.FORCE,
    as_json: bool = flags.JSON,
    **others: Any,
) -> None:
    """Choose the examples of a prompt and save them, or compare the strategies.

    Saved examples are used with `fwc-llm eval --shots shots.json`.
    """
    from fwc_llm.runs.defaults import fit_m

    settings = flags.read(Settings, others)
    if compare and out is not None:
        raise FwcError(
            f"--compare saves no examples: leave out --out {out}, or --compare"
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
    with console.working("reading the table") as step:
        m, moved = (m, "") if "m" in settings.chosen else fit_m(table)
        console.notes(*table.notes, moved)
        if compare:
            from fwc_llm.report.strategies import compare as compare_strategies

            names = flags.words(strategy) or None
            lines = compare_strategies(
                table, names, m, limit, seed, settings.template, model, options, step
            )
        else:
            name = strategy or "fwc"
            step(f"choosing examples: {name}")
            if is_per_row(name):
                raise FwcError(
                    f"{name} chooses anew for every queried row, so there is nothing to save: use "
                    f"it with fwc-llm eval --shots {name}, or measure it with --compare"
                )
            kept = select_shots(table, name, m, limit, seed, progress=False, **options)
            chosen = order_shots(kept, order, seed)
    if compare:
        _show_compared(lines, table, m, model, as_json)
    else:
        _show(chosen, table, task, out, as_json)


def _show_compared(
    lines: "Sequence[StrategyComparison]",
    table: "Task",
    m: int,
    model: str,
    as_json: bool,
) -> None:
    size = len(table.pool())
    if as_json:
        document = {
            "format": "fwc-llm-strategies/1",
            "task": table.name,
            "rows": size,
            "m": m,
        }
        flags.print_json(
            {
                **document,
                "tokens_of": model,
                "strategies": [asdict(line) for line in lines],
            }
        )
    else:
        rows = []  # closest strategy first; strategies without a distance last
        for line in sorted(
            lines, key=lambda line: (line.distance is None, line.distance or 0.0)
        ):
            if line.seconds is None:
                chosen = DASH
            else:
                chosen = str(line.m)
            numbers = (
                number(x, 3)
                for x in (line.distance, line.clustering_cost, line.violation)
            )
            yes = [(line.positives or {}).get(group) for group in table.groups]
            pairs = (
                DASH if pair is None else f"{pair[0]:g}/{pair[1]:g}" for pair in yes
            )
            end = number(line.tokens, 0), number(line.seconds, 2)
            rows.append((line.strategy, chosen, *numbers, *pairs, *end))
        groups = (f"yes, {group}" for group in table.groups)
        headings = (
            "strategy",
            "m",
            "distance",
            "clusters",
            "violation",
            *groups,
            "tokens",
            "s",
        )
        title = f"{table.title}, {size:,} rows (tokens: {model})"
        console.out.print(terminal(Section(title, headings, rows)))
    console.notes(*(f"{line.strategy}: {line.note}" for line in lines if line.note))
    spent = sum(line.spent for line in lines)
    console.notes(
        f"s: wall-clock seconds of one choice; choosing and measuring took {spent:.1f} s in total"
    )


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
            within = f": the chosen rows are within {found / bound - 1:.2%} of the best"
        else:
            within = ""
        console.notes(
            f"no {chosen.m} rows with these slots have an objective below {bound:.6f}{within}"
        )
