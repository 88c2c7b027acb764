"""An audit's tables of one arm: groupings, accounting, selection rates, impact ratios, confusion, precision.

A group's impact ratio is its rate of yes over the highest rate of any group. Its interval allows for not
knowing which group's rate is truly the highest: the limits of the ratios to all groups hold together, and the
smallest of them are the impact ratio's (docs/statistics.md, "Impact ratios"). Four-fifths and Fisher's test
are what laws and practices ask for; they may differ in words from the verdict on a gap.

A design that fixes how many rows of each group and label are asked makes no sample of people. Within a group
and label its rows are drawn as they fall, so that the shares counted there, weighted as the table has them,
speak of the table again; the table's own shares count as estimates from its rows.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fwc_llm.metrics.answers import Answers
from fwc_llm.metrics.arm_comparison import holm
from fwc_llm.metrics.arm_estimates import (
    Pairs,
    Rates,
    estimate,
    gaps_of_pairs,
    pairs_of,
    ratios_of_pairs,
    representatives,
    share_limits,
)  # fmt: skip
from fwc_llm.metrics.counts import Codes, Floats
from fwc_llm.metrics.intervals import LEVEL, p_value
from fwc_llm.metrics.variance import Sample, Shares

CROSSING = " & "
FOUR_FIFTHS = 0.8
LEAST_SHARE = 0.02  # of the people; Local Law 144 may leave a smaller group out of the ratios
MOST_PAIRED = 30  # levels whose pairs are all listed
FISHER, BY_DESIGN = "Fisher's exact", "by design"
_UNKNOWN = "unknown"  # the level of people whose category is not known
_TESTED = ("test", "p_value", "p_adjusted", "significant")
# What is said of a group whose rates are withheld.
NOT_SELECTED: Mapping[str, Any] = {
    **dict.fromkeys(("share", "small", "known", "selection_rate", "low", "high")),
    **dict.fromkeys(("impact_ratio", "impact_ratio_low", "impact_ratio_high", "four_fifths", "shortfall")),
    **dict.fromkeys(_TESTED),
    "reason": "withheld",
}
_ROUNDING = 1e-9


@dataclass(frozen=True)
class View:
    """One grouping: its `name`, its `levels` (L,), and the level of each of the run's groups (G,).

    `crossed` says that it joins several attributes.
    """

    name: str
    levels: tuple[str, ...]
    level_of: Codes
    crossed: bool = False

    @cached_property
    def known(self) -> tuple[bool, ...]:
        """Which levels are categories, and not people whose category is unknown (L,)."""
        parts = ([part.strip().lower() for part in level.split(CROSSING)] for level in self.levels)
        return tuple(_UNKNOWN not in one for one in parts)

    def of(self, sample: Sample) -> Sample:
        """Return the sample with levels in the place of groups."""
        return replace(sample, group=self.level_of[sample.group], groups=len(self.levels))


def views(groups: Sequence[str], attributes: Sequence[str]) -> list[View]:
    """Return every attribute by itself, then (where there are several) the groups as they are, crossed.

    `groups` join the levels of several attributes by " & ". Groups that do not split into as many parts as
    there are attributes are taken as they are.
    """
    names = [str(name) for name in attributes] or ["group"]
    whole = View(CROSSING.join(names), tuple(groups), np.arange(len(groups)), len(names) > 1)
    parts = [group.split(CROSSING) for group in groups]
    if len(names) == 1 or any(len(part) != len(names) for part in parts):
        return [whole]
    found = []
    for place, name in enumerate(names):
        number: dict[str, int] = {}
        codes = [number.setdefault(part[place], len(number)) for part in parts]
        found.append(View(name, tuple(number), np.array(codes, dtype=np.int64)))
    return [*found, whole]


@dataclass(frozen=True)
class Population:
    """A table's rows per group and label: `rows` (G, 2) in the order of `groups`, label no, then yes."""

    groups: tuple[str, ...]
    rows: Floats

    def in_order(self, groups: Sequence[str]) -> "Population":
        """Return the rows of these groups, 0 for one that the table does not have."""
        place = {name: number for number, name in enumerate(self.groups)}
        rows = [self.rows[place[name]] if name in place else np.zeros(2) for name in groups]
        return Population(tuple(groups), np.array(rows).reshape(-1, 2))

    def by_level(self, view: View) -> Floats:
        """Return the rows per level and label (L, 2)."""
        rows = np.zeros((len(view.levels), 2))
        np.add.at(rows, view.level_of, self.rows)
        return rows

    def as_json(self) -> list[dict[str, Any]]:
        """Return the counts as run.json holds them."""
        pairs = zip(self.groups, self.rows.tolist(), strict=True)
        return [{"group": group, "no": int(no), "yes": int(yes)} for group, (no, yes) in pairs]


