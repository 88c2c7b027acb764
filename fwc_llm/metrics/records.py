"""`Record`: one number of a run or an audit, and where it belongs.

All results are a list of records: results.json, the CSV, `to_frame()` and the report hold the same
list, and tables, sentences and gates look records up (docs/format.md).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.sanitize import Fields, Json

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.metrics.intervals import Estimate

TRUTH = "true answers"  # the arm whose answers are the labels
READ = "replies that were read"  # without the range of the other replies
AS_NO_SCOPE = "unread replies as no"
READINGS = "all readings of unread replies"
ALL_GROUPS = "all groups"  # judged or not
ASSISTED = "assisted"
STRATA_SCOPE = "within strata"
DECIDED_SCOPE = "yes and no alone"  # without answers that refer a case to a person
ASKED_SCOPE = "rows that were asked about"  # without predictions of others
NAMES = "names"  # first names of another group
CHANGED_ATTRIBUTE = "the protected attribute changed"


@dataclass(frozen=True)
class Record:
    """One number.

    A value of `arm` about all rows, or about a `group` of an `attribute` (" & " joins crossed
    ones), in one `repeat` or in all. With `against`, the value is the difference to that arm or to
    that group (or, for impact ratios, the ratio). `scope`: what the interval `low` to `high` holds
    for; the first record of a number has the interval that was judged, further scopes have other
    readings. `p` tests equality, and is adjusted for the comparisons made. `n` is the number of
    answers or rows. `reason` says why a value or a verdict is missing. Undefined numbers are NaN.
    """

    arm: str = ""
    against: str = ""
    attribute: str = ""
    group: str = ""
    metric: str = ""
    repeat: int | None = None
    scope: str = ""
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    verdict: str = ""
    n: int | None = None
    reason: str = ""

    @property
    def key(self) -> tuple[str | int | None, ...]:
        """What the number is of; it is unique in a list of records."""
        return (
            self.arm,
            self.against,
            self.attribute,
            self.group,
            self.metric,
            self.repeat,
            self.scope,
        )

    def plain(self) -> Json:
        """The record as plain values for JSON; cells that say nothing are left out."""
        return {
            name: cell for name, cell in vars(self).items() if _says_something(cell)
        }

    @property
    def known(self) -> bool:
        """Whether the value is defined."""
        return not math.isnan(self.value)

    def reversed(self) -> "Record":
        """The difference seen from the other arm."""
        return replace(
            self,
            arm=self.against,
            against=self.arm,
            value=-self.value,
            low=-self.high,
            high=-self.low,
        )

    @property
    def ends(self) -> tuple[float, float]:
        """The interval's limits."""
        return self.low, self.high


COLUMNS = tuple(field.name for field in fields(Record))
NOTHING = Record()


