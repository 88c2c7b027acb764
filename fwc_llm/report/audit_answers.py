"""The one door to the statistics: answers in, `Audit` out, whoever gave the answers."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from fwc_llm.gates import Check, all_of, decide, parse_condition
from fwc_llm.metrics.audit_table import (
    DecisionValues,
    from_frame,
    of_population,
    unused_columns,
    with_population,
)
from fwc_llm.metrics.run_answers import RunAnswers
from fwc_llm.metrics.sampling_design import WORST, Unread
from fwc_llm.metrics.statistics import statistics

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from narwhals.typing import IntoFrame

    from fwc_llm.report.reference_models import References


class Audit:
    """Accuracy and fairness of answers: values, intervals, tests and their scope.

    Prints as a table, also in a notebook. `to_dict()` has the form of a run's "statistics" in `fwc-llm report
    --format json`.
    """

    def __init__(self, answered: RunAnswers, references: "References | None" = None) -> None:
        self.answered, self._references = answered, references

    @cached_property
    def _statistics(self) -> dict[str, Any]:
        return statistics(self.answered, self._references)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms' names."""
        return self.answered.arms

    def check(self, condition: str) -> Check:
        """Check a condition that must not hold, such as "dp > 0.1", by its 95 % interval (docs/gates.md).

        Raises `FwcError` for an invalid condition or an unknown arm.
        """
        return all_of(condition, decide(parse_condition(condition), self.answered))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON; undefined values are None."""
        from copy import deepcopy

        return deepcopy(self._statistics)

    def plot(self) -> "Figure":
        """Draw rates of yes per group, and with labels accuracy against the DP gap, as one figure.

        Raises `FwcError` without matplotlib (extra `plot`).
        """
        from fwc_llm.report.figures import overview

        return overview(self._statistics, [f"{len(self.arms)} arms" if len(self.arms) > 1 else self.arms[0]])

    def __str__(self) -> str:
        from fwc_llm.report.table_model import as_text
        from fwc_llm.report.terminal import summary

        return as_text(summary(self._statistics))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from fwc_llm.report.sections import first, rates
        from fwc_llm.report.table_model import notebook

        shown = first(self._statistics), rates(self._statistics)
        return notebook("Values with 95 % intervals", *shown)


def audit(
    answers: "IntoFrame",
    *,
    answer: Hashable = "answer",
    protected: Hashable | Sequence[Hashable] = (),
    label: Hashable | None = "label",
    positive: Any = None,
    negative: Any = None,
    others: Literal["no", "drop"] | None = None,
    unknown: Collection[str] = (),
    p_yes: Hashable | None = "p_yes",
    weight: Hashable | None = None,
    cluster: Hashable | None = None,
    given: Hashable | None = None,
    design: str = "group",
    attributes: Sequence[str] = (),
    min_group: int = 30,
    margin: float = 0.05,
    against: str = "",
    unread: Unread = WORST,
    population: "IntoFrame | None" = None,
    key: Hashable = "row",
) -> Audit:
    """Measure accuracy and fairness of answers from any source (docs/statistics.md).

    `answers` is a data frame (pandas, Polars, Arrow or any other that narwhals supports) with one line per
    answer; its cells are read as if from a CSV file. Columns: `answer` (empty where it could not be parsed),
    `protected` (one or several, crossed; without it the column `group`), `label` (None, or no column "label"
    although `protected` is given: only rates of yes are audited), and optionally `p_yes`. Answers and labels
    are yes and no, true and false, 1 and 0, or values of which `positive` (one or several) mean yes and
    `negative` no; `others` says whether further ones mean "no", or "drop" their rows. Further columns are
    used if present: `arm` (who answered), `repeat`, `row` (what was asked about; default: every line is
    another row), `reason` (why an answer is missing) and `examples`, a name of the set of examples under
    which the row was asked.

    `weight` names the column of survey weights, `cluster` that of people who have several rows, `given` the
    strata within which parity is compared as well (Mantel–Haenszel). `design` says what was fixed when the
    rows were drawn: "group and label" if the number of rows of each group and label was fixed, as by `fwc-llm
    eval` with a base parity; "group" if labels were not fixed. `attributes` names the protected attributes
    whose levels stand in the column `group`, joined by " & " ("Male & White"). Several spellings of an
    unknown category ("N/A", "keine Angabe") become the group "unknown", as do the words in `unknown`.

    Groups of fewer than `min_group` rows are shown and not judged. Gaps up to `margin` are negligible: the
    verdict is "no difference shown" if the interval ends within it. Verdicts and gates hold for every
    possible answer of replies without one (`unread="worst"`); "as-no" reads them as no, "ignore" leaves them
    out. `against` names the arm that the others are compared with ("": the first, "all": each with each).

    `population` has all rows from which the answered ones were drawn; the column `key` identifies a row in
    both. Its other columns predict the missing answers, and every value uses the predictions
    (docs/fewer-questions.md, "Assisted"). Protected columns that `answers` lacks are taken from it.

    Raises `FwcError` for a missing column, a row with two labels or two groups, an arm that lacks rows of the
    others, and answers of more than two kinds.
    """
    import pandas as pd

    from fwc_llm.cell_rules import title_of
    from fwc_llm.data.raw_table import frame_table, titles_of
    from fwc_llm.report.predictions_reader import as_numbers, filled, population_of, repeated_note

    raw, groups = frame_table(answers), titles_of(answers, protected)
    roles = {"answer": answer, "label": label, "weight": weight, "cluster": cluster, "given": given}
    titles: dict[str, Any] = {role: None if name is None else title_of(name) for role, name in roles.items()}
    numbers = {None if p_yes is None else title_of(p_yes): "p_yes", titles["weight"]: "weight"}
    named, levels = title_of(key), groups or ["group"]
    used = {*levels, named, "arm", "repeat", "examples", "reason", *titles.values(), *numbers}
    columns: dict[str, Any] = {name: filled(raw.texts(name)) for name in raw.titles if name in used}
    for name, kind in numbers.items():
        if name in columns:
            columns[name] = as_numbers(columns[name], name, kind)
    frame = pd.DataFrame(columns)
    decisions = DecisionValues(positive, negative, others)
    if population is not None:
        texts = [*levels, titles["label"], titles["cluster"]]
        everybody = population_of(frame_table(population), named, texts)
        frame = with_population(frame, everybody, named, levels)
    answered = from_frame(
        frame.rename(columns={named: "row"}),
        design,
        attributes,
        protected=groups,
        decisions=decisions,
        unknown=unknown,
        p_yes=next(iter(numbers)),
        min_group=min_group,
        margin=margin,
        against=against,
        unread=unread,
        **titles,
    )
    unused = unused_columns(raw.titles, used, titles["weight"], titles["cluster"])
    answered = replace(answered, unused=(*answered.unused, *unused))
    if population is not None:
        options = titles["label"], decisions, unknown, titles["cluster"]
        answered = of_population(answered, everybody, named, *options)
    if cluster is None:
        repeated = repeated_note(raw, titles["answer"], *numbers)
        answered = replace(answered, unused=(*answered.unused, *repeated))
    return Audit(answered)
