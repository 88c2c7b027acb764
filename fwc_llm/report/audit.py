"""The one door to the statistics: answers in, `Audit` out, whoever gave the answers."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from fwc_llm.gates import Check, all_of, decide, parse_condition
from fwc_llm.metrics.answers import Answered
from fwc_llm.metrics.audit_table import Decisions, from_frame, of_population, with_population
from fwc_llm.metrics.statistics import statistics

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fwc_llm.report.reference_models import References


class Audit:
    """Accuracy and fairness of answers: values, intervals, tests, and what they speak of.

    Prints as a table, shows itself in a notebook, and `to_dict()` is the same as `fwc-llm report --format
    json` has as a run's "statistics".
    """

    def __init__(self, answered: Answered, references: "References | None" = None) -> None:
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

        Raises `FwcError` for a condition that cannot be read, and an arm that is not there.
        """
        return all_of(condition, decide(parse_condition(condition), self.answered))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON; what is undefined is None."""
        from copy import deepcopy

        return deepcopy(self._statistics)

    def plot(self) -> "Figure":
        """Draw rates of yes per group, and with labels accuracy against the DP gap, as one figure.

        Raises `FwcError` without matplotlib (extra `plot`).
        """
        from fwc_llm.report.figures import overview

        return overview(self._statistics, [f"{len(self.arms)} arms" if len(self.arms) > 1 else self.arms[0]])

    def __str__(self) -> str:
        from fwc_llm.report.tables import as_text
        from fwc_llm.report.terminal import statistics_table

        return as_text(statistics_table(self._statistics))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from fwc_llm.report.sections import rates, results
        from fwc_llm.report.tables import notebook

        shown = results(self._statistics), rates(self._statistics)
        return notebook("Values with 95 % intervals", *shown)


def audit(
    answers: "pd.DataFrame",
    *,
    answer: str = "answer",
    protected: Sequence[str] = (),
    label: str | None = "label",
    positive: Any = None,
    negative: Any = None,
    others: Literal["no", "drop"] | None = None,
    unknown: Collection[str] = (),
    p_yes: str | None = "p_yes",
    weight: str | None = None,
    cluster: str | None = None,
    given: str | None = None,
    design: str = "group",
    attributes: Sequence[str] = (),
    min_group: int = 30,
    margin: float = 0.05,
    against: str = "",
    population: "pd.DataFrame | None" = None,
    key: str = "row",
) -> Audit:
    """Measure accuracy and fairness of answers, whoever gave them (docs/statistics.md).

    `answers` has a line an answer. Columns: `answer` (empty where it could not be parsed), `protected` (one
    or several, crossed; without it the column `group`), `label` (None: rates of yes alone are audited, as
    they are where `protected` is given and there is no column "label"), and optionally `p_yes`. Answers and
    labels are yes and no, true and false, 1 and 0, or values of which `positive` (one or several) mean yes
    and `negative` no; `others` says whether further ones mean "no", or "drop" their rows. Further columns are
    used where they are there: `arm` (who answered), `repeat`, `row` (what was asked about; default: every
    line a row of its own), `reason` (why an answer is missing) and `examples`, a name of the set of examples
    under which the row was asked.

    `weight` names the column of survey weights, `cluster` that of people who have several rows, `given` the
    strata within which parity is compared as well (Mantel–Haenszel). `design` says what was fixed when the
    rows were drawn: "group and label" where the number of rows of each group and label was chosen, as
    `fwc-llm eval` does with a base parity; "group" where labels are as they came. `attributes` names the
    protected attributes that " & " joins in the column `group` ("Male & White"). Several spellings of an
    unknown category ("N/A", "keine Angabe") become the group "unknown", as do the words in `unknown`.

    Groups of fewer than `min_group` rows are shown and not judged. Gaps up to `margin` do not matter: a
    verdict is "no difference shown" where the interval ends there. `against` names the arm that the others
    are compared with ("": the first, "all": each with each).

    `population` has all rows that the answers were drawn from, named by `key` as the answers are: its other
    columns predict the answers to rows that have none, and every value is assisted by them
    (docs/fewer-questions.md, "Assisted"). Where it has the column `answer` and no labels, decisions are known
    of all rows and labels of those in `answers`: then labels are predicted. Columns of the row that `answers`
    lacks are taken from it.

    Raises `FwcError` for a missing column, a row with two labels or two groups, an arm that lacks rows of the
    others, and answers of more than two kinds.
    """
    decisions = Decisions(positive, negative, others)
    if population is not None:
        own = [protected] if isinstance(protected, str) else protected or ["group"]
        answers = with_population(answers, population, key, [answer, *own])
    answered = from_frame(
        answers if key == "row" else answers.rename(columns={key: "row"}),
        design,
        attributes,
        answer=answer,
        protected=protected,
        label=label,
        decisions=decisions,
        unknown=unknown,
        p_yes=p_yes,
        weight=weight,
        cluster=cluster,
        given=given,
        min_group=min_group,
        margin=margin,
        against=against,
    )
    if population is not None:
        answered = of_population(answered, population, key, label, decisions, answer, unknown)
    if cluster is None:
        answered = replace(answered, unused=(*answered.unused, *repeated_note(answers, answer, p_yes)))
    return Audit(answered)


def repeated_note(answers: "pd.DataFrame", *given: str | None) -> list[str]:
    """Return a note on rows that equal another, besides the columns that answers were `given` in."""
    from fwc_llm.data.table_checks import repeated_rows

    repeated, material = repeated_rows(answers.loc[:, ~answers.columns.isin(list(given))])
    return [f"{repeated}."] if material else []
