"""`audit`: statistics of answers from any source, as an `Audit`."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from fwc_llm.errors import Ambiguous, FwcError, check_index, checked, require
from fwc_llm.gates import Check, all_of, decide, parse_condition
from fwc_llm.meaning import rules_of
from fwc_llm.metrics.adverse_impact import Impact, impact_tables
from fwc_llm.metrics.audit_table import answers_of
from fwc_llm.metrics.counts import plain
from fwc_llm.metrics.records import Records
from fwc_llm.metrics.run_answers import RunAnswers
from fwc_llm.metrics.sampling_design import WORST, SamplingDesign, Unread
from fwc_llm.metrics.statistics import Statistics, statistics
from fwc_llm.sanitize import Json
from fwc_llm.words import titled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from narwhals.typing import IntoFrame

    from fwc_llm.data.raw_table import RawTable
    from fwc_llm.metrics.audit_table import AnswerTable
    from fwc_llm.report.predictions_reader import HowRead


class Audit(Ambiguous):
    """Accuracy and fairness of answers: values, intervals, tests and their scope.

    It prints as a table, also in a notebook. Where groups cross several protected attributes,
    `alone` has an audit by each of them.
    """

    instead = "write audit.check(condition).passed"

    def __init__(
        self,
        answered: RunAnswers,
        scored: RunAnswers | None = None,
        alone: Sequence["Audit"] = (),
    ) -> None:
        self.answered = answered
        self.alone = tuple(alone)
        self._scored = scored

    @cached_property
    def impact(self) -> Impact:
        """Facts on selection by group, beside the records."""
        return self.impact_with()

    def impact_with(self, **options: Any) -> Impact:
        """The facts with options of `impact_tables`."""
        return impact_tables(self.answered, scored=self._scored, **options)

    @cached_property
    def statistics(self) -> Statistics:
        """The records, and facts beside them."""
        return statistics(self.answered, self.impact.records)

    @cached_property
    def records(self) -> Records:
        """All numbers (docs/format.md), those by each attribute alone first."""
        own = self.statistics.records
        before = (record for audit in self.alone for record in audit.records)
        return Records([], own.attribute).and_also([*before, *own])

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms' names."""
        return self.answered.arms

    def check(self, condition: str) -> Check:
        """Check a gate, a condition that must not hold ("dp_gap > 0.1"), by the 95 % interval.

        See docs/gates.md. Raises `FwcError` for an invalid condition or an unknown arm.
        """
        return all_of(condition, decide(parse_condition(condition), self.statistics))

    def to_frame(self) -> "pd.DataFrame":
        """The records as a table, one line per number (docs/format.md)."""
        return self.records.to_frame()

    def to_dict(self) -> Json:
        """Facts and `records` as plain values for JSON."""
        found: Json = plain({**self.statistics.plain(), "records": self.records})
        return found

    def plot(self) -> "Figure":
        """Draw each group's rate of yes by each arm and, with labels, the true answers.

        Raises `FwcError` without matplotlib (extra `plot`).
        """
        from fwc_llm.report.figures import overview

        name = f"{len(self.arms)} arms" if len(self.arms) > 1 else self.arms[0]
        return overview([(name, self.statistics)], [name])

    def __repr__(self) -> str:
        from fwc_llm.report.table_model import as_text
        from fwc_llm.report.terminal import summary

        return as_text(summary(self.statistics))

    def _repr_html_(self) -> str:
        from fwc_llm.report.sections import first, rates
        from fwc_llm.report.table_model import notebook

        tables = first(self.statistics), rates(self.statistics)
        return notebook("Values with 95 % intervals", *tables)


