"""`indfair-coreset`: rows drawn in proportion to their individually fair sensitivity."""

from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.registry import strategy
from fwc_llm.shots.strategies.sensitivity import draw


@strategy(k=50)
def indfair_coreset(request: Request, k: int) -> Shots:
    """m rows of an individually fair coreset (Chhaya et al., AISTATS 2022).

    *On Coresets for Fair Regression and Individually Fair Clustering*. Rows are drawn with
    replacement in proportion to their sensitivity until m different ones are found; a row drawn c times in N
    draws with probability q has the weight c / (N q).

    Option: `k` rough centres from which the sensitivities are bounded.
    """
    return draw(request, "indfair-coreset", k, individually_fair=True)
