"""A run's folder, read and checked: what the report, the comparison and the statistics start from."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.files import read_text
from fwc_llm.metrics.answers import Answered, Answers, Variation
from fwc_llm.metrics.cells import Cells, Strings, measure
from fwc_llm.runs.folder import THRESHOLD_COLUMN, RunFolder, file_name
from fwc_llm.untrusted import parse_json

if TYPE_CHECKING:
    from fwc_llm.shots.base import Shots

_VALUES = {"yes": 1.0, "no": 0.0, "": np.nan}
KEY = "audit"  # of run.json: says that decisions were made elsewhere, and where they stand


@dataclass(frozen=True)
class Run:
    """One finished (or interrupted) run.

    `described` is run.json, `results` results.json. `groups` are in the order of their base rates in the
    test rows, lowest first. `answers` holds each arm's answers to the rows as they are, `counterfactuals`
    those to rows with the protected attribute changed, `at_threshold` those that P(yes) gives at the run's
    threshold, if it has one. `label` tells runs apart that are shown together. `found` are the statistics,
    where they were worked out before.
    """

    folder: Path
    label: str
    described: Mapping[str, Any]
    results: Mapping[str, Any]
    arms: tuple[str, ...]
    groups: tuple[str, ...]
    answers: Mapping[str, Answers]
    counterfactuals: Mapping[str, Answers]
    at_threshold: Mapping[str, Answers] = field(default_factory=dict)
    found: Mapping[str, Any] | None = None

    @property
    def task(self) -> str:
        """The task's name."""
        return str(self.described["task"])

    @property
    def simulated(self) -> bool:
        """Whether model or table are simulated."""
        return bool(self.described["simulated"])

    @property
    def simulated_answers(self) -> bool:
        """Whether the model is simulated; a real one may well be asked about a simulated table."""
        return bool(self.described.get("simulated_answers", self.simulated))

    @property
    def missing(self) -> str:
        """How many requests have no reply, as a sentence; empty where all have one."""
        missing, requests = self.results.get("unanswered") or 0, self.results.get("requests") or 0
        return f"{missing:,} of {requests:,} requests have no reply." if missing else ""

    @property
    def reference(self) -> bool:
        """Whether the answers are no language model's, but something to set beside one."""
        return bool(self.described.get("reference", False))

    @property
    def times(self) -> int:
        """How often every prompt was asked: so many repeats, next to each other, are of one draw."""
        asked = self.described["settings"].get("samples") or self.described.get("epochs") or 1
        return max(1, int(asked))

    @cached_property
    def answered(self) -> Answered:
        """What the statistics start from; reads the examples, to know which repeats share them."""
        return Answered(
            {arm: replace(a, examples=self._examples(arm)) for arm, a in self.answers.items()},
            self.groups,
            self.described["settings"].get("base_parity") is not None,
            self.counterfactuals,
            tuple(self.described.get("protected") or ()),
            self._variations,
            self.times,
        )

    @property
    def _variations(self) -> dict[str, Variation]:
        """What arms of one family differ in. Earlier versions kept their names alone, with the order."""
        known = self.described.get("variations") or {}
        if known:
            return {arm: Variation(**known[arm]) for arm in self.arms if arm in known}
        sources = self.described.get("sources") or {}
        parts = {arm: (sources.get(arm, ""), *arm.partition("@")[::2]) for arm in self.arms}
        alike = Counter((source, name) for source, name, _ in parts.values())
        return {
            arm: Variation(name, order, "")
            for arm, (source, name, order) in parts.items()
            if alike[source, name] > 1
        }

    def _examples(self, arm: str) -> Strings:
        """A name of the set of examples under which each question was asked: two names, two prompts.

        An arm whose examples were kept is named by what its prompts show. One of a run that kept those of
        other arms chose them anew for every row.
        """
        a = self.answers[arm]
        if KEY in self.described:
            return a.examples
        shots = self.shots(arm)
        if shots:
            sets: dict[Any, str] = {}
            named = {
                repeat: sets.setdefault(tuple((e.row, e.label, w) for e, w in one.shown()), str(len(sets)))
                for repeat, one in shots.items()
            }
            return np.array([named.get(repeat, "") for repeat in a.repeat.tolist()], dtype=np.str_)
        zero = (self.described.get("sources") or {}).get(arm, arm) == "zero"
        if zero or not (self.folder / "shots").is_dir():
            return np.full(len(a), "")
        return replace(a, repeat=a.repeat // self.times).key

    def cells(self, arm: str) -> Cells:
        """Return the arm's answers as counts, over the run's groups in their order."""
        return self.answered.cells(arm)

    def shots(self, arm: str) -> "dict[int, Shots]":
        """Return the arm's examples by repeat; empty for an arm that chooses anew for every row."""
        from fwc_llm.shots.storage import load_shots

        found = {}
        for repeat in np.unique(self.answers[arm].repeat).tolist():
            path = self.folder / "shots" / f"{file_name(arm)}-{repeat}.json"
            if path.is_file():
                found[int(repeat)] = load_shots(path)
        return found

    def prompt(self, arm: str) -> list[dict[str, str]]:
        """Return the arm's example of a full prompt as messages; empty when it was not kept."""
        path = self.folder / "prompts" / f"{file_name(arm)}.json"
        if not path.is_file():
            return []
        try:
            messages = parse_json(read_text(path))
            return [
                {"role": str(m["role"]), "name": str(m.get("name", "")), "content": str(m["content"])}
                for m in messages
            ]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise _damaged(path, "it is not a list of chat messages") from None


def read_run(path: str | Path, label: str | None = None) -> Run:
    """Read a run's folder.

    Raises `FwcError` for a folder that is no run, an empty run (nothing was answered), and a damaged one:
    files that are missing or unreadable, values that no run writes, arms that did not see the same rows,
    or results that are not those of the answers.
    """
    folder = RunFolder.existing(path)
    described = folder.describe()
    results = folder.results()
    by_arm, at_threshold = _by_arm(folder, described["arms"])
    answers = {arm: a.where(a.variant == "") for arm, a in by_arm.items()}
    where = folder.path / "answers.csv"
    _check_rows(answers, where)
    if all((a.reason == "error").all() for a in answers.values()):
        raise FwcError(
            f"{path} holds no reply yet: run the same `fwc-llm eval` command with --out {path} first"
        )
    run = Run(
        folder=folder.path,
        label=label or str(described["model"]),
        described=described,
        results=results,
        arms=tuple(answers),
        groups=_groups(answers),
        answers=answers,
        counterfactuals={
            arm: a.where(a.variant != "") for arm, a in by_arm.items() if (a.variant != "").any()
        },
        at_threshold={arm: a.where(a.variant == "") for arm, a in at_threshold.items()},
    )
    _check_results(run)
    return run


def read_runs(paths: Sequence[str | Path]) -> list[Run]:
    """Read several runs for one report; they must be of one task and one table.

    Runs of one model are told apart by their folder's name. Raises `FwcError` as `read_run` does.
    """
    if not paths:
        raise FwcError("name at least one run's folder")
    runs = [read_run(path) for path in paths]
    for run in runs[1:]:
        check_same_task(runs[0], run)
    if len({run.folder.resolve() for run in runs}) < len(runs):
        raise FwcError("a run is named twice")
    labels = [run.label for run in runs]
    if len(set(labels)) == len(labels):
        return runs
    return [read_run(run.folder, f"{run.label} · {run.folder.name}") for run in runs]


def check_same_task(run: Run, other: Run) -> None:
    """Refuse to put two runs beside each other that are not about the same task."""
    if run.task != other.task:
        raise FwcError(
            f"{run.folder} is about {run.task!r} and {other.folder} about {other.task!r}: "
            "numbers of different tasks cannot be compared; make one report each"
        )


def _by_arm(folder: RunFolder, arms: Sequence[str]) -> tuple[dict[str, Answers], dict[str, Answers]]:
    """Every arm's answers as they were given, and those at the threshold where the run has one."""
    where = folder.path / "answers.csv"
    columns: dict[str, list[tuple[Any, ...]]] = {str(arm): [] for arm in arms}
    try:
        for line, row in enumerate(folder.read_answers(), start=2):
            if row["arm"] not in columns:
                raise _damaged(where, f"line {line} names the arm {row['arm']!r}, which run.json does not")
            columns[row["arm"]].append(_values(row, line, where))
    except KeyError as error:
        raise _damaged(where, str(error)) from None
    if not any(columns.values()):
        raise FwcError(f"{where} is empty: the run never began")
    if silent := [arm for arm, rows in columns.items() if not rows]:
        raise _damaged(where, f"the arm {silent[0]!r} of run.json has no row")
    given = {arm: _arrays([row[:-1] for row in rows]) for arm, rows in columns.items()}
    if all(row[-1] is None for rows in columns.values() for row in rows):
        return given, {}
    by_threshold = {
        arm: replace(a, answer=np.array([_VALUES[row[-1] or ""] for row in columns[arm]], dtype=np.float64))
        for arm, a in given.items()
    }
    return given, by_threshold


def _values(row: Mapping[str, str | None], line: int, where: Path) -> tuple[Any, ...]:
    try:
        if row["label"] not in ("yes", "no") or row["variant"] is None or row["reply"] is None:
            raise ValueError
        probability = float(row["p_yes"]) if row["p_yes"] else np.nan
        if not np.isnan(probability) and not 0.0 <= probability <= 1.0:
            raise ValueError
        answer = _VALUES[row["answer"] or ""]
        label = int(row["label"] == "yes")
        repeat = int(row["repeat"] or "")
        by_threshold = row.get(THRESHOLD_COLUMN)
        if by_threshold is not None and by_threshold not in _VALUES:
            raise ValueError
    except (KeyError, ValueError):
        raise _damaged(where, f"line {line} is not an answer that a run writes") from None
    named = row["row"], row["variant"], row["group"]
    return repeat, *named, label, answer, row["reason"], probability, by_threshold


def _arrays(rows: list[tuple[Any, ...]]) -> Answers:
    repeat, row, variant, group, label, answer, reason, p_yes = zip(*rows, strict=True)
    return Answers(
        repeat=np.array(repeat, dtype=np.int64),
        row=np.array(row, dtype=np.str_),
        variant=np.array(variant, dtype=np.str_),
        group=np.array(group, dtype=np.str_),
        label=np.array(label, dtype=np.int8),
        answer=np.array(answer, dtype=np.float64),
        reason=np.array(reason, dtype=np.str_),
        p_yes=np.array(p_yes, dtype=np.float64),
        examples=np.full(len(repeat), ""),
    )


def _check_rows(answers: Mapping[str, Answers], where: Path) -> None:
    """All arms of a repeat see the same rows, each once: paired tests rest on it."""
    first: set[str] = set()
    for arm, a in answers.items():
        keys = set(a.key.tolist())
        if len(keys) < len(a):
            raise _damaged(where, f"a row of the arm {arm!r} is there twice")
        if first and keys != first:
            raise _damaged(where, f"the arm {arm!r} was not asked about the same rows as the others")
        first = first or keys


def _groups(answers: Mapping[str, Answers]) -> tuple[str, ...]:
    first = next(iter(answers.values()))
    names = np.unique(first.group)
    rates = [float(first.label[first.group == name].mean()) for name in names]
    return tuple(str(names[place]) for place in np.argsort(rates, kind="stable"))


def _check_results(run: Run) -> None:
    """results.json must be of these answers: a hand-edited or half-written folder is not reported."""
    where = run.folder / "results.json"
    said = {arm["arm"]: arm for arm in run.results.get("arms", []) if isinstance(arm, dict) and "arm" in arm}
    for arm in run.arms:
        accuracy = float(measure(run.cells(arm).counts).accuracy.mean())
        value = said.get(arm, {}).get("accuracy")
        if not np.isclose(np.nan if value is None else value, accuracy, atol=1e-9, equal_nan=True):
            raise FwcError(
                f"{where} does not agree with answers.csv (accuracy of {arm!r}): "
                f"run `fwc-llm rescore {run.folder}` to compute it again"
            )


def _damaged(path: Path, why: str) -> FwcError:
    return FwcError(f"{path} is damaged: {why}")
