"""The paper's GPT table with our measurements and the recorded answers beside it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from evals.paper.experiment import DATASETS
from evals.paper.published import published
from evals.paper.tables import mean_sd, plus_minus
from evals.record import markdown

if TYPE_CHECKING:
    import pandas as pd

_ARMS = {"zero": "zero-shot", "balanced": "balanced few-shot", "fwc": "FWC few-shot"}
_RECORDED = "recorded answers"


def report(frame: "pd.DataFrame", folder: Path) -> str:
    """Markdown; no figure."""
    return "\n".join([*_published(), *_measured(frame), *_recorded(frame)])


def _published() -> Iterator[str]:
    yield "## The paper (Adult, 200 rows, base-rate parity 0.5, 16 examples)\n"
    lines = []
    for model, group in published("llm").groupby("model", sort=False):
        line = [str(model)]
        for row in group.to_dict("records"):
            line += [
                plus_minus(row["accuracy"], row["accuracy_sd"]),
                plus_minus(row["dp"], row["dp_sd"], 3),
            ]
        lines.append(
            [
                *line,
                *_reductions(
                    {row["arm"]: row["dp"] for row in group.to_dict("records")}
                ),
            ]
        )
    yield markdown(_head("model"), lines)


def _head(first: str) -> list[str]:
    head = [first]
    for title in _ARMS.values():
        head += [f"{title}: accuracy %", "DP"]
    return [*head, "FWC's DP against zero-shot", "against balanced"]


def _reductions(dp: dict[str, float]) -> list[str]:
    """How FWC's mean DP compares with the other arms'."""
    return [
        f"{dp['fwc'] / dp[arm] - 1:+.0%}" if "fwc" in dp and dp.get(arm) else "–"
        for arm in ("zero", "balanced")
    ]


def _measured(frame: "pd.DataFrame") -> Iterator[str]:
    asked = frame[frame["source"] != _RECORDED]
    for (dataset, model), group in asked.groupby(["dataset", "model"], sort=False):
        simulated = "yes" in set(group["simulated"])
        said = (
            ", SIMULATED: the surrogate imitates GPT-4's recorded answers"
            if simulated
            else ""
        )
        yield f"\n## {model} on {DATASETS[str(dataset)]}{said}\n"
        table = mean_sd(group, ["m", "arm"], ["accuracy", "dp", "odds", "coverage"])
        lines = []
        for m, rows in table.groupby("m", sort=False):
            arms = {row["arm"]: row for row in rows.to_dict("records")}
            line = [f"{m} examples"]
            for arm in _ARMS:
                row = arms[arm]
                line += [
                    plus_minus(100 * row["accuracy"], 100 * row["accuracy_sd"]),
                    plus_minus(row["dp"], row["dp_sd"], 3),
                ]
            lines.append(
                [*line, *_reductions({arm: row["dp"] for arm, row in arms.items()})]
            )
        yield markdown(
            _head(f"{int(table['runs'].min())} repeats, n = {int(group['n'].iloc[0])}"),
            lines,
        )


def _recorded(frame: "pd.DataFrame") -> Iterator[str]:
    rows = frame[frame["source"] == _RECORDED]
    if rows.empty:
        return
    yield "\n## Recorded answers of GPT models (DecodingTrust; no FWC examples among them)\n"
    yield (
        "One conversation a row, so no repeats. A perfect classifier has a DP equal to the "
        "base-rate parity "
        "of the rows.\n"
    )
    yield markdown(
        [
            "model",
            "arm",
            "examples",
            "rows",
            "their base-rate parity",
            "coverage",
            "accuracy %",
            "DP",
            "odds",
        ],
        (
            [
                row["model"],
                _ARMS[row["arm"]],
                int(row["examples"]),
                int(row["n"]),
                f"{row['base_parity']:.2f}",
                f"{row['coverage']:.0%}",
                f"{100 * row['accuracy']:.1f}",
                f"{row['dp']:.3f}",
                f"{row['odds']:.3f}",
            ]
            for row in rows.to_dict("records")
        ),
    )
