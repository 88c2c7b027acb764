"""Selection rates, impact ratios, the four-fifths rule and tests, of one arm under one grouping.

A group's impact ratio is its rate of yes over the highest rate of any group. Its interval allows for not
knowing which group's rate is truly the highest: the limits of the ratios to all groups hold together, and the
smallest of them are the impact ratio's (docs/statistics.md, "Impact ratios").
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr, stdtr

from fwc_llm.metrics.cells import Floats
from fwc_llm.metrics.comparisons import LEVEL, holm
from fwc_llm.metrics.estimates import (
    Rates,
    gaps_of_pairs,
    ratios_of_pairs,
    share_limits,
)
from fwc_llm.metrics.fisher import fisher_exact
from fwc_llm.metrics.limits import pairs_reach, pairs_within
from fwc_llm.metrics.sample import Codes, Sample
from fwc_llm.metrics.shares import Shares
from fwc_llm.metrics.views import View, views

FOUR_FIFTHS = 0.8
LEAST_SHARE = 0.02  # of the people; a smaller group may be left out of the ratios
MOST_PAIRED = 30  # levels whose pairs are all listed
FISHER, BY_DESIGN = "Fisher's exact", "by design"
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
class Selection:
    """One arm's rates of yes under one grouping, with all that is asked of them.

    `rates` are one share a level, of `sample`, whose groups are the levels. They speak of `people` (L,): the
    rows asked about, or a table's; the shortfall is of the share `read` (L,) of them, which has an answer.
    `counts` (L, 2) are the answers that are not yes, and yes; they are None where a test may not count them,
    because rows were asked again or drawn by design.
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
        return share_limits(self.sample, self.rates)

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

    def _group(self, place: int) -> dict[str, Any]:
        value, reference = float(self.rates.values[place]), self._reference
        small = bool(self.share[place] < LEAST_SHARE - _ROUNDING)
        described: dict[str, Any] = dict(NOT_SELECTED) | {
            "share": self.share[place],
            "small": small,
            "known": self.view.known[place],
            "selection_rate": value,
            "low": self._limits.low[place],
            "high": self._limits.high[place],
            "reason": self._reason(place),
        }
        if described["reason"] or reference is None:
            return described
        low, high = self._impact_limits[place]
        ratio = value / float(self.rates.values[reference])
        lacking = self.people[place] * self.read[place] * (self.rates.values[reference] - value)
        described |= {
            "impact_ratio": ratio,
            "impact_ratio_low": min(low, ratio),
            "impact_ratio_high": max(high, ratio),
            "four_fifths": four_fifths(ratio, low, high),
            "shortfall": max(0, math.ceil(lacking - _ROUNDING * max(1.0, self.people[place]))),
        }
        return described | self._test(place, reference)

    def _reason(self, place: int) -> str:
        """Why a level has no impact ratio; empty where it has one."""
        if not self.view.known[place]:
            return "its people's category is unknown"
        if not (self.sample.group == place).any():
            return "no row of it was asked about"
        if np.isnan(self.rates.values[place]):
            if not (self.sample.group[self.sample.parsed] == place).any():
                return "0/0: no answer about it could be parsed"
            return "0/0: no parsed answer about one of the labels that the table has of it"
        if len(self._defined) < 2:
            return "it takes two groups with a rate"
        if place not in self._counted:
            return "left out: under 2 % of the rows"
        if self._reference is None:
            return "0/0: no group was answered yes even once"
        return ""

    @cached_property
    def _impact_limits(self) -> dict[int, tuple[float, float]]:
        """Of every counted level the least limits of its ratios to all of them, and to itself (1)."""
        places = self._counted
        first, second = _pairs_of(places)
        found = dict.fromkeys(places, (1.0, 1.0))
        lower = ratios_of_pairs(self.sample, self.rates, first, second, len(places))
        with np.errstate(divide="ignore"):
            upper = 1.0 / lower[1], 1.0 / lower[0]
        for side, owners in enumerate((first, second)):
            for place, low, high in zip(owners.tolist(), lower[side], upper[side], strict=True):
                found[place] = min(found[place][0], float(low)), min(found[place][1], float(high))
        return found

    @cached_property
    def _pairs(self) -> list[dict[str, Any]]:
        """All pairs of known levels: the first one's rate less the second's, their ratio and a test.

        Of more levels than `MOST_PAIRED` only the pairs with the highest rate are listed; all are tested for.
        """
        places = self._defined
        if len(places) < 2:
            return []
        second, first = _pairs_of(places)
        value, low, high = gaps_of_pairs(self.sample, self.rates, np.array(places), len(places))
        lower = ratios_of_pairs(self.sample, self.rates, first, second, len(places))
        listed = np.ones(len(first), dtype=np.bool_)
        if len(places) > MOST_PAIRED:
            listed = (first == self._reference) | (second == self._reference)
        numbers = np.column_stack([first, second, value, low, high, *lower])[listed].tolist()
        found = [self._pair(int(one[0]), int(one[1]), one[2:5], one[5:]) for one in numbers]
        if self.counts is not None:
            left_out = [1.0] * int((~listed).sum())  # each counts as a test, whatever it would say
            adjusted = holm([*(one["p_value"] for one in found), *left_out])[: len(found)].tolist()
            for one, p in zip(found, adjusted, strict=True):
                one["p_adjusted"] = p
        for one in found:
            p = one["p_adjusted"]
            one["significant"] = None if math.isnan(p) else p < LEVEL
        return found

    def _pair(self, first: int, second: int, gap: Sequence[float], under: Sequence[float]) -> dict[str, Any]:
        """The first one's rate is the later level's, as in a signed gap."""
        rates, levels = self.rates.values, self.view.levels
        lesser, greater = sorted((float(rates[first]), float(rates[second])))
        ratio = lesser / greater if greater > 0 else math.nan
        uppers = [1.0, *(1.0 / one if one > 0 else math.inf for one in under)]
        return {
            "first": levels[first],
            "second": levels[second],
            "difference": gap[0],
            "low": gap[1],
            "high": gap[2],
            "ratio": ratio,
            "ratio_low": math.nan if math.isnan(ratio) else min(ratio, *under),
            "ratio_high": math.nan if math.isnan(ratio) else max(ratio, min(uppers)),
            "small": bool(min(self.share[first], self.share[second]) < LEAST_SHARE - _ROUNDING),
            **(self._by_design(*gap) if self.counts is None else self._exact(self.counts, first, second)),
        }

    def _exact(self, counts: Floats, first: int, second: int) -> dict[str, Any]:
        """Fisher's exact test; Holm's correction over all pairs follows."""
        (no, yes), (other_no, other_yes) = (counts[place].tolist() for place in (first, second))
        return {
            "test": FISHER,
            "p_value": fisher_exact(int(yes), int(no + yes), int(other_yes), int(other_no + other_yes)),
        }

    def _by_design(self, gap: float, low: float, high: float) -> dict[str, Any]:
        """The test that the interval of the difference makes: significant where it excludes 0.

        The adjusted p-value is that of all pairs together, by the studentized range, as the interval is.
        """
        groups, redrawn = len(self._defined), self.sample.redrawn
        freedom = math.inf if redrawn is None else max(1.0, len(np.unique(redrawn)) - 1.0)
        to_zero = gap - low if gap > 0 else high - gap
        errors = abs(gap) / to_zero * pairs_reach(groups, 1, freedom) if gap else 0.0
        p = float(2 * (ndtr(-errors) if freedom == math.inf else stdtr(freedom, -errors)))
        together = p if groups == 2 else max(p, 1.0 - pairs_within(errors, groups, 1, freedom))
        return {"test": BY_DESIGN, "p_value": p, "p_adjusted": min(1.0, together)}

    def _test(self, place: int, reference: int) -> dict[str, Any]:
        """The test of a level against the reference; nothing for the reference itself."""
        wanted = {self.view.levels[place], self.view.levels[reference]}
        found = (one for one in self._pairs if {one["first"], one["second"]} == wanted)
        return {name: one[name] for one in found for name in _TESTED}


