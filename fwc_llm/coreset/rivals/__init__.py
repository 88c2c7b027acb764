"""Rivals of Fair Wasserstein Coresets: arrays in, weighted points out.

All rivals have the signature `rival(X, y, sensitive, m, seed=0, …) -> Coreset`; `RIVALS` names
them.
"""

from fwc_llm.coreset.rivals.base import Coreset
from fwc_llm.coreset.rivals.clustering import kmeans, kmedoids
from fwc_llm.coreset.rivals.fairlet_clustering import fairlets
from fwc_llm.coreset.rivals.sampling import (
    indfair_coreset,
    kmedian_coreset,
    reweigh,
    reweighing,
)

__all__ = [
    "RIVALS",
    "Coreset",
    "fairlets",
    "indfair_coreset",
    "kmeans",
    "kmedian_coreset",
    "kmedoids",
    "reweigh",
    "reweighing",
]
RIVALS = (
    "kmedian_coreset",
    "indfair_coreset",
    "fairlets",
    "kmedoids",
    "kmeans",
    "reweighing",
)
