"""The numbers that the paper prints, for comparison with ours.

Xiong, Dalmasso et al., *Fair Wasserstein Coresets*, NeurIPS 2024. `published/` has one CSV per
table: printed values times the power of ten in the column's head; data sets and methods have our
names:

* `closeness.csv`: Wasserstein distance (table "supp-wass_cost_numbers") and clustering cost, a sum
  over the rows ("supp-clust_cost_numbers"); sizes are shares of the data.
* `tradeoff.csv`: "supp-learning-comp-numbers" (arm plain), "supp-learning-comp-reweighing" (arm
  reweighed).
* `augmentation.csv`: "supp-learning-comp-numbers-aug". `pareto.csv`: "eq-odds".
* `runtime.csv`: "supp-runtime". `llm.csv`: "gpt", accuracy in percent.

A method that the paper could not run (fairlets on Adult) has no line.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def published(name: str) -> "pd.DataFrame":
    """The published numbers of one experiment."""
    import pandas as pd

    return pd.read_csv(Path(__file__).parent / "published" / f"{name}.csv")