def population_of(counted: Sequence[Mapping[str, Any]]) -> Population:
    """Return the counts that `as_json` wrote."""
    rows = np.array([[one["no"], one["yes"]] for one in counted], dtype=np.float64).reshape(-1, 2)
    return Population(tuple(str(one["group"]) for one in counted), rows)


def rates_of_levels(cells: Shares, view: View, population: Population) -> Shares:
    """Return each level's rate (L,) as the table's people would have it.

    `cells` are the shares of each group and label (2G,), label no and yes of the first group, then the next.
    """
    owner = np.repeat(view.level_of, 2)
    return _weighted(cells, population, owner, owner, len(view.levels))


def rates_by_label(cells: Shares, view: View, population: Population) -> Shares:
    """Return the rates among each level's rows with label no and with label yes (2L,)."""
    owner = (2 * view.level_of[:, None] + np.arange(2)).ravel()
    return _weighted(cells, population, owner, owner, 2 * len(view.levels))


def joint_rates(cells: Shares, view: View, population: Population) -> Shares:
    """Return the shares of each level that have label no, or yes, and are answered yes (2L,)."""
    owner = (2 * view.level_of[:, None] + np.arange(2)).ravel()
    return _weighted(cells, population, owner, np.repeat(view.level_of, 2), 2 * len(view.levels))


def _weighted(cells: Shares, population: Population, owner: Codes, of: Codes, owners: int) -> Shares:
    """Sums of cells' shares, each weighted by its part of the table's rows `of` its level (or kind)."""
    rows = population.rows.ravel()
    total = np.bincount(of, rows, int(of.max()) + 1)
    weight = rows / np.where(total > 0, total, 1.0)[of]
    size = np.zeros(owners)
    size[owner] = total[of]
    return cells.combined(owner, weight, owners, size)


def accounting(answers: Answers, groups: tuple[str, ...], view: View) -> dict[str, dict[str, int]]:
    """Return of every level of one arm how many questions were asked, and what became of them.

    `questions` are `selected` (yes) and `not_selected` answers, `unparsed` ones, and those with `no_reply`.
    """
    level = view.level_of[answers.group.set_categories(list(groups)).codes]
    unread, no_reply = np.isnan(answers.answer), answers.reason == "error"
    kinds = {
        "questions": np.ones(len(answers), dtype=bool),
        "selected": answers.answer == 1,
        "not_selected": answers.answer == 0,
        "unparsed": unread & ~no_reply,
        "no_reply": unread & no_reply,
    }
    counted = {name: np.bincount(level[here], minlength=len(view.levels)) for name, here in kinds.items()}
    return {
        name: {kind: int(counts[number]) for kind, counts in counted.items()}
        for number, name in enumerate(view.levels)
    }


def lost_of_levels(groups: Iterable[Mapping[str, Any]], view: View, width: int, place: int) -> dict[str, Any]:
    """Return the rows read, kept and lost of each level before the run, from those of the crossed groups.

    `place` is the attribute's place among `width` of them; groups of another width are left out.
    """
    found: dict[str, dict[str, int]] = {}
    for one in groups:
        parts = str(one["group"]).split(CROSSING)
        alone = not view.crossed and width > 1
        if alone and len(parts) != width:
            continue
        sums = found.setdefault(
            parts[place] if alone else str(one["group"]), dict.fromkeys(("read", "kept", "lost"), 0)
        )
        for name in sums:
            sums[name] += int(one[name])
    return found


