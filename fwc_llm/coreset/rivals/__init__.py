"""The rivals of Fair Wasserstein Coresets as coreset estimators: arrays in, weighted points out.

All have the signature `rival(X, y, sensitive, m, seed=0, …) -> Coreset`; `RIVALS` names them.
"""

from typing import TYPE_CHECKING

from fwc_llm.lazy import lazy_names

if TYPE_CHECKING:
    from fwc_llm.coreset.rivals.base import Coreset
    from fwc_llm.coreset.rivals.clustering import kmeans
    from fwc_llm.coreset.rivals.fairlet_clustering import fairlets
    from fwc_llm.coreset.rivals.faster_pam import kmedoids
    from fwc_llm.coreset.rivals.sampling import indfair_coreset, kmedian_coreset, reweigh, reweighing, uniform

_HOME = {
    "uniform": "sampling",
    "kmedian_coreset": "sampling",
    "indfair_coreset": "sampling",
    "fairlets": "fairlet_clustering",
    "kmedoids": "faster_pam",
    "kmeans": "clustering",
    "reweighing": "sampling",
}
RIVALS = tuple(_HOME)
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

__getattr__, __dir__ = lazy_names(__name__, {**_HOME, "Coreset": "base", "reweigh": "sampling"})