def four_fifths(ratio: float, low: float, high: float) -> dict[str, Any]:
    """Return whether an impact ratio is below four fifths, and whether its interval leaves that in doubt."""
    below = ratio < FOUR_FIFTHS - _ROUNDING
    settled = high < FOUR_FIFTHS - _ROUNDING if below else low >= FOUR_FIFTHS - _ROUNDING
    return {"below": below, "settled": bool(settled)}


def answers_once(sample: Sample) -> bool:
    """Whether every row was asked about once: then people are counted, and exact tests may count them."""
    return sample.repeats < 2 and sample.rows == len(sample.row)


def answers_of_levels(sample: Sample) -> Floats:
    """Return the parsed answers of each level (L, 2): not yes, and yes."""
    cell = (2 * sample.group + sample.yes.astype(np.int64))[sample.parsed]
    return np.bincount(cell, minlength=2 * sample.groups).astype(np.float64).reshape(-1, 2)


def read_of_levels(sample: Sample) -> Floats:
    """Return the share of each level's answers that could be parsed (L,); NaN of a level without any."""
    asked = np.bincount(sample.group, minlength=sample.groups)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.bincount(sample.group, sample.read, sample.groups) / asked)


def people_of_levels(sample: Sample) -> Floats:
    """Return the rows of each level (L,); one that was asked about again counts once."""
    group = np.full(int(sample.row.max(initial=-1)) + 1, -1, dtype=np.int64)
    group[sample.row] = sample.group
    return np.bincount(group[group >= 0], minlength=sample.groups).astype(np.float64)


def left_out(groups: Sequence[str], attributes: Sequence[str], sample: Sample) -> list[str]:
    """Return the groups that gaps count and ratios may leave out: of unknown category, or under 2 %."""
    known = np.array(views(groups, attributes)[-1].known, dtype=np.bool_)
    people = people_of_levels(sample)
    small = people < LEAST_SHARE * people[known].sum() * (1 - _ROUNDING)
    return [name for name, apart in zip(groups, small | ~known, strict=True) if apart]


def named(groups: Sequence[str]) -> str:
    """Return groups in a sentence; of many the first ones and how many more."""
    shown = ", ".join(f"{name:.60}" for name in groups[:4])
    more = f" and {len(groups) - 4} more" if len(groups) > 4 else ""
    return f"the group{'s' * (len(groups) > 1)} {shown}{more} (of unknown category or under 2 %)"


def _pairs_of(places: Sequence[int]) -> tuple[Codes, Codes]:
    first, second = np.triu_indices(len(places), 1)
    return np.array(places)[first], np.array(places)[second]
