"""`fwc-llm shots`: choose examples and save them, or compare the strategies."""

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fwc_llm.cli.eval_output import before_asking
from fwc_llm.cli.options import (
    PROTECTED_HELP,
    TASK_HELP,
    Json,
    open_task,
    print_json,
    read,
    read_pairs,
    takes,
    words,
)
from fwc_llm.errors import FwcError
from fwc_llm.runs.settings import Settings
from fwc_llm.shots.registry import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fwc_llm.report.strategies import Comparison
    from fwc_llm.shots.base import Shots
    from fwc_llm.tasks import Task


@takes(Settings, names=("m", "epsilon", "seed", "template"))
def shots(
    task: Annotated[str | None, typer.Option(help=TASK_HELP)] = None,
    protected: Annotated[str | None, typer.Option(help=PROTECTED_HELP)] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help=f"How to choose: {', '.join(BUILT_IN)} (a diagnostic: its labels are not true), or "
            "module:function; with --compare several, comma-separated. "
            "[default: fwc; all but flipped and ids with --compare]"
        ),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The numeric column that says for how many a row stands, such as a survey's weight (adult: "
            "fnlwgt), or `none`. [default: the task file's `weight`, if any]",
        ),
    ] = None,
    order: Annotated[
        str, typer.Option(help="alternate, random, by-weight, or given (the strategy's own).")
    ] = "given",
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="KEY=VALUE for the strategy (slots=equal, slots=Female:no=1,Female:yes=7,…, "
            "labels=unbalanced); repeatable."
        ),
    ] = None,
    ids: Annotated[
        str | None, typer.Option(help="Row ids, comma-separated: these rows, with the strategy `ids`.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", "--output", help="Save the examples here, as JSON.")
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Measure the strategies side by side.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="With --compare: also draw it, as .png or .svg (extra [plot]).")
    ] = None,
    max_prompt_tokens: Annotated[
        int | None, typer.Option(help="Choose the largest m, up to --m, whose prompts fit.")
    ] = None,
    model: Annotated[str, typer.Option(help="Count tokens as for this model.")] = "gpt-4",
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILES",
            help="Parquet files as the task's table, however large: a path, a pattern in quotes "
            "('rows-*.parquet') or a folder. Of more than 400,000 rows, fwc certifies all and other "
            "strategies choose from a sample.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where the data lies. [default: $FWC_LLM_DATA, the cache, then the UCI repository]"
        ),
    ] = None,
    as_json: Json = False,
    **flags: Any,
) -> None:
    """Choose the examples of a prompt and save them, or compare the strategies.

    Saved examples are used with `fwc-llm eval --shots shots.json`.
    """
    from fwc_llm.cli import console
    from fwc_llm.runs.defaults import fit_m
    from fwc_llm.shots.coresets import disk_shots

    options, settings = read_pairs(option or [], "--option"), read(Settings, flags)
    _check_compared(compare, out, plot)
    if ids is not None:
        strategy, options["rows"] = strategy or "ids", ids
    table = open_task(task, data_dir, protected, weight, data)
    m, limit, seed = settings.m, settings.epsilon, settings.seed
    with before_asking(out), console.working("reading the table") as step:
        m, moved = (m, "") if "m" in settings.given else fit_m(table)
        console.notes((*table.notes, moved))
        if compare:
            from fwc_llm.report.strategies import compare as compare_strategies

            names = words(strategy) or None
            lines = compare_strategies(table, names, m, limit, seed, settings.template, model, options, step)
        elif table.whole is not None and strategy in (None, "fwc") and max_prompt_tokens is None:
            chosen = disk_shots(table, m, limit, seed, order, step, **options)
        else:
            choose = _chooser(table, strategy or "fwc", limit, seed, order, options)
            step(f"choosing examples: {strategy or 'fwc'}")
            chosen = choose(_fitting(table, choose, m, max_prompt_tokens, model, settings.template))
    if compare:
        _show_compared(lines, table, m, model, plot, as_json)
    else:
        _show(chosen, table, task, out, as_json, data)


def _show_compared(
    lines: "Sequence[Comparison]", table: "Task", m: int, model: str, plot: Path | None, as_json: bool
) -> None:
    """Print the comparison of strategies, and draw it where that is wanted."""
    from fwc_llm.cli import console

    if as_json:
        print_json(_compared_json(lines, table, m, model))
    else:
        console.out.print(_comparison(lines, table, model))
    console.notes(f"{line.strategy}: {line.note}" for line in lines if line.note)
    spent = sum(line.spent for line in lines)
    seconds = "s: seconds to choose once, on the clock; choosing and measuring took"
    console.notes([f"{seconds} {spent:.1f} s in all"])
    if plot is not None:
        from fwc_llm.report.figures import plot_comparison

        plot_comparison(lines, plot, f"{table.title}: {m} examples from {len(table.pool()):,} rows")
        console.notes([f"drawn in {plot}"])


def _show(
    chosen: "Shots",
    table: "Task",
    task: str | None,
    out: Path | None,
    as_json: bool,
    data: str | None = None,
) -> None:
    """The examples where they are wanted, and what is to be said of them.

    `data` are the files that they are from, where those are not the task's.
    """
    from fwc_llm.cli import console

    if as_json:
        from fwc_llm.shots.storage import shots_json

        print_json(shots_json(chosen))
    elif out is None:
        console.out.print(_listing(chosen, table))
    if out is not None:
        from fwc_llm.shots import save_shots

        save_shots(chosen, out)
        console.err.print(
            f"{chosen.m} examples by {chosen.strategy} are in {out}; use them with: "
            f"fwc-llm eval --task {task or table.name} --shots {out}"
            + (f" --data {quote(data)}" if data else "")
            + ("" if table.name in {"adult", "census"} else " --model baseline"),
            soft_wrap=True,
            markup=False,
        )
    if chosen.untrue:
        console.err.print(chosen.untrue, style="bold", markup=False)
    if chosen.certificate:
        console.err.print(_certificate(chosen.certificate), markup=False)


