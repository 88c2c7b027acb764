"""The results of an experiment as a CSV file: it grows during a run, and a later run continues
it.
"""

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

_COUNT = "rows_of_cell"


class Ledger:
    """`path` has one line per row. The last column is the number of rows of the cell: so an
    incomplete cell, left by an interruption, is found, removed and measured again.
    """

    def __init__(self, path: Path, experiment: Experiment) -> None:
        self.path = path
        self.keys = experiment.keys
        self.columns = (*experiment.keys, *experiment.values, _COUNT)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.done = self._open()

    def _open(self) -> set[tuple[str, ...]]:
        """The cells that are done."""
        header = ",".join(self.columns) + "\n"
        if not self.path.exists() or not self.path.stat().st_size:
            self.path.write_text(header, encoding="utf-8")
            return set()
        text = self.path.read_text(encoding="utf-8")
        if not text.startswith(header):
            raise FwcError(
                f"{self.path} holds other columns than this version measures: move it away, or "
                f"pass --fresh"
            )
        found: dict[tuple[str, ...], list[str]] = {}
        for line in text[len(header) :].splitlines(keepends=True):
            fields = next(csv.reader([line]))
            if line.endswith("\n") and len(fields) == len(self.columns):
                found.setdefault(tuple(fields[: len(self.keys)]), []).append(line)
        whole = {
            key: lines
            for key, lines in found.items()
            if lines[0].rstrip().endswith(f",{len(lines)}")
        }
        kept = header + "".join(line for lines in whole.values() for line in lines)
        if kept != text:
            self.path.write_text(kept, encoding="utf-8")
        return set(whole)

    def has(self, cell: Cell) -> bool:
        """Whether this cell has been measured."""
        return tuple(written(cell[key]) for key in self.keys) in self.done

    def add(self, cell: Cell, rows: Iterable[Row]) -> None:
        """Append the rows of one cell."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in (rows := list(rows)):
            values = {**cell, **row, _COUNT: len(rows)}
            writer.writerow(
                [
                    written(values.get(column)).replace("\n", " ")
                    for column in self.columns
                ]
            )
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text.getvalue())
        self.done.add(tuple(written(cell[key]) for key in self.keys))

    def rows_of(self, cell: Cell) -> list[dict[str, str]]:
        """The rows of one cell as they are written, by column."""
        own = {key: written(cell[key]) for key in self.keys}
        with self.path.open(encoding="utf-8", newline="") as file:
            return [row for row in csv.DictReader(file) if own.items() <= row.items()]

    def frame(self) -> "pd.DataFrame":
        """All rows. An empty field of a number column is NaN."""
        import pandas as pd

        return pd.read_csv(
            self.path, keep_default_na=False, na_values=[""], dtype={"note": str}
        )


def written(value: Any) -> str:
    """Numbers with six significant digits, NaN and None as nothing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if hasattr(value, "item"):
        return written(value.item())
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
