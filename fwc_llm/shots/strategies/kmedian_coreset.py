"""`kmedian-coreset`: rows drawn in proportion to their k-median sensitivity."""

from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.registry import strategy
from fwc_llm.shots.strategies.sensitivity import draw


@strategy(k=50)
def kmedian_coreset(request: Request, k: int) -> Shots:
    """m rows of a k-median coreset (Bachem, Lucic, Lattanzi, AISTATS 2018).

    *One-Shot Coresets: The Case of k-Clustering*. Rows are drawn with
    replacement in proportion to their sensitivity until m different ones are found; a row drawn c times in N
    draws with probability q has the weight c / (N q).

    Option: `k` rough centres from which the sensitivities are bounded.
    """
    return draw(request, "kmedian-coreset", k, individually_fair=False)
