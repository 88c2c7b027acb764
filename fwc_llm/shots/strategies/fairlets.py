"""`fairlets`: centres of small groups that contain both protected levels."""

from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import make_weighted, rival_coreset
from fwc_llm.shots.registry import strategy


@strategy(balance=None)
def fairlets(request: Request, balance: "tuple[int, int] | str | None") -> Shots:
    """m medoids of the fairlets' centres, weighted by the rows they represent; for two protected levels.

    Backurs et al., *Scalable Fair Clustering* (ICML 2019). A quadtree groups the rows into fairlets. In each,
    the rarer level is at least p/q times as frequent as the other. k-medoids clusters the fairlets' centres
    (members with the least summed distance), here without a distance matrix.

    Option: `balance`, (p, q) or "p/q"; by default the largest with q ≤ 5 that the table allows.

    Errors: `FwcError` unless there are two levels, and for a balance that the table does not have.
    """
    if request.weights is not None:
        raise FwcError("fairlets groups rows by their number and knows no weights: choose another strategy")
    found = rival_coreset(request, "fairlets", balance=balance)
    return make_weighted(request, "fairlets", found.rows, found.weights, found.note, balance=balance)
