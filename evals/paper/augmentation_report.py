"""Report on augmentation: the best step of every method beside the plain train rows and the
paper's.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from evals.paper.experiment import DATASETS
from evals.paper.figures import tradeoff_figure
from evals.paper.methods import PAPER_FWC, TITLES
from evals.paper.published import published
from evals.paper.tables import by_key, mean_sd, plus_minus
from evals.paper.tradeoff_report import with_tradeoff
from evals.record import markdown

if TYPE_CHECKING:
    import pandas as pd

_WITH = "with D"
_WITHOUT = "without D"


def report(frame: "pd.DataFrame", folder: Path) -> str:
    """Markdown, and `augmentation.svg` beside it."""
    table = mean_sd(
        frame[frame["dd"].notna()],
        ["dataset", "features", "method", "share"],
        ["dd", "auc", "odds"],
    )
    table = with_tradeoff(table)
    best = table.loc[
        table.groupby(["dataset", "features", "method"], sort=False)[
            "tradeoff"
        ].idxmin()
    ]
    panels = {}
    for features in (_WITH, _WITHOUT):
        here = best[best["features"] == features]
        if len(here):
            panels[features] = here.rename(columns={"share": "size"})
    tradeoff_figure(panels, folder / "augmentation.svg")
    return "\n".join([*_claims(best), *_tables(best)])


def _claims(best: "pd.DataFrame") -> Iterator[str]:
    """The paper: everywhere but on Drug FWC improves AUC or disparity; on Drug it does once D is
    left out.
    """
    yield "## Does FWC help?\n"
    yield (
        "The paper: appending FWC's representatives raises AUC or lowers disparity on every data "
        "set "
        "but Drug, and there too once the classifier does not see the protected attribute. "
        "*helps*: the "
        "best step of the variant has a lower mean disparity or a higher mean AUC than the plain "
        "train "
        "rows. Noise alone easily does that, and the best step is chosen on the test rows, as in "
        "the "
        "paper: see how large the changes are.\n"
    )
    lines = []
    for (dataset, features), group in best.groupby(["dataset", "features"], sort=False):
        rows = by_key(group, ["method"])
        where = f"{DATASETS[str(dataset)]}, {features}"
        for method in PAPER_FWC:
            if (method,) in rows and ("none",) in rows:
                dd, auc = (
                    rows[method,][name] - rows["none",][name] for name in ("dd", "auc")
                )
                if dd < 0 or auc > 0:
                    helps = "yes"
                else:
                    helps = "no"
                lines.append(
                    [where, TITLES[method], f"{dd:+.3f}", f"{auc:+.3f}", helps]
                )
    yield markdown(
        ["data set", "method", "change of DD", "change of AUC", "helps"], lines
    )


def _tables(best: "pd.DataFrame") -> Iterator[str]:
    paper = by_key(published("augmentation"), ["dataset", "method"])
    for features in (_WITH, _WITHOUT):
        for dataset, title in DATASETS.items():
            here = by_key(
                best[(best["dataset"] == dataset) & (best["features"] == features)],
                ["method"],
            )
            if not here:
                continue
            yield f"\n## {title}, classifier {features}\n"
            head = [
                "method",
                "appended",
                "DD",
                "AUC",
                "tradeoff",
                "equalized odds",
                "runs",
            ]
            head += ["paper: DD", "AUC", "tradeoff"]
            lines = []
            for method, name in {"none": "No augmentation", **TITLES}.items():
                if (method,) not in here:
                    continue
                row = here[method,]
                if features == _WITH:
                    known = paper.get((dataset, method), {})
                else:
                    known = {}
                lines.append(
                    [
                        name,
                        f"{row['share']:.1%}",
                        plus_minus(row["dd"], row["dd_sd"]),
                        plus_minus(row["auc"], row["auc_sd"], 3),
                        plus_minus(row["tradeoff"], row["tradeoff_sd"]),
                        plus_minus(row["odds"], row["odds_sd"]),
                        int(row["runs"]),
                        *(
                            f"{known[column]:.3g}" if known else "–"
                            for column in ("dd", "auc", "tradeoff")
                        ),
                    ]
                )
            yield markdown(head, lines)
