"""`fairlets`: centres of small groups in which both protected levels meet."""

from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import make_weighted, rival_coreset
from fwc_llm.shots.registry import strategy


@strategy(balance=None)
def fairlets(request: Request, balance: "tuple[int, int] | str | None") -> Shots:
    """m medoids of the centres of fairlets, weighted by the rows that they carry; for two protected levels.

    Backurs et al., *Scalable Fair Clustering* (ICML 2019): rows are grouped along a quadtree into fairlets,
    in which the rarer level is at least p/q times as frequent as the other; the fairlets' centres (members
    with the least summed distance) are clustered by k-medoids, here without a matrix of distances.

    Option: `balance`, (p, q) or "p/q"; by default the largest with q ≤ 5 that the table allows.

    Errors: `FwcError` unless there are two levels, and for a balance that the table does not have.
    """
    found = rival_coreset(request, "fairlets", balance=balance)
    return make_weighted(request, "fairlets", found.rows, found.weights, found.note, balance=balance)
