"""Which rows a table loses before anything is asked: how many of each group, and why."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fwc_llm.data.reading import Texts
from fwc_llm.taskfile import UNKNOWN, Protected

_LEAST_DIFFERENCE = 0.02  # of the groups' shares of lost rows: below it nobody is warned
_SIGNIFICANT = 0.05


@dataclass(frozen=True)
class GroupRows:
    """The rows of one group: how many the files hold, how many are kept, and why the others are not.

    A row that lacks several values counts under each of its `reasons`.
    """

    group: str
    read: int
    kept: int
    reasons: Mapping[str, int]

    @property
    def lost(self) -> int:
        """Rows that are not kept."""
        return self.read - self.kept

    @property
    def share(self) -> float:
        """The share of lost rows."""
        return self.lost / self.read if self.read else 0.0


@dataclass(frozen=True)
class RowCount:
    """The rows of a table by group; rows without a known group stand under "unknown"."""

    groups: tuple[GroupRows, ...]

    @property
    def read(self) -> int:
        """Rows of the files."""
        return sum(group.read for group in self.groups)

    @property
    def kept(self) -> int:
        """Rows of the table."""
        return sum(group.kept for group in self.groups)

    @property
    def reasons(self) -> dict[str, int]:
        """Lost rows by reason, the most frequent first."""
        found: Counter[str] = Counter()
        for group in self.groups:
            found.update(group.reasons)
        return dict(found.most_common())

    @property
    def warning(self) -> str | None:
        """What to know where groups lose unequally: more than chance, and more than a few rows."""
        known = [group for group in self.groups if group.kept or UNKNOWN not in group.group]
        if len(known) < 2:
            return None
        most = max(known, key=lambda group: group.share)
        least = min(known, key=lambda group: group.share)
        if most.share - least.share < _LEAST_DIFFERENCE or _p_value(known) >= _SIGNIFICANT:
            return None
        return (
            f"groups lose rows unequally: {most.group} {most.share:.1%}, {least.group} {least.share:.1%}; "
            "who is left out is not left out at random, and the results do not speak of them"
        )

    def as_json(self) -> dict[str, Any]:
        """The counts as run.json, results.json and reports hold them."""
        return {
            "read": self.read,
            "kept": self.kept,
            "lost": self.read - self.kept,
            "reasons": self.reasons,
            "groups": [
                {
                    "group": one.group,
                    "read": one.read,
                    "kept": one.kept,
                    "lost": one.lost,
                    "reasons": dict(one.reasons),
                }
                for one in self.groups
            ],
            "warning": self.warning,
        }


def count_rows(
    protected: Sequence[Protected],
    raw: Mapping[str, Texts],
    keep: Sequence[bool],
    reasons: Mapping[str, Sequence[int]],
) -> RowCount:
    """Count rows by group; `reasons` names the rows that are lost for each, by position."""
    columns = [[_level(attribute, cell) for cell in raw[attribute.source]] for attribute in protected]
    groups = [" & ".join(levels) for levels in zip(*columns, strict=True)]
    read = Counter(groups)
    kept = Counter(group for group, stays in zip(groups, keep, strict=True) if stays)
    why = {reason: Counter(groups[place] for place in places) for reason, places in reasons.items()}
    return RowCount(
        tuple(
            GroupRows(group, read[group], kept[group], {r: n[group] for r, n in why.items() if n[group]})
            for group in sorted(read)
        )
    )


def together(parts: Sequence[RowCount]) -> RowCount:
    """The counts of several parts of a table as those of the whole."""
    groups: dict[str, tuple[Counter[str], Counter[str]]] = {}
    for part in parts:
        for one in part.groups:
            counts, reasons = groups.setdefault(one.group, (Counter(), Counter()))
            counts.update(read=one.read, kept=one.kept)
            reasons.update(one.reasons)
    return RowCount(
        tuple(
            GroupRows(group, counts["read"], counts["kept"], dict(reasons))
            for group, (counts, reasons) in sorted(groups.items())
        )
    )


def _level(attribute: Protected, cell: str | None) -> str:
    """The protected level of a row that may be lost: what cannot be told is unknown."""
    if cell is None:
        return UNKNOWN
    if attribute.above is not None:
        try:
            return attribute.sides[float(cell) > attribute.above]
        except ValueError:
            return UNKNOWN
    return attribute.mapping.get(cell, UNKNOWN) if attribute.mapping else cell


def _p_value(groups: Sequence[GroupRows]) -> float:
    """Pearson's chi-squared test that all groups lose the same share."""
    from scipy.special import chdtrc

    read, lost = sum(group.read for group in groups), sum(group.lost for group in groups)
    if lost in (0, read):
        return 1.0
    share = lost / read
    squares = sum((g.lost - share * g.read) ** 2 / (g.read * share * (1 - share)) for g in groups)
    return float(chdtrc(len(groups) - 1, squares))