class Records(Sequence[Record]):
    """A list of records with unique keys, which can be looked up.

    `attribute` is the one by which groups are compared unless another is named.
    """

    def __init__(self, records: Iterable[Record], attribute: str = "") -> None:
        self.attribute = attribute
        self._list = list(records)
        self._keys = {record.key for record in self._list}
        if len(self._keys) < len(self._list):
            raise ValueError("two records have one key")

    def and_also(self, more: Iterable[Record]) -> "Records":
        """Add the records of numbers that are not there yet."""
        new = {record.key: record for record in more if record.key not in self._keys}
        return Records([*self._list, *new.values()], self.attribute)

    @classmethod
    def read(cls, lines: Iterable[Fields], attribute: str) -> "Records":
        """Records from their plain values (`plain`)."""
        return cls([Record(**line) for line in lines], attribute)

    def __len__(self) -> int:
        return len(self._list)

    def __getitem__(self, index: Any) -> Any:
        return self._list[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self._list)

    @cached_property
    def _by_number(self) -> Mapping[tuple[str, ...], list[Record]]:
        found: dict[tuple[str, ...], list[Record]] = {}
        for record in self._list:
            if record.repeat is None:
                attribute = (
                    "" if record.attribute == self.attribute else record.attribute
                )
                key = (
                    record.metric,
                    record.arm,
                    record.against,
                    attribute,
                    record.group,
                )
                found.setdefault(key, []).append(record)
        return found

    def of(self, metric: str, arm: str = "", group: str = "", **more: Any) -> Record:
        """Return the judged record of a number, or that of a `scope`.

        `more` may have `against`, `attribute` and `scope`. `FwcError` if there is no such record.
        """
        found = self.find(metric, arm, group, **more)
        if found is not NOTHING:
            return found
        cells = {"metric": metric, "arm": arm, "group": group, **more}
        for column, cell in cells.items():
            there = {str(getattr(record, column)) for record in self._list}
            if cell not in there:
                nearest = did_you_mean(str(cell), sorted(there))
                raise FwcError(f"no record has the {column} {cell!r}{nearest}")
        together = ", ".join(
            f"{column} {cell!r}" for column, cell in cells.items() if cell
        )
        raise FwcError(f"no record has all of {together}")

    def find(
        self,
        metric: str,
        arm: str = "",
        group: str = "",
        against: str = "",
        attribute: str = "",
        scope: str | None = None,
    ) -> Record:
        """Return the record that `of` returns, or `NOTHING`."""
        if attribute == self.attribute:
            attribute = ""
        for record in self._by_number.get((metric, arm, against, attribute, group), ()):
            if scope in (None, record.scope):
                return record
        return NOTHING

    def per_repeat(self, metric: str, arm: str) -> list[float]:
        """Return a metric of an arm in each repeat."""
        found = self.where(arm=arm, metric=metric, against="", group="")
        values = [record.value for record in found if record.repeat is not None]
        return values or [self.find(metric, arm).value]

    def where(self, **cells: Any) -> list[Record]:
        """Return the records with these cells; `FwcError` for a column that records lack."""
        for column in cells.keys() - set(COLUMNS):
            raise FwcError(
                f"records have no column {column!r}{did_you_mean(column, COLUMNS)}"
            )
        return [
            r for r in self._list if all(getattr(r, k) == v for k, v in cells.items())
        ]

    def plain(self) -> list[Json]:
        """The records as plain values for JSON."""
        return [record.plain() for record in self._list]

    def to_frame(self) -> "pd.DataFrame":
        """A table with a line per record and the columns `COLUMNS`."""
        import pandas as pd

        frame = pd.DataFrame(map(vars, self._list), columns=list(COLUMNS))
        return frame.astype({"repeat": "Int64", "n": "Int64"})


def _says_something(cell: Any) -> bool:
    return cell not in ("", None) and not (isinstance(cell, float) and math.isnan(cell))


def record_of(estimate: "Estimate", **cells: Any) -> Record:
    """An estimate's value, verdict and the interval that is judged, as a record with these `cells`.

    A p-value stands beside the interval that it agrees with, that of the replies that were read.
    """
    low, high = estimate.decisive
    found = {"value": estimate.value, "low": low, "high": high}
    found |= {"p": estimate.p_value} if estimate.worst_case is None else {}
    return Record(**{"verdict": estimate.verdict or "", **found, **cells})


def with_readings(estimate: "Estimate", judged: Record) -> Iterator[Record]:
    """Yield the judged record and, where unread replies widen its interval, their readings."""
    yield judged
    if estimate.worst_case is not None and judged.known:
        other = replace(judged, verdict="", reason="")
        ends: Any = {"low": estimate.low, "high": estimate.high, "p": estimate.p_value}
        yield replace(other, **ends, scope=READ)
        low, high = estimate.worst_case[0]
        yield replace(other, value=math.nan, low=low, high=high, scope=READINGS)


def lost_rows_records(groups: Iterable[Fields]) -> list[Record]:
    """The numbers of rows read, kept and lost before a run, by group and reason."""
    found = []
    for entry in groups:
        counts = {f"rows_{name}": entry[name] for name in ("read", "kept", "lost")}
        counts |= {
            f"rows_lost: {reason}": count for reason, count in entry["reasons"].items()
        }
        for metric, count in counts.items():
            found.append(
                Record(
                    metric=metric, group=entry["group"], value=count, n=entry["read"]
                )
            )
    return found
