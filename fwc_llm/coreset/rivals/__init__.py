"""The rivals of Fair Wasserstein Coresets as coreset estimators: arrays in, weighted points out.

All have the signature `rival(X, y, sensitive, m, seed=0, …) -> Coreset`; `RIVALS` names them.
"""

from fwc_llm.coreset.rivals.base import Coreset as Coreset
from fwc_llm.coreset.rivals.clustering import kmeans as kmeans
from fwc_llm.coreset.rivals.clustering import kmedoids as kmedoids
from fwc_llm.coreset.rivals.fairlet_clustering import fairlets as fairlets
from fwc_llm.coreset.rivals.sampling import indfair_coreset as indfair_coreset
from fwc_llm.coreset.rivals.sampling import kmedian_coreset as kmedian_coreset
from fwc_llm.coreset.rivals.sampling import reweigh as reweigh
from fwc_llm.coreset.rivals.sampling import reweighing as reweighing
from fwc_llm.coreset.rivals.sampling import uniform as uniform

RIVALS = ("uniform", "kmedian_coreset", "indfair_coreset", "fairlets", "kmedoids", "kmeans", "reweighing")
