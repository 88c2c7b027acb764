"""The answers of one arm, and of all arms of a run: the input of statistics."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import union_categoricals

from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.counts import REFER, Codes, Floats, Labels, levels_of
from fwc_llm.metrics.sampling_design import AS_THEY_FALL, SamplingDesign
from fwc_llm.metrics.variance import REASONS, ArmArrays, Assist
from fwc_llm.words import CROSSING, is_known

if TYPE_CHECKING:
    Names = pd.Categorical[str]

MIN_PROBABILITIES = 10  # values of P(yes) of an arm, at least, for statistics of P(yes)
_UNREAD = ("empty", "ambiguous", "other")  # reasons that are counted as "unread"
_TEXTS = ("row", "variant", "group", "reason", "examples", "cluster", "stratum")


@dataclass(frozen=True)
class ArmAnswers:
    """The n answers of one arm.

    `answer` is a code of `counts`, as `label` is, or NaN. `reason` says why it is NaN, and `p_yes`
    may be NaN. `examples` names the set of examples in each prompt, `cluster` the person if people
    have several rows, `stratum` the level of the column that parity is conditional on. Arrays of
    texts are turned into categories.
    """

    repeat: npt.NDArray[np.int64]
    row: "Names"
    variant: "Names"
    group: "Names"
    label: Labels
    answer: Floats
    reason: "Names"
    p_yes: Floats
    examples: "Names"
    weight: Floats | None = None
    cluster: "Names | None" = None
    stratum: "Names | None" = None

    def __post_init__(self) -> None:
        for name in _TEXTS:
            texts = getattr(self, name)
            if texts is not None:
                object.__setattr__(self, name, as_names(texts))

    def __len__(self) -> int:
        return len(self.answer)

    def where(self, chosen: npt.NDArray[Any]) -> "ArmAnswers":
        """Select answers by a mask (n,) or by positions; a mask of all returns the object
        itself.
        """
        if chosen.dtype == np.bool_ and chosen.all():
            return self
        parts = {
            name: values[chosen]
            for name, values in vars(self).items()
            if values is not None
        }
        return replace(self, **parts)

    @property
    def unparsed(self) -> dict[str, int]:
        """Number of missing answers by reason, "empty" if none is known."""
        reasons = self.reason[np.isnan(self.answer)].tolist()
        return dict(Counter(reason or "empty" for reason in reasons))

    @property
    def without_reason(self) -> int:
        """The number of missing answers whose reason is not known, such as blanks in a table."""
        return int(
            np.count_nonzero(np.isnan(self.answer) & np.asarray(self.reason == ""))
        )

    @property
    def unit(self) -> "Names":
        """(n,) the units that were drawn: people if known, else rows."""
        if self.cluster is None:
            return self.row
        return self.cluster

    @property
    def probabilities(self) -> int:
        """Number of answers with P(yes)."""
        return int((~np.isnan(self.p_yes)).sum())


def names_of(codes: Any, texts: Any) -> "Names":
    """Return categories (n,) from codes (n,) and texts (k,); equal texts become one."""
    code, different = pd.factorize(pd.Index(texts, dtype="str"))
    return pd.Categorical.from_codes(code[codes], different)


def as_names(texts: Any) -> "Names":
    """Return texts (n,) as categories; return categories as they are."""
    if isinstance(texts, pd.Categorical):
        if texts.categories.dtype == "str":
            return texts
        return mapped(texts, str)
    different, code = np.unique(np.asarray(texts).astype(np.str_), return_inverse=True)
    return names_of(code, different.tolist())


def one_name(text: str, n: int) -> "Names":
    """Return n times the same text, as categories."""
    return names_of(np.zeros(n, dtype=np.int8), [text])


def mapped(names: "pd.Categorical[Any]", change: Callable[[Any], str]) -> "Names":
    """Apply `change` to every distinct name; several names may become the same."""
    return names_of(names.codes, [change(text) for text in names.categories])


def unknown_of(groups: Sequence[str]) -> tuple[int, ...]:
    """Return the indices of groups whose category is unknown."""
    return tuple(index for index, group in enumerate(groups) if not is_known(group))


ByArm: TypeAlias = Mapping[str, ArmAnswers]


@dataclass(frozen=True)
class View:
    """A grouping of a run's groups: `levels` (L,), and the index `level_of` (G,) of each group's
    level.
    """

    name: str
    levels: tuple[str, ...]
    level_of: Codes
    crossed: bool = False


def views(groups: Sequence[str], attributes: Sequence[str]) -> list[View]:
    """Return a view of every attribute and last, if there are several, of all crossed."""
    names = [str(name) for name in attributes] or ["group"]
    crossed = View(
        CROSSING.join(names), tuple(groups), np.arange(len(groups)), len(names) > 1
    )
    parts = [group.split(CROSSING) for group in groups]
    if len(names) == 1 or any(len(part) != len(names) for part in parts):
        return [crossed]
    alone = []
    for name, column in zip(names, zip(*parts, strict=True), strict=True):
        code, levels = pd.factorize(np.array(column, object))
        alone.append(View(name, tuple(levels), code))
    return [*alone, crossed]


def numbered(columns: Sequence["Names"]) -> list[Codes]:
    """Return integer codes of names, in order of first appearance, shared by all columns."""
    together = union_categoricals(list(columns)).codes
    code = pd.factorize(together)[0].astype(np.int64)
    return np.split(code, np.cumsum([len(names) for names in columns])[:-1])


def questions_of(answers: Sequence[ArmAnswers]) -> list[Codes]:
    """Return integer question ids (n,), one per repeat and row, shared by all sets of answers."""
    rows = numbered([a.row for a in answers])
    many = 1 + max((int(row.max(initial=0)) for row in rows), default=0)
    return [a.repeat * many + row for a, row in zip(answers, rows, strict=True)]


@dataclass(frozen=True)
class RunAnswers:
    """The input of statistics: every arm's answers to the same questions, and the design of the
    sample.

    `groups` are in the order of tables; " & " joins the levels of the `attributes` in a group's
    name. `counterfactuals` has, by arm, the answers to variants of rows with another protected
    attribute, `probes` those to rows that were asked about in another way (the variant is the
    probe's name before a colon). `against` names the arm that all others are compared with ("": the
    first arm; "all": every pair). `unused` has notes on columns that should perhaps have been used,
    and groups left out. With `assist`, values use the predictions `assists`.
    """

    answers: ByArm
    groups: tuple[str, ...]
    design: SamplingDesign = AS_THEY_FALL
    counterfactuals: ByArm = field(default_factory=dict)
    attributes: tuple[str, ...] = ()
    against: str = ""
    unused: tuple[str, ...] = ()
    probes: ByArm = field(default_factory=dict)
    assists: Mapping[str, Assist] = field(default_factory=dict)
    assist: bool = False

    def __post_init__(self) -> None:
        if self.answers:
            weight = next(iter(self.answers.values())).weight
        else:
            weight = None
        if weight is None:
            return
        names, code = levels_of(next(iter(self.answers.values())).group)
        nothing = [
            names[index] for index in np.flatnonzero(np.bincount(code, weight) == 0)
        ]
        if nothing:
            kept = {
                arm: a.where(~a.group.isin(nothing)) for arm, a in self.answers.items()
            }
            note = (
                f"All weights of {', '.join(nothing)} are 0: these rows are left out."
            )
            object.__setattr__(self, "answers", kept)
            object.__setattr__(
                self,
                "groups",
                tuple(name for name in self.groups if name not in nothing),
            )
            object.__setattr__(self, "unused", (*self.unused, note))

    @property
    def with_examples(self) -> bool:
        """Whether any prompt is known to have had examples."""
        return any(
            bool((answers.examples != "").any()) for answers in self.answers.values()
        )

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms' names."""
        return tuple(self.answers)

    @cached_property
    def views(self) -> list[View]:
        """The protected attributes one by one, and last all crossed."""
        return views(self.groups, self.attributes)

    @property
    def attribute(self) -> str:
        """The name of all protected attributes, crossed."""
        return self.views[-1].name

    @cached_property
    def repeats(self) -> int:
        """Number of repeats."""
        return next(iter(self.plain_samples.values())).repeats

    @cached_property
    def plain_samples(self) -> dict[str, ArmArrays]:
        """Every arm as arrays, all with the same numbers of rows and repeats."""
        return samples_of(self.answers, self.groups, self.design)

    @cached_property
    def samples(self) -> dict[str, ArmArrays]:
        """The samples for values, intervals and verdicts: with predictions if `assist`."""
        own = self.plain_samples
        if self.assist:
            return {arm: replace(own[arm], assist=self.assists.get(arm)) for arm in own}
        return own

    @cached_property
    def plain_estimates(self) -> dict[str, ArmEstimates]:
        """The metrics of every arm, by its own answers."""
        return {arm: ArmEstimates(sample) for arm, sample in self.plain_samples.items()}

    @cached_property
    def estimates(self) -> dict[str, ArmEstimates]:
        """The metrics of every arm: with predictions if `assist`."""
        if not self.assist:
            return self.plain_estimates
        return {arm: ArmEstimates(sample) for arm, sample in self.samples.items()}

    def in_view(self, view: View) -> dict[str, ArmEstimates]:
        """The metrics of every arm by its own answers, with the groups of a view."""
        if view.name == self.attribute:
            return self.plain_estimates
        if view.name not in self._in_views:
            of: Any = {"groups": len(view.levels), "unknown": unknown_of(view.levels)}
            self._in_views[view.name] = {
                arm: ArmEstimates(replace(a, group=view.level_of[a.group], **of))
                for arm, a in self.plain_samples.items()
            }
        return self._in_views[view.name]

    def forget_estimates(self) -> None:
        """Drop the cached estimates: their influences take n floats for each rate."""
        for name in ("plain_estimates", "estimates", "_in_views"):
            vars(self).pop(name, None)

    @cached_property
    def _in_views(self) -> dict[str, dict[str, ArmEstimates]]:
        return {}