@dataclass(frozen=True)
class Selection:
    """One arm's rates of yes under one grouping, with all that is asked of them.

    `rates` are one share a level, of `sample`, whose groups are the levels. They speak of `people` (L,): the
    rows asked about, or a table's; the shortfall is of the share `read` (L,) of them, which has an answer.
    `counts` (L, 2) are the answers that are not yes, and yes; they are None where a test may not count them,
    because rows were asked again, weighted or drawn by design.
    """

    view: View
    sample: Sample
    rates: Shares
    people: Floats
    read: Floats
    counts: Floats | None = None

    def described(self) -> dict[str, Any]:
        """Return the groups, the group that the ratios are to, and all pairs of groups, for JSON."""
        reference = self._reference
        return {
            "reference": None if reference is None else self.view.levels[reference],
            "groups": {name: self._group(place) for place, name in enumerate(self.view.levels)},
            "pairs": self._pairs,
            "all_pairs": len(self._defined) <= MOST_PAIRED,
        }

    @cached_property
    def _limits(self) -> Rates:
        return share_limits(self.rates)

    @cached_property
    def _defined(self) -> list[int]:
        """The known levels that have a rate."""
        defined = ~np.isnan(self.rates.values)
        return [place for place, known in enumerate(self.view.known) if known and defined[place]]

    @cached_property
    def share(self) -> Floats:
        """Each level's share of the people whose category is known (L,); NaN for one that is not."""
        known = np.where(self.view.known, self.people, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(known / np.nansum(known))

    @cached_property
    def _counted(self) -> list[int]:
        """The levels that ratios are of: those under 2 % are left out, unless fewer than two were left."""
        large = [place for place in self._defined if self.share[place] >= LEAST_SHARE - _ROUNDING]
        return large if len(large) > 1 else self._defined

    @cached_property
    def _reference(self) -> int | None:
        """The level with the highest rate; None where there is none, or it is 0."""
        if len(self._counted) < 2:
            return None
        best = max(self._counted, key=lambda place: float(self.rates.values[place]))
        return best if self.rates.values[best] > 0 else None

    @cached_property
    def _asked(self) -> tuple[Codes, Codes]:
        """The questions about each level, and its parsed answers (L,)."""
        group = self.sample.group
        counts = np.bincount(group, minlength=self.sample.groups)
        return counts, np.bincount(group[self.sample.parsed], minlength=self.sample.groups)

    def _group(self, place: int) -> dict[str, Any]:
        value, reference = float(self.rates.values[place]), self._reference
        described: dict[str, Any] = dict(NOT_SELECTED) | {
            "share": self.share[place],
            "small": bool(self.share[place] < LEAST_SHARE - _ROUNDING),
            "known": self.view.known[place],
            "selection_rate": value,
            "low": self._limits.low[place],
            "high": self._limits.high[place],
            "reason": self._reason(place),
        }
        if described["reason"] or reference is None:
            return described
        low, high = self._impact_limits[0][place], self._impact_limits[1][place]
        ratio = value / float(self.rates.values[reference])
        lacking = self.people[place] * self.read[place] * (self.rates.values[reference] - value)
        described |= {
            "impact_ratio": ratio,
            "impact_ratio_low": min(low, ratio),
            "impact_ratio_high": max(high, ratio),
            "four_fifths": four_fifths(ratio, low, high),
            "shortfall": max(0, math.ceil(lacking - _ROUNDING * max(1.0, self.people[place]))),
        }
        return described | self._tests.get(self.view.levels[place], {})

    def _reason(self, place: int) -> str:
        """Why a level has no impact ratio; empty where it has one."""
        if not self.view.known[place]:
            return "its people's category is unknown"
        asked, parsed = self._asked
        if not asked[place]:
            return "no row of it was asked about"
        if np.isnan(self.rates.values[place]):
            if not parsed[place]:
                return "0/0: no answer about it could be parsed"
            return "0/0: no parsed answer about one of the labels that the table has of it"
        if len(self._defined) < 2:
            return "it takes two groups with a rate"
        if self.share[place] < LEAST_SHARE - _ROUNDING and len(self._counted) < len(self._defined):
            return "left out: under 2 % of the rows"
        if self._reference is None:
            return "0/0: no group was answered yes even once"
        return ""

    @cached_property
    def _impact_limits(self) -> tuple[Floats, Floats]:
        """Of every counted level the least limits of its ratios to all of them, and to itself (1)."""
        places = np.array(self._counted)
        low, high = np.ones(len(self.view.levels)), np.ones(len(self.view.levels))
        kinds, of, _ = representatives(self.rates, places)
        for first, second in pairs_of(self.rates, places):
            under, over = ratios_of_pairs(self.rates, first, second, len(places))
            with np.errstate(divide="ignore"):
                for place, least, most in ((first, under, 1.0 / over), (second, over, 1.0 / under)):
                    np.minimum.at(low, place, least)
                    np.minimum.at(high, place, most)
        low[places], high[places] = low[kinds[of]], high[kinds[of]]
        return low, high

    @cached_property
    def _pairs(self) -> list[dict[str, Any]]:
        """All pairs of known levels: the first one's rate less the second's, their ratio and a test.

        Of more levels than `MOST_PAIRED` only the pairs with the highest rate are listed; all are tested for.
        """
        places = np.array(self._defined, dtype=np.int64)
        if len(places) < 2:
            return []
        second, first = (
            (places[side] for side in np.triu_indices(len(places), 1))
            if self._listed_all
            else (self._to_reference(places))
        )
        gap = gaps_of_pairs(self.rates, second, first, len(places))
        under, over = ratios_of_pairs(self.rates, first, second, len(places))
        found = [
            self._pair(int(one), int(other), at, gap, (float(under[at]), float(over[at])))
            for at, (one, other) in enumerate(zip(first, second, strict=True))
        ]
        if self.counts is not None:
            tests = len(places) * (len(places) - 1) // 2
            for one, p in zip(found, holm([one["p_value"] for one in found], tests).tolist(), strict=True):
                one["p_adjusted"] = p
        for one in found:
            p = one["p_adjusted"]
            one["significant"] = None if math.isnan(p) else p < 1 - LEVEL
        return found

    @property
    def _listed_all(self) -> bool:
        return len(self._defined) <= MOST_PAIRED

    def _to_reference(self, places: Codes) -> tuple[Codes, Codes]:
        if self._reference is None:
            return places[:0], places[:0]
        others = places[places != self._reference]
        reference = np.full(len(others), self._reference)
        return np.minimum(others, reference), np.maximum(others, reference)

    def _pair(
        self, first: int, second: int, at: int, gap: Pairs, under: tuple[float, float]
    ) -> dict[str, Any]:
        """The first one's rate is the later level's, as in a signed gap."""
        rates, levels = self.rates.values, self.view.levels
        lesser, greater = sorted((float(rates[first]), float(rates[second])))
        ratio = lesser / greater if greater > 0 else math.nan
        uppers = [1.0, *(1.0 / one if one > 0 else math.inf for one in under)]
        return {
            "first": levels[first],
            "second": levels[second],
            "difference": float(gap.value[at]),
            "low": float(gap.low[at]),
            "high": float(gap.high[at]),
            "ratio": ratio,
            "ratio_low": math.nan if math.isnan(ratio) else min(ratio, *under),
            "ratio_high": math.nan if math.isnan(ratio) else max(ratio, min(uppers)),
            "small": bool(min(self.share[first], self.share[second]) < LEAST_SHARE - _ROUNDING),
            **(self._by_design(at, gap) if self.counts is None else self._exact(self.counts, first, second)),
        }

    def _exact(self, counts: Floats, first: int, second: int) -> dict[str, Any]:
        """Fisher's exact test; Holm's correction over all pairs follows."""
        from scipy.stats import fisher_exact

        table = counts[[first, second]]
        p = fisher_exact(table).pvalue if table.sum(1).all() else math.nan
        return {"test": FISHER, "p_value": float(p)}

    def _by_design(self, at: int, gap: Pairs) -> dict[str, Any]:
        """The test that the interval of the difference makes: significant where it excludes 0.

        The adjusted p-value is that of all pairs together, by the studentized range, as the interval is.
        """
        groups, errors, freedom = len(self._defined), float(gap.errors[at]), float(gap.freedom[at])
        p = p_value(errors, 2, 1, freedom)
        together = p if groups == 2 else max(p, p_value(errors, groups, 1, freedom))
        return {"test": BY_DESIGN, "p_value": p, "p_adjusted": min(1.0, together)}

    @cached_property
    def _tests(self) -> dict[str, dict[str, Any]]:
        """The test of each level against the reference; none of the reference itself."""
        reference = "" if self._reference is None else self.view.levels[self._reference]
        found: dict[str, dict[str, Any]] = {}
        for one in self._pairs:
            tests = {name: one[name] for name in _TESTED}
            if reference in (one["first"], one["second"]):
                found[one["second"] if one["first"] == reference else one["first"]] = tests
        return found


def four_fifths(ratio: float, low: float, high: float) -> dict[str, Any]:
    """Return whether an impact ratio is below four fifths, and whether its interval leaves that in doubt."""
    below = ratio < FOUR_FIFTHS - _ROUNDING
    settled = high < FOUR_FIFTHS - _ROUNDING if below else low >= FOUR_FIFTHS - _ROUNDING
    return {"below": below, "settled": bool(settled)}


def answers_once(sample: Sample) -> bool:
    """Whether every row was asked about once: then people are counted, and exact tests may count them."""
    return (
        sample.repeats < 2
        and sample.rows == len(sample.row)
        and sample.weight is None
        and sample.cluster is None
    )


def answers_of_levels(sample: Sample) -> Floats:
    """Return the parsed answers of each level (L, 2): not yes, and yes."""
    cell = (2 * sample.group + sample.yes.astype(np.int64))[sample.parsed]
    return np.bincount(cell, minlength=2 * sample.groups).astype(np.float64).reshape(-1, 2)


def read_of_levels(sample: Sample) -> Floats:
    """Return the share of each level's answers that could be parsed (L,); NaN of a level without any."""
    asked = np.bincount(sample.group, minlength=sample.groups)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.bincount(sample.group, sample.parsed, sample.groups) / asked)


