"""The rivals of Fair Wasserstein Coresets as coreset estimators: arrays in, weighted points out.

All have the signature `rival(X, y, sensitive, m, seed=0, …) -> Coreset`; `RIVALS` maps names to them.
"""

from typing import TYPE_CHECKING

from fwc_llm.lazy import lazy_names

if TYPE_CHECKING:
    from fwc_llm.coreset.rivals.base import Coreset
    from fwc_llm.coreset.rivals.fairlet_clustering import fairlets
    from fwc_llm.coreset.rivals.faster_pam import kmedoids
    from fwc_llm.coreset.rivals.kamiran_calders import reweigh, reweighing
    from fwc_llm.coreset.rivals.lloyd import kmeans
    from fwc_llm.coreset.rivals.sensitivity import indfair_coreset, kmedian_coreset
    from fwc_llm.coreset.rivals.uniform_sampling import uniform

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
    "uniform",
]

RIVALS = ("uniform", "kmedian_coreset", "indfair_coreset", "fairlets", "kmedoids", "kmeans", "reweighing")

_HOME = {
    "Coreset": "base",
    "fairlets": "fairlet_clustering",
    "indfair_coreset": "sensitivity",
    "kmeans": "lloyd",
    "kmedian_coreset": "sensitivity",
    "kmedoids": "faster_pam",
    "reweigh": "kamiran_calders",
    "reweighing": "kamiran_calders",
    "uniform": "uniform_sampling",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
