"""`SamplingDesign`: how the rows of a run or an audit were drawn and asked.

Every estimator takes the design with the answers (`variance.ArmArrays`), and uses each option that
is set or refuses it by name. `evals.coverage` simulates every pair of `OPTIONS` that is not in
`REFUSED`.
"""

from dataclasses import dataclass
from typing import Literal

Unread = Literal["worst", "as-no", "ignore"]  # how replies without an answer count
WORST: Unread = "worst"
AS_NO: Unread = "as-no"

BASE_PARITY = "base parity"
REPEATS = "repeats"
EXAMPLES = "examples drawn anew"
PEOPLE = "cluster"
WEIGHTS = "weight"
STRATA = "given"
UNREAD = "unread answers"
ASSIST = "assist"
REFERRALS = "referrals"
OPTIONS = (
    *(BASE_PARITY, REPEATS, EXAMPLES, PEOPLE),
    *(WEIGHTS, STRATA, UNREAD, ASSIST, REFERRALS),
)
REFUSED = {
    frozenset((WEIGHTS, ASSIST)),
    frozenset((PEOPLE, ASSIST)),
    frozenset((REFERRALS, ASSIST)),
    frozenset((REFERRALS, BASE_PARITY)),
}
NOT_ASSISTED = (
    "assist (prediction-powered) takes neither weights nor people with several rows, and no third "
    "answer: leave one out"
)


@dataclass(frozen=True)
class SamplingDesign:
    """How rows were drawn and asked.

    `labels_fixed`: the number of rows of each group and label was chosen (base parity). `times`:
    the number of consecutive repeats with the same rows and examples, so that every prompt was
    asked `times` times. Groups of fewer than `min_group` distinct rows (or people) are not judged.
    Differences within `margin` are negligible. Unless `labelled`, metrics that need labels are
    undefined. `refers`: there is a third answer. `unread` says how replies without an answer count:
    "worst": verdicts hold for all answers that they might have had; "as-no": as no; "ignore": they
    are left out. `model`: a model gave the answers, so that answers all alike settle nothing about
    groups.
    """

    labels_fixed: bool = False
    times: int = 1
    min_group: int = 1
    margin: float = 0.05
    labelled: bool = True
    refers: bool = False
    unread: Unread = WORST
    model: bool = False


AS_THEY_FALL = SamplingDesign()