def people_of_levels(sample: Sample) -> Floats:
    """Return the rows of each level (L,); one that was asked about again counts once."""
    return sample.rows_of_groups


def confusion(
    sample: Sample, view: View, designed: bool, cells: Shares | None, population: Population | None
) -> dict[str, Any]:
    """Return of every level the counts of its parsed answers, its rates and its precision, for JSON.

    `sample` has the levels for groups, `cells` are the shares of each of the run's own groups and labels. In
    a designed sample rates are re-weighted to `population`; without one those that rest on the design's own
    mix of labels, or of groups, are None.
    """
    cell = (2 * sample.cell + sample.yes.astype(np.int64))[sample.parsed]
    counts = np.bincount(cell, minlength=4 * len(view.levels)).reshape(-1, 4).tolist()
    measured = _designed(sample, view, cells, population) if designed else _as_drawn(sample)
    found: dict[str, Any] = {}
    for place, (name, (true_no, false_yes, false_no, true_yes)) in enumerate(
        zip(view.levels, counts, strict=True)
    ):
        found[name] = {
            "true_positives": true_yes,
            "false_positives": false_yes,
            "false_negatives": false_no,
            "true_negatives": true_no,
            "reasons": {},
        }
        for rate in _CONFUSED:
            rates = measured[rate]
            numbers = (math.nan,) * 3
            if not isinstance(rates, str):
                numbers = float(rates.values[place]), float(rates.low[place]), float(rates.high[place])
            found[name] |= dict(zip((rate, f"{rate}_low", f"{rate}_high"), numbers, strict=True))
            if math.isnan(numbers[0]):
                found[name]["reasons"][rate] = rates if isinstance(rates, str) else _WHY[rate]
    return found