@checked
def audit(
    answers: "IntoFrame | None" = None,
    *,
    answer: Hashable | None = "answer",
    protected: Hashable | Sequence[Hashable] = (),
    label: Hashable | None = "label",
    positive: Any = None,
    positive_answer: Any = None,
    positive_label: Any = None,
    negative: Any = None,
    refer: Any = None,
    others: Literal["no", "drop"] | None = None,
    above: float | None = None,
    unknown: Collection[str] = (),
    p_yes: Hashable | None = "p_yes",
    threshold: float | None = None,
    missing: Literal["refuse", "drop"] = "refuse",
    weight: Hashable | None = None,
    cluster: Hashable | None = None,
    given: Hashable | None = None,
    design: Literal["group", "group and label"] = "group",
    min_group: int = 30,
    margin: float = 0.05,
    against: str = "",
    unread: Unread = WORST,
    arm: Hashable | None = "arm",
    repeat: Hashable | None = "repeat",
    key: Hashable | None = "row",
    examples: Hashable | None = "examples",
    y_pred: Any = None,
    y_true: Any = None,
    sensitive_features: Any = None,
) -> Audit:
    """Measure accuracy and fairness of answers from any source (docs/statistics.md).

    `answers` is a data frame (pandas, Polars, Arrow or another that narwhals supports) with one
    line per answer. Its cells are read like those of a CSV file. The following arguments name its
    columns; those with a default are read if the table has them, and None means none. `answer` is
    empty for an unparsed answer; without such a column, an answer is yes if `p_yes`, P(yes) in [0,
    1], is at least `threshold` (None: 0.5). `protected` names columns, which are crossed; without
    it, the column `group` is used. `label` is the true outcome; without it, only rates of yes are
    audited. `arm` says who answered, `repeat` numbers the repeats, `key` identifies the row
    (without it, every line is another row), and `examples` the set of examples in the prompt. A
    column `reason` has the reasons of missing answers.

    Values of answers and labels have their usual meaning (docs/own-data.md, "Yes and no").
    `positive` names the value or values that mean yes (`positive_answer` and `positive_label`,
    those of one column), `negative` those that mean no ("" is an empty cell). Any other values mean
    no (`others="no"`), or their rows are dropped (`others="drop"`). Numeric answers `above` a
    number mean yes. Rows without a label, weight, person or stratum are refused or dropped, as
    `missing` says.

    `weight` is the column of sampling weights. `cluster` is the column that identifies people with
    several rows. `given` is a column of strata; parity is also compared within strata
    (Mantel–Haenszel). `design` is "group and label" if the numbers of rows of each group and label
    were fixed before drawing, as by `fwc-llm eval` with a base parity; else "group". No value,
    several spellings of an unknown category ("N/A", "keine Angabe"), and the words in `unknown`
    become the group "unknown", which is listed and judged nowhere.

    Groups with fewer than `min_group` rows have no verdict. Gaps up to `margin` are negligible: the
    verdict is "no difference that matters" if the whole interval is within the margin. With
    `unread="worst"`, verdicts and gates hold for every possible answer in place of unparsed ones;
    "as-no" counts unparsed answers as no, and "ignore" leaves them out. `against` is the arm that
    others are compared with; "" means the first arm, and "all" compares all pairs.

    As in fairlearn, `y_pred`, `y_true` and `sensitive_features` may be given in the place of a
    frame: n values each (`sensitive_features` also a frame, whose columns are crossed).

    Raises `FwcError` for a missing column, a row with two labels or two groups, an arm that lacks
    rows of other arms, and answers with more than two meanings.
    """
    from fwc_llm.cell_rules import title_of
    from fwc_llm.data.raw_table import frame_table, titles_of
    from fwc_llm.report.predictions_reader import USUAL, HowRead, columns_of

    require(against, str, "against", "name an arm")
    if not 0 <= margin < 1:
        raise FwcError(
            f"the margin is {margin:g}: it is a share, from 0 to less than 1"
        )
    in_place = y_pred, y_true, sensitive_features
    if answers is None:
        answers, protected = _of_values(*in_place)
        answer = None if p_yes == "y_pred" else "y_pred"
        label = None if y_true is None else "y_true"
    elif any(given is not None for given in in_place):
        raise FwcError(
            "y_pred, y_true and sensitive_features are in the place of a data frame"
        )
    raw = frame_table(answers)
    groups = [titled(name, raw.titles) for name in titles_of(answers, protected)]
    parts = {"answer": answer, "label": label, "weight": weight, "cluster": cluster}
    parts |= {"given": given, "p_yes": p_yes, "row": key}
    parts |= {"arm": arm, "repeat": repeat, "examples": examples}
    named: dict[str, str | None] = {
        part: "" if name is None else title_of(name) for part, name in parts.items()
    }
    named |= {part: None for part in USUAL if parts[part] == part}
    columns = columns_of(named, groups, raw.titles)
    meaning = {"positive": positive, "negative": negative, "refer": refer}
    meaning |= {
        "others": others,
        "positive_answer": positive_answer,
        "positive_label": positive_label,
    }
    rules = rules_of({**meaning, "answer": columns.get("answer"), "above": above})
    how = HowRead(
        columns,
        groups,
        rules,
        unknown=unknown,
        above=above,
        threshold=threshold,
        missing=missing,
    )
    _, found = audit_of_table(
        raw,
        how,
        against=against,
        labels_fixed=design == "group and label",
        min_group=min_group,
        margin=margin,
        unread=unread,
    )
    return found


def audit_of_table(
    raw: "RawTable", how: "HowRead", against: str = "", **judged: Any
) -> "tuple[AnswerTable, Audit]":
    """The table as it was read, and its audit by all protected attributes crossed, with one by each
    of them alone.

    `judged` are options of `SamplingDesign`.
    """
    from fwc_llm.report.predictions_reader import read_answers

    read = read_answers(raw, how)
    design = SamplingDesign(
        labelled="label" in how.columns, refers=how.refers, **judged
    )
    answered = partial(answers_of, design=design, against=against)
    crossed = answered(read)
    scored = None
    if "above" in read.frame:
        scored = replace(answered(read, answer="above"), groups=crossed.groups)
    names = list(read.groups)
    one_by_one = [replace(read, groups=read.groups[[name]]) for name in names]
    alone = [Audit(answered(one)) for one in one_by_one if len(names) > 1]
    return read, Audit(crossed, scored=scored, alone=alone)


def _of_values(
    y_pred: Any, y_true: Any, groups: Any
) -> "tuple[pd.DataFrame, list[str]]":
    """A table of n values each, and the names of the groups' columns."""
    import numpy as np
    import pandas as pd

    if y_pred is None or groups is None:
        raise FwcError(
            "there is no table: give a data frame, or give y_pred and sensitive_features, n "
            "values each"
        )
    if not isinstance(groups, pd.DataFrame | Mapping):
        groups = {str(getattr(groups, "name", None) or "sensitive_features"): groups}
    values = {"y_pred": y_pred} | ({} if y_true is None else {"y_true": y_true})
    values |= {str(name): groups[name] for name in groups}
    frame = pd.DataFrame(index=pd.Series(y_pred).index)
    for name, given in values.items():
        if np.shape(given) != (len(frame),):
            raise FwcError(
                f"{name} has the shape {np.shape(given)}: give {len(frame):,} values, one for each "
                "of y_pred"
            )
        check_index(given, frame, name)
        frame[name] = getattr(given, "array", given)
    return frame, [str(name) for name in groups]
