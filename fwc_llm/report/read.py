"""A run's folder, read and checked: what the report, the comparison and the statistics start from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fwc_llm.errors import FwcError
from fwc_llm.files import read_text
from fwc_llm.metrics.answers import Answered, Answers, Variation, as_names, one_name, questions_of
from fwc_llm.metrics.audit_table import by_base_rate
from fwc_llm.metrics.counts import Cells, measure
from fwc_llm.runs.folder import THRESHOLD_COLUMN, RunFolder, file_name
from fwc_llm.untrusted import parse_json

if TYPE_CHECKING:
    from fwc_llm.metrics.answers import Names
    from fwc_llm.shots.base import Shots

_NAMED = frozenset(
    ("arm", "repeat", "row", "variant", "group", "label", "answer", "reason", "p_yes", THRESHOLD_COLUMN)
)
_BLOCK = 10_000  # lines that are held as texts
KEY = "audit"  # of a document's `about`: says that decisions were made elsewhere, and where they stand


@dataclass(frozen=True)
class Run:
    """One finished (or interrupted) run.

    `described` is run.json, `results` results.json. `groups` are in the order of their base rates in the
    test rows, lowest first. `answers` holds each arm's answers to the rows as they are, `counterfactuals`
    those to rows with the protected attribute changed, `at_threshold` those that P(yes) gives at the run's
    threshold, if it has one. `label` tells runs apart that are shown together.
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
        asked = self.described.get("epochs") or self.described["settings"].get("samples") or 1
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
        """What arms of one family differ in."""
        variations = self.described.get("variations") or {}
        return {arm: Variation(**variations[arm]) for arm in self.arms if arm in variations}

    def _examples(self, arm: str) -> "Names":
        """A name of the set of examples under which each question was asked: two names, two prompts.

        An arm whose examples were kept is named by what its prompts show. One of a run that kept those of
        other arms chose them anew for every row.
        """
        a = self.answers[arm]
        shots = self.shots(arm)
        if shots:
            sets: dict[Any, str] = {}
            named = {
                repeat: sets.setdefault(tuple((e.row, e.label, w) for e, w in one.shown()), str(len(sets)))
                for repeat, one in shots.items()
            }
            repeats, place = np.unique(a.repeat, return_inverse=True)
            return as_names(np.array([named.get(int(repeat), "") for repeat in repeats])[place])
        zero = (self.described.get("sources") or {}).get(arm, arm) == "zero"
        if zero or not (self.folder / "shots").is_dir():
            return one_name("", len(a))
        return as_names(questions_of([replace(a, repeat=a.repeat // self.times)])[0])

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
            raise damaged(path, "it is not a list of chat messages") from None


def read_run(path: str | Path, label: str | None = None) -> Run:
    """Read a run's folder.

    Raises `FwcError` for a folder that is no run, an empty run (nothing was answered), and a damaged one:
    files that are missing or unreadable, values that no run writes, arms that did not see the same rows,
    or results that are not those of the answers.
    """
    folder = RunFolder.existing(path)
    described = folder.describe()
    results = folder.results()
    by_arm, at_threshold = answers_by_arm(folder, described["arms"])
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
        groups=by_base_rate(next(iter(answers.values()))),
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


def _check_rows(answers: Mapping[str, Answers], where: Path) -> None:
    """All arms of a repeat see the same rows, each once: paired tests rest on it."""
    asked = [np.sort(numbers) for numbers in questions_of(list(answers.values()))]
    for arm, numbers in zip(answers, asked, strict=True):
        if (np.diff(numbers) == 0).any():
            raise damaged(where, f"a row of the arm {arm!r} is there twice")
        if not np.array_equal(numbers, asked[0]):
            raise damaged(where, f"the arm {arm!r} was not asked about the same rows as the others")


def _check_results(run: Run) -> None:
    """results.json must be of these answers: a hand-edited or half-written folder is not reported."""
    where = run.folder / "results.json"
    said = {arm["arm"]: arm for arm in run.results.get("arms", []) if isinstance(arm, dict) and "arm" in arm}
    for arm in run.arms:
        accuracy = float(measure(run.cells(arm).counts)["accuracy"].mean())
        value = said.get(arm, {}).get("accuracy")
        if not np.isclose(np.nan if value is None else value, accuracy, atol=1e-9, equal_nan=True):
            raise FwcError(
                f"{where} does not agree with answers.csv (accuracy of {arm!r}): "
                f"run `fwc-llm rescore {run.folder}` to compute it again"
            )


def answers_by_arm(folder: RunFolder, arms: Sequence[str]) -> tuple[dict[str, Answers], dict[str, Answers]]:
    """Return every arm's answers as they were given, and those at the threshold where the run has one."""
    where, names = folder.path / "answers.csv", _columns(folder)
    if not names:
        raise FwcError(f"{where} is empty: the run never began")
    named = names["arm"]
    if strangers := [arm for arm in named.unique() if arm not in arms]:
        line = int((named == strangers[0]).argmax()) + 2
        raise damaged(where, f"line {line} names the arm {strangers[0]!r}, which run.json does not")
    if silent := [arm for arm in arms if not (named == arm).any()]:
        raise damaged(where, f"the arm {silent[0]!r} of run.json has no row")
    texts: dict[str, Any] = {name: names[name] for name in ("row", "variant", "group", "reason")}
    answers = Answers(
        repeat=_numbers(names["repeat"]).astype(np.int64),
        label=(names["label"] == "yes").astype(np.int8),
        answer=_numbers(names["answer"]),
        p_yes=_numbers(names["p_yes"]),
        examples=one_name("", len(named)),
        **texts,
    )
    given = {str(arm): answers.where(named == arm) for arm in arms}
    if THRESHOLD_COLUMN not in names:
        return given, {}
    moved = _numbers(names[THRESHOLD_COLUMN])
    return given, {arm: replace(a, answer=moved[named == arm]) for arm, a in given.items()}


def _columns(folder: RunFolder) -> "dict[str, Names]":
    """The columns of answers.csv but the replies, as names; block by block, to hold few texts at a time."""
    import pandas as pd
    from pandas.api.types import union_categoricals

    lines = folder.read_cells()
    titles, blocks = list(next(lines)), list[Any]()
    kept = [name for name in titles if name in _NAMED]
    while block := list(islice(lines, _BLOCK)):
        blocks.append(pd.DataFrame(block, columns=titles)[kept].astype("category"))
    return {name: as_names(union_categoricals([b[name].array for b in blocks])) for name in kept if blocks}


def _numbers(names: "Names") -> npt.NDArray[np.float64]:
    """Yes as 1, no as 0, a number as it is, an empty text as NaN."""
    words = {"yes": 1.0, "no": 0.0, "": np.nan}
    numbers = [words[text] if text in words else float(text) for text in names.categories]
    return np.asarray(np.array(numbers, np.float64)[names.codes], np.float64)


def damaged(path: Path, why: str) -> FwcError:
    """Return the error for a file of a run's folder that no run writes."""
    return FwcError(f"{path} is damaged: {why}")