_CONFUSED = ("true_positive_rate", "false_positive_rate", "precision")
_WHY = {
    "true_positive_rate": "0/0: no parsed answer to a row with label yes",
    "false_positive_rate": "0/0: no parsed answer to a row with label no",
    "precision": "0/0: no row was answered yes",
}


def _as_drawn(sample: Sample) -> dict[str, Rates | str]:
    """Labels as they came: every rate is a share of the rows that it speaks of."""
    found = estimate(sample)
    return {rate: found.rates(rate) for rate in _CONFUSED}


def _designed(
    sample: Sample, view: View, cells: Shares | None, population: Population | None
) -> dict[str, Rates | str]:
    if population is None or cells is None:
        why = "withheld: it rests on the design's own mix of labels, and the table's is not known"
        if len(view.levels) < len(view.level_of):
            mixed = "withheld: it rests on the design's own mix of groups, and the table's is not known"
            return {**dict.fromkeys(_CONFUSED[:2], mixed), "precision": why}
        return {**_as_drawn(sample), "precision": why}
    by_label = share_limits(rates_by_label(cells, view, population))
    no, yes = (
        Rates(
            by_label.values[side::2],
            by_label.low[side::2],
            by_label.high[side::2],
            by_label.per_repeat[:, side::2],
        )
        for side in (0, 1)
    )
    precision = _precision(joint_rates(cells, view, population))
    return {"true_positive_rate": yes, "false_positive_rate": no, "precision": precision}


def _precision(joint: Shares) -> Rates:
    """From the shares rightly and wrongly answered yes: r / (1 + r), with the limits of their ratio r."""
    wrong = np.arange(0, len(joint.values), 2)
    under, over = ratios_of_pairs(joint, wrong + 1, wrong)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = joint.values[1::2] / (joint.values[1::2] + joint.values[::2])
        low, high = under / (1 + under), 1 / (1 + over)
    undefined = np.isnan(value)
    return Rates(
        value,
        np.where(undefined, np.nan, np.minimum(low, value)),
        np.where(undefined, np.nan, np.maximum(high, value)),
        joint.per_repeat[:, ::2],
    )
