"""The results of an experiment as a CSV file that grows while it runs, and from which it continues."""

import csv
import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.paper.experiment import Cell, Experiment, Row
from fwc_llm.errors import FwcError

if TYPE_CHECKING:
    import pandas as pd


class Ledger:
    """`path` holds one line a row; the rows of a cell are written at once: a cell is there or it is not."""

    def __init__(self, path: Path, experiment: Experiment) -> None:
        self.path = path
        self.keys = experiment.keys
        self.columns = (*experiment.keys, *experiment.values)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.done = self._open()

    def _open(self) -> set[tuple[str, ...]]:
        """The cells that are done; what an interruption left half-written is cut off."""
        header = ",".join(self.columns) + "\n"
        if not self.path.exists() or not self.path.stat().st_size:
            self.path.write_text(header, encoding="utf-8")
            return set()
        text = self.path.read_text(encoding="utf-8")
        if not text.startswith(header):
            raise FwcError(
                f"{self.path} holds other columns than this version measures: move it away, or pass --fresh"
            )
        lines = text.splitlines(keepends=True)
        if not text.endswith("\n"):
            torn = self._key_of(lines[-1])
            lines = [line for line in lines[:-1] if torn is not None and self._key_of(line) != torn]
            self.path.write_text("".join([header, *lines[1:]]), encoding="utf-8")
        return {key for line in lines[1:] if (key := self._key_of(line)) is not None}

    def _key_of(self, line: str) -> tuple[str, ...] | None:
        fields = next(csv.reader([line]), [])
        return tuple(fields[: len(self.keys)]) if len(fields) >= len(self.keys) else None

    def has(self, cell: Cell) -> bool:
        """Whether this cell has been measured."""
        return tuple(_written(cell[key]) for key in self.keys) in self.done

    def add(self, cell: Cell, rows: Iterable[Row]) -> None:
        """Append the rows of one cell."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in rows:
            writer.writerow([_written({**cell, **row}.get(column)) for column in self.columns])
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text.getvalue())
        self.done.add(tuple(_written(cell[key]) for key in self.keys))

    def frame(self) -> "pd.DataFrame":
        """All rows. An empty field of a number column is NaN."""
        import pandas as pd

        return pd.read_csv(self.path, keep_default_na=False, na_values=[""], dtype={"note": str})


def _written(value: Any) -> str:
    """Numbers with six significant digits, NaN and None as nothing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if hasattr(value, "item"):
        return _written(value.item())
    return f"{value:.6g}" if isinstance(value, float) else str(value)