def _of_labels(answers: ArmAnswers) -> Floats:
    """P(yes) (n,) of rows with label yes or no; NaN for rows that were referred."""
    return np.where(answers.label == REFER, np.nan, answers.p_yes)


def samples_of(
    answers: ByArm, groups: Sequence[str], design: SamplingDesign
) -> dict[str, ArmArrays]:
    """Return sets of answers as arrays, sorted by repeat and row, numbered alike in all sets."""
    repeats = np.unique(np.concatenate([np.unique(a.repeat) for a in answers.values()]))
    rows = numbered([a.row for a in answers.values()])
    people: Sequence[Codes | None] = [None] * len(rows)
    if all(a.cluster is not None for a in answers.values()):
        people = numbered(
            [a.cluster for a in answers.values() if a.cluster is not None]
        )
    samples = {}
    for (arm, a), row, cluster in zip(answers.items(), rows, people, strict=True):
        repeat = np.searchsorted(repeats, a.repeat)
        order: Any = np.lexsort((row, repeat))
        if (np.diff(order) == 1).all():
            order = np.s_[:]  # a view, not a copy
        reason = mapped(a.reason, lambda why: "unread" if why in _UNREAD else why)
        samples[arm] = ArmArrays(
            answer=a.answer[order],
            label=a.label[order],
            group=a.group.set_categories(list(groups)).codes.astype(np.int64)[order],
            repeat=repeat[order],
            row=row[order],
            groups=len(groups),
            design=design,
            examples=numbered([a.examples])[0][order]
            if len(a.examples.unique()) > 1
            else None,
            weight=None if a.weight is None else a.weight[order],
            cluster=None if cluster is None else cluster[order],
            p_yes=_of_labels(a)[order]
            if a.probabilities >= MIN_PROBABILITIES
            else None,
            strata=None if a.stratum is None else a.stratum[order],
            reason=reason.set_categories(list(REASONS)).codes[order],
            unknown=unknown_of(groups),
        )
    return samples