def _check_compared(compare: bool, out: Path | None, plot: Path | None) -> None:
    """Refuse, before the work, what a comparison does not do, and a plot that cannot be drawn."""
    if compare and out is not None:
        raise FwcError(f"--compare saves no examples: leave out --out {out}, or --compare")
    if plot is not None:
        if not compare:
            raise FwcError("--plot draws a comparison: add --compare")
        from fwc_llm.report.figures import check_plot

        check_plot(plot)


def _chooser(
    task: "Task", strategy: str, epsilon: float | None, seed: int, order: str, options: dict[str, Any]
) -> "Callable[[int], Shots]":
    from fwc_llm.shots import is_per_row, order_shots
    from fwc_llm.shots.kept import kept_shots

    if is_per_row(strategy, options):
        raise FwcError(
            f"{strategy} chooses anew for every queried row, so there is nothing to save: use it with "
            f"fwc-llm eval --shots {strategy}, or measure it with --compare"
        )

    def choose(m: int) -> "Shots":
        return order_shots(kept_shots(task, strategy, m, epsilon, seed, **options), order, seed)

    return choose


def _fitting(
    task: "Task", choose: "Callable[[int], Shots]", m: int, limit: int | None, model: str, template: str
) -> int:
    """The largest m, up to `m`, whose prompt for the wordiest of 200 test rows has at most `limit` tokens."""
    if limit is None:
        return m
    from fwc_llm.models.tokens import TokenCounter, largest_m
    from fwc_llm.prompts import Prompt

    counter = TokenCounter(model)
    rows = task.test().drop(columns=task.outcome).head(200).to_dict("records")
    bare = Prompt(task, None, template)
    longest: Mapping[str, Any] = max(rows, key=lambda row: counter.count(bare.build(row)))  # type: ignore[arg-type, assignment]

    def tokens(size: int) -> int:
        try:
            return counter.count(Prompt(task, choose(size), template).build(longest))
        except FwcError:
            if size == m:
                raise
            return 0  # too few for this strategy; a larger size may do

    size = largest_m(tokens, limit, m)
    if tokens(size) == 0:
        raise FwcError(
            f"even the fewest examples that the strategy accepts make more than {limit} prompt tokens: "
            "raise --max-prompt-tokens, or use a shorter template"
        )
    return size


def _listing(chosen: "Shots", task: "Task") -> Any:
    """The examples as a table: id, group, label, weight as displayed, exact weight."""
    from fwc_llm.report.tables import Section, terminal

    displayed = {example.row: weight for example, weight in chosen.shown()}
    rows = []
    for example in chosen.examples:
        group = " & ".join(str(example.values[name]) for name in task.protected)
        weight = "" if example.weight is None else f"{example.weight:.4f}"
        label = f"{example.label} ({example.altered})" if example.altered else example.label
        rows.append((example.row, group, label, displayed.get(example.row) or "", weight))
    headings = ("row", "group", "answer", "shown", "θ")
    return terminal(Section(f"{chosen.m} examples by {chosen.strategy}", headings, rows, keys=3))


def _certificate(certificate: "Mapping[str, Any]") -> str:
    return (
        f"certificate: distance {certificate['objective']:.6f}, lower bound of the inner problem "
        f"{certificate['lower_bound']:.6f}, largest parity violation {certificate['violation']:.6f}"
        if {"objective", "lower_bound", "violation"} <= set(certificate)
        else ""
    )


def _compared_json(lines: "Sequence[Comparison]", task: "Task", m: int, model: str) -> dict[str, Any]:
    return {
        "format": "fwc-llm-strategies/1",
        "task": task.name,
        "rows": len(task.pool()),
        "m": m,
        "tokens_of": model,
        "strategies": [asdict(line) for line in lines],
    }


def _comparison(lines: "Sequence[Comparison]", task: "Task", model: str) -> Any:
    """The comparison as a table, closest first; rows without a distance come last."""
    from rich.table import Table
    from rich.text import Text

    title = f"{task.title}, {len(task.pool()):,} rows (tokens: {model})"
    # So that two protected levels fit on 80 columns.
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold", title=title)
    headings = (
        "strategy", "m", "distance", "clusters", "violation", *(f"yes,\n{group}" for group in task.groups),
        "tokens", "s",
    )  # fmt: skip
    for heading in headings:
        side: Any = "left" if heading == "strategy" else "right"
        # Numbers stay whole; long names of levels wrap.
        table.add_column(heading, justify=side, no_wrap="\n" not in heading)
    ordered = sorted(lines, key=lambda line: (line.distance is None, line.distance or 0.0))
    for line in ordered:
        positives = line.positives or {}
        cells = (
            line.strategy,
            str(line.m) if line.seconds is not None else "–",
            _number(line.distance, 3),
            _number(line.clustering_cost, 3),
            _number(line.violation, 3),
            *(
                f"{positives[group][0]:g}/{positives[group][1]:g}" if group in positives else "–"
                for group in task.groups
            ),
            _number(line.tokens, 0),
            _number(line.seconds, 2),
        )
        style = "bold" if line.strategy == "fwc" else ""
        table.add_row(*(Text(cell, style=style) for cell in cells))
    return table


def _number(value: float | None, decimals: int) -> str:
    return "–" if value is None else f"{value:,.{decimals}f}"
