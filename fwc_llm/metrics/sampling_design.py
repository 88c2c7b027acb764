"""How the rows of a run or an audit were drawn and asked: one value that every estimator reads.

`SamplingDesign` is made once. Estimators take it with the answers (`variance.ArmArrays`) and use each option
that is set, or refuse it by name. `evals.coverage` simulates every pair of `OPTIONS` that
`REFUSED` does not name, so that no pair is allowed and untried.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from fwc_llm.errors import FwcError
from fwc_llm.metrics.sequential import ConfidenceSequence, GroupSequential

Unread = Literal["worst", "as-no", "ignore"]  # what replies without an answer are taken for
WORST: Unread = "worst"
AS_NO: Unread = "as-no"
MIN_GROUP = 30  # distinct rows (people); smaller groups are shown and not judged

BASE_PARITY, REPEATS, EXAMPLES = "base parity", "repeats", "examples drawn anew"
PEOPLE, WEIGHTS, STRATA, UNREAD, ASSIST = "cluster", "weight", "given", "unread answers", "assist"
UNTIL = "until decided"
OPTIONS = BASE_PARITY, REPEATS, EXAMPLES, PEOPLE, WEIGHTS, STRATA, UNREAD, ASSIST, UNTIL
_ONCE = "--until-decided asks about every row once: leave out repeats, or --until-decided"
REFUSED: Mapping[frozenset[str], str] = {
    frozenset({WEIGHTS, ASSIST}): "assist (prediction-powered) does not work with weights: leave one out",
    frozenset({REPEATS, UNTIL}): _ONCE,
    frozenset({EXAMPLES, UNTIL}): _ONCE,
}


@dataclass(frozen=True)
class SamplingDesign:
    """What estimators know of a sample besides its answers.

    `labels_fixed`: the number of rows of each group and label was chosen (base parity). Every question was
    asked `times` times: that number of consecutive repeats has the same rows and examples. Groups of fewer
    than `min_group` rows (people) are not judged; differences within `margin` do not matter. If it is not
    `labelled`, only rates of yes are defined. With `sequential` intervals hold at every look. `unread`: in
    the worst case verdicts hold for every reading of replies without an answer, else these count as no, or
    are left out. `model`: a model was asked, of which answers all alike say nothing about groups.
    """

    labels_fixed: bool = False
    times: int = 1
    min_group: int = 1
    margin: float = 0.05
    labelled: bool = True
    sequential: GroupSequential | ConfidenceSequence | None = None
    unread: Unread = WORST
    model: bool = False


AS_THEY_FALL = SamplingDesign()


def check_pairs(options: Collection[str]) -> None:
    """Refuse options that do not go together (`FwcError`)."""
    for pair in combinations(OPTIONS, 2):
        if set(pair) <= set(options) and (why := REFUSED.get(frozenset(pair))):
            raise FwcError(why)
