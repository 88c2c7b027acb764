"""A run's folder: what it holds, how it is begun, and how it is taken up again."""

import csv
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fwc_llm.errors import FwcError

FORMAT = "fwc-llm-run/1"
ANSWER_COLUMNS = (
    "arm", "repeat", "row", "variant", "group", "label", "answer", "reason", "p_yes", "reply",
    "simulated",
)  # fmt: skip
# Settings that may differ when a run is continued: they change how it is asked, not what.
_FREE = {"created", "versions", "command"}


@dataclass(frozen=True)
class RunFolder:
    """Paths and file formats of one run; every file but the journal is written whole and then renamed."""

    path: Path

    @classmethod
    def default(cls, task: str, model: str) -> "RunFolder":
        """`./runs/<time>-<task>-<model>`, with characters that a file name cannot hold replaced."""
        return cls(Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{file_name(task)}-{file_name(model)}")

    @classmethod
    def existing(cls, path: str | Path) -> "RunFolder":
        """The folder of a run that was begun; refused with `FwcError` when it is none."""
        folder = cls(Path(path))
        if not folder.path.is_dir():
            raise FwcError(f"{path} is not a folder: name the folder of a run (what --out was given)")
        folder.describe()
        return folder

    def create(self) -> None:
        """Make the folder; `FwcError` when that is not possible or it holds something that is no run."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            entries = [entry.name for entry in self.path.iterdir()]
        except OSError as error:
            raise FwcError(
                f"cannot write to {self.path}: {error.strerror}; name another folder with --out"
            ) from None
        # A run may have been killed between its journal and its run.json: then it begins again.
        if "run.json" not in entries and entries and "journal.jsonl" not in entries:
            raise FwcError(
                f"{self.path} is not empty ({entries[0]}) and holds no run: name a new folder with --out"
            )

    def begin(self, description: Mapping[str, Any]) -> None:
        """Write run.json, or check that the one there describes this very run (`FwcError` if not)."""
        if (self.path / "run.json").exists():
            self._check_same(description)
        else:
            self.write_json("run.json", description)

    def describe(self) -> dict[str, Any]:
        """The content of run.json."""
        description = self.read_json("run.json")
        if description.get("format") != FORMAT:
            raise FwcError(
                f"{self.path / 'run.json'} is not of format {FORMAT}: it was not written by this tool"
            )
        return description

    def _check_same(self, description: Mapping[str, Any]) -> None:
        before, now = self.describe(), json.loads(json.dumps(description))
        for key in now:
            if key not in _FREE and before.get(key) != now[key]:
                was, wanted = _first_difference(before.get(key), now[key])
                raise FwcError(
                    f"{self.path} holds another run ({key}: {was}, now {wanted}): "
                    "repeat its settings to continue it, or name a new folder with --out"
                )

    def read_json(self, name: str) -> dict[str, Any]:
        """One JSON object of the folder; `FwcError` when it is missing or damaged."""
        path = self.path / name
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FwcError(
                f"{path} is missing: {self.path} is not a run's folder, or the run never began"
            ) from None
        except (OSError, ValueError) as error:
            raise FwcError(f"{path} cannot be read ({error}): the run's folder is damaged") from None
        if not isinstance(content, dict):
            raise FwcError(f"{path} is not a JSON object: the run's folder is damaged")
        return content

    def write_json(self, name: str, content: Any) -> None:
        """Write one JSON file whole; NaN must have become null before."""
        self._write(name, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    def write_answers(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write answers.csv whole (columns `ANSWER_COLUMNS`)."""
        partial = self.path / "answers.csv.partial"
        try:
            with partial.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, ANSWER_COLUMNS)
                writer.writeheader()
                writer.writerows(rows)
            os.replace(partial, self.path / "answers.csv")
        except OSError as error:
            raise FwcError(f"cannot write {self.path / 'answers.csv'}: {error.strerror}") from None

    def read_answers(self) -> Iterator[dict[str, str]]:
        """The rows of answers.csv, one by one."""
        path = self.path / "answers.csv"
        try:
            with path.open(encoding="utf-8", newline="") as file:
                reader = csv.DictReader(file)
                if tuple(reader.fieldnames or ()) != ANSWER_COLUMNS:
                    raise FwcError(f"{path} does not have the columns of a run: the run's folder is damaged")
                yield from reader
        except OSError as error:
            raise FwcError(
                f"cannot read {path}: {error.strerror}; the run never began, or is damaged"
            ) from None

    def _write(self, name: str, text: str) -> None:
        path = self.path / name
        partial = path.with_name(path.name + ".partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(text, encoding="utf-8")
            os.replace(partial, path)
        except OSError as error:
            raise FwcError(f"cannot write {path}: {error.strerror}") from None


def file_name(text: str) -> str:
    """`text` as part of a file name: letters, digits, `.`, `@`, `-` kept, everything else an underscore."""
    return re.sub(r"[^\w.@-]+", "_", text).strip("._") or "_"


def versions() -> dict[str, str]:
    """The versions that a number may depend on."""
    found = {"python": sys.version.split()[0]}
    for package in ("fwc-llm", "numpy", "scipy", "pandas", "numba", "jinja2", "openai", "tiktoken"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _first_difference(before: Any, now: Any) -> tuple[Any, Any]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in now:
            if before.get(key) != now[key]:
                return f"{key} = {before.get(key)}", f"{key} = {now[key]}"
    return before, now
