"""Report on FairWASP: distance and parity of its weights, beside reweighing."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from evals.paper.experiment import DATASETS
from evals.paper.tables import mean_sd, significant
from evals.record import markdown

if TYPE_CHECKING:
    import pandas as pd

_VALUES = ("distance", "violation", "dropped", "largest", "effective", "seconds")


def report(frame: "pd.DataFrame", folder: Path) -> str:
    """Markdown; no figure."""
    return "\n".join(_lines(frame))


def _lines(frame: "pd.DataFrame") -> Iterator[str]:
    yield (
        "*distance*: exact Wasserstein distance that the weights move the train rows' "
        "distribution; "
        "*violation*: largest |p(y|d) / p(y) − 1| under the weights; *dropped*: rows whose weight "
        "is 0; "
        "*largest*: largest weight, the mean being 1; *effective*: (Σw)² / Σw² as a share of the "
        "rows.\n"
    )
    compared = frame["error"].count()
    if compared > 0:
        yield (
            f"Over {compared:,} cells FairWASP's own distance differs from the network simplex's "
            f"by at most "
            f"{significant(frame['error'].max())}.\n"
        )
    table = mean_sd(frame, ["dataset", "part", "method"], [*_VALUES, "n"])
    for (dataset, part), group in table.groupby(["dataset", "part"], sort=False):
        n = group["n"].iloc[0]
        runs = group["runs"].min()
        yield f"\n## {DATASETS[str(dataset)]}, n = {n:,.0f} ({part}; {runs} runs)\n"
        yield markdown(
            ["weights", *_VALUES],
            (
                [
                    row["method"],
                    f"{significant(row['distance'])} ± {significant(row['distance_sd'], 2)}",
                    significant(row["violation"], 2),
                    f"{row['dropped']:.1%}",
                    f"{row['largest']:.1f}",
                    f"{row['effective']:.1%}",
                    significant(row["seconds"], 2),
                ]
                for row in group.sort_values("method").to_dict("records")
            ),
        )
