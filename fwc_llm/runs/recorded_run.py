"""Reads and checks a run's folder for reports, comparisons and statistics."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, TypeAdapter

from fwc_llm.errors import FwcError, StorageError
from fwc_llm.files import in_shell, read_text
from fwc_llm.metrics.adverse_impact import Impact, impact_tables
from fwc_llm.metrics.audit_table import check_arms, groups_by_rate
from fwc_llm.metrics.counts import CODES, plain
from fwc_llm.metrics.prediction_powered import Predictions, assisted_answers
from fwc_llm.metrics.records import lost_rows_records
from fwc_llm.metrics.run_answers import (
    ArmAnswers,
    ByArm,
    RunAnswers,
    as_names,
    names_of,
    one_name,
    questions_of,
)
from fwc_llm.metrics.sampling_design import WORST, SamplingDesign, Unread
from fwc_llm.metrics.statistics import Statistics, statistics
from fwc_llm.metrics.threshold_effects import threshold_records
from fwc_llm.metrics.variance import Assist
from fwc_llm.models.base import Message
from fwc_llm.runs.folder import (
    COUNTERFACTUAL,
    THRESHOLD_COLUMN,
    RunFolder,
    file_name,
    without_reply,
)
from fwc_llm.runs.journal import Journal
from fwc_llm.runs.results import score
from fwc_llm.runs.splits import cell_counts, table_of, whole_step
from fwc_llm.sanitize import Fields, Json, parse_json
from fwc_llm.words import ANSWERS

if TYPE_CHECKING:
    from fwc_llm.metrics.run_answers import Names
    from fwc_llm.shots.base import Shots
    from fwc_llm.tasks import Task

_BLOCK = 10_000  # most lines in memory as texts
PREDICTIONS = "assisted.json"
_KINDS: Any = dict.fromkeys(("predicted", "means", "rows"), np.float64)
_KINDS |= {"fold": np.int64}


@dataclass(frozen=True)
class Run:
    """A begun run: run.json is `described`, results.json `results`; answers are by arm."""

    folder: Path
    label: str  # distinguishes runs in one report
    described: Fields
    results: Fields
    arms: tuple[str, ...]
    groups: tuple[str, ...]  # by their base rate in the test rows, lowest first
    answers: ByArm  # of unchanged rows
    counterfactuals: ByArm  # of changed rows, like `probes`
    probes: ByArm
    examples: "Mapping[str, dict[int, Shots]]"  # by arm and repeat
    at_threshold: ByArm = field(default_factory=dict)  # P(yes) compared with it
    assists: Mapping[str, Assist] = field(
        default_factory=dict
    )  # predictions of the answers
    assist: bool = False  # True overrides the run's setting
    unread: Unread | None = None  # replaces the run's setting

    @property
    def task(self) -> str:
        """The task's name."""
        return str(self.described["task"])

    @property
    def simulated(self) -> bool:
        """Whether the model or the table is simulated."""
        return bool(self.described["simulated"])

    @property
    def simulated_answers(self) -> bool:
        """Whether the model is simulated."""
        return bool(self.described.get("simulated_answers", self.simulated))

    @property
    def missing(self) -> str:
        """A sentence on requests without a reply; "" if every request has one."""
        missing = without_reply(self.results)
        return f"{missing}." if missing else ""

    @property
    def reference(self) -> bool:
        """Whether the answers are those of a reference model, which is no language model."""
        return bool(self.described.get("reference", False))

    @property
    def stated(self) -> bool:
        """Whether P(yes) is a number that the model stated."""
        return self.results.get("p_yes") == "stated"

    @property
    def created(self) -> str:
        """When the run began, in ISO 8601; "" if not recorded."""
        return str(self.described.get("created") or "")

    @property
    def n_test(self) -> int:
        """The number of test rows per repeat."""
        return int(self.described["settings"]["n_test"])

    @property
    def most_rows(self) -> int:
        """The most test rows for a run of this design, beside a quarter of each cell, or the
        examples of a cell, for prompts; 0 if the table's rows are not recorded.
        """
        population = self.described.get("population")
        if not population:
            return 0
        settings = self.described["settings"]
        parity = settings["base_parity"]
        there = np.array(
            [[of[label] for label in ANSWERS if label in of] for of in population]
        )
        groups = [of_group["group"] for of_group in population]
        drawn = self.n_test * there / there.sum()
        if parity is not None:
            drawn = cell_counts(groups, self.n_test, parity)
        examples = settings["m"] / there.size
        spared = np.where(there - drawn < examples, 0, examples)
        kept = np.maximum(there / 4, spared)
        asked = drawn > 0
        times = ((there - kept)[asked] / drawn[asked]).min()
        step = whole_step(groups, parity)
        return int(self.n_test * times + 1e-9) // step * step

    @property
    def times(self) -> int:
        """Samples per prompt: as many consecutive repeats have equal rows and examples."""
        samples = (
            self.described.get("epochs")
            or self.described["settings"].get("samples")
            or 1
        )
        return max(1, int(samples))

    @property
    def table_checks(self) -> dict[str, str]:
        """Warnings about the table, by column; the key "" is for repeated rows."""
        return self.described.get("table_checks") or {}

    @cached_property
    def statistics(self) -> Statistics:
        """All results of the run."""
        return self.statistics_with(self.impact())

    def statistics_with(self, impact: Impact) -> Statistics:
        """All results, with these on selection by group, on the threshold and on lost rows."""
        ties = {line["arm"]: line["ties"] for line in self.thresholds}
        further = [
            *impact.records,
            *threshold_records(self.answered, self.at_threshold, ties),
            *lost_rows_records((self.results.get("rows") or {}).get("groups", ())),
        ]
        return replace(statistics(self.answered, further), stated=self.stated)

    def impact(self, of_law: bool = False) -> Impact:
        """The `impact_tables`."""
        return impact_tables(self.answered, of_law)

    @property
    def thresholds(self) -> list[Fields]:
        """How each arm's thresholds were chosen."""
        found = self.results.get("thresholds") or ()
        return [line for line in found if line["arm"] in self.at_threshold]

    @cached_property
    def answered(self) -> RunAnswers:
        """The input of the statistics, with the saved examples."""
        settings = self.described["settings"]
        return RunAnswers(
            {
                arm: replace(a, examples=self._examples(arm))
                for arm, a in self.answers.items()
            },
            self.groups,
            SamplingDesign(
                settings.get("base_parity") is not None,
                self.times,
                settings["min_group"],
                settings["margin"],
                unread=self.unread or settings.get("unread") or WORST,
                model=True,
                refers="refer" in (self.described.get("words") or ()),
            ),
            self.counterfactuals,
            tuple(self.described.get("protected") or ()),
            settings["against"],
            unused=tuple(
                f"{warning}." for name, warning in self.table_checks.items() if not name
            ),
            probes=self.probes,
            assists=self.assists,
            assist=bool(self.assist or settings.get("assist")),
        )

    def _examples(self, arm: str) -> "Names":
        """The name of the set of examples for each question."""
        a = self.answers[arm]
        shots = self.shots(arm)
        if shots:
            contents = {
                repeat: str([(e.row, e.label, w) for e, w in drawn.shown()])
                for repeat, drawn in shots.items()
            }
            repeats, position = np.unique(a.repeat, return_inverse=True)
            return names_of(
                position, [contents.get(repeat, "") for repeat in repeats.tolist()]
            )
        zero = (self.described.get("sources") or {}).get(arm, arm) == "zero"
        if zero or not (self.folder / "shots").is_dir():
            return one_name("", len(a))
        # In a run that saved examples, such an arm chose new ones for every row.
        return as_names(questions_of([replace(a, repeat=a.repeat // self.times)])[0])

    def shots(self, arm: str) -> "dict[int, Shots]":
        """An arm's examples by repeat; {} for an arm with new examples for every row."""
        return self.examples[arm]

    def prompt(self, arm: str) -> list[Message]:
        """An arm's saved sample of a full prompt, as messages; [] if none was saved."""
        path = self.folder / "prompts" / f"{file_name(arm)}.json"
        if not path.is_file():
            return []
        try:
            return TypeAdapter(list[Message]).validate_python(
                parse_json(read_text(path))
            )
        except (OSError, ValueError):
            raise damaged(path, "it is not a list of chat messages") from None


def read_run(path: str | Path | RunFolder, unread: Unread | None = None) -> Run:
    """Read a run's folder; `FwcError` without a run or a reply, and for a damaged run."""
    folder = path if isinstance(path, RunFolder) else RunFolder.existing(path)
    described = folder.describe()
    results = folder.results
    by_arm, at_threshold = answers_by_arm(folder, described["arms"])
    answers = {arm: a.where(a.variant == "") for arm, a in by_arm.items()}
    check_arms(answers)  # paired tests need equal rows in all arms
    groups = groups_by_rate(next(iter(answers.values())))
    for arm, a in by_arm.items():
        if not {*a.group.unique()} <= {*groups}:
            why = f"the arm {arm!r} has groups that the first has not"
            raise damaged(folder.path / "answers.csv", why)
    if all((a.reason == "error").all() for a in answers.values()):
        reasons = [
            f" ({reason['reason']})" for reason in results.get("no_reply", [])[:1]
        ]
        where = folder.path
        raise FwcError(
            f"{where} holds no reply{''.join(reasons)}: evaluate again with --out {in_shell(where)}"
        )
    run = Run(
        folder=folder.path,
        label=str(described["model"]),
        described=described,
        results=results,
        arms=tuple(answers),
        groups=groups,
        answers=answers,
        counterfactuals=_told(by_arm, counterfactual=True),
        probes=_told(by_arm, counterfactual=False),
        examples={arm: _shots(folder.path, arm, a) for arm, a in answers.items()},
        at_threshold={arm: a.where(a.variant == "") for arm, a in at_threshold.items()},
    )
    return with_predictions(replace(run, unread=unread))


def _shots(folder: Path, arm: str, answers: ArmAnswers) -> "dict[int, Shots]":
    """An arm's saved examples by repeat."""
    from fwc_llm.shots.storage import load_shots

    found: dict[int, Shots] = {}
    for repeat in np.unique(answers.repeat).tolist():
        path = folder / "shots" / f"{file_name(arm)}-{repeat}.json"
        if path.is_file():
            found[repeat] = load_shots(path)
    return found


class _PredictionsFile(BaseModel):
    """assisted.json: predictions by arm, and hashes of `answers` and `table`."""

    format: Literal["fwc-llm-assisted/1"] = "fwc-llm-assisted/1"
    answers: str
    table: str
    arms: dict[str, dict[str, list[Any]]]


def with_predictions(run: Run, task: "Task | None" = None) -> Run:
    """The run with predictions of its answers (docs/running.md, "Assisted").

    They are read from assisted.json if they belong to answers and table, else computed if `task`
    has the run's table in memory, and saved.
    """
    path = run.folder / PREDICTIONS
    fingerprint = run.described.get("fingerprint")
    if task is None and not path.is_file():
        return run
    key = _key(run.answered)
    with suppress(OSError, LookupError, TypeError, ValueError, FwcError):
        content = _PredictionsFile.model_validate(parse_json(read_text(path)))
        if (content.answers, content.table) == (key, fingerprint):
            return replace(
                run,
                assists={arm: _arrays(lists) for arm, lists in content.arms.items()},
            )
    if task is None or task.fingerprint != fingerprint:
        return run
    try:
        assists = assisted_answers(run.answered, table_of(task)).assists
    except FwcError:  # weights, people, or test rows that were not drawn at random
        return run
    arms = {
        arm: {name: plain(getattr(found, name).round(6).tolist()) for name in _KINDS}
        for arm, found in assists.items()
    }
    content = _PredictionsFile(answers=key, table=task.fingerprint, arms=arms)
    with suppress(StorageError):
        RunFolder(run.folder).write_json(PREDICTIONS, content.model_dump())
    return replace(
        run, assists={arm: _arrays(lists) for arm, lists in arms.items()}
    )  # rounded


def _key(answered: RunAnswers) -> str:
    """A hash of the answers, their order and the groups."""
    digest = hashlib.sha256("\x1f".join([*answered.arms, *answered.groups]).encode())
    for arm, sample in answered.plain_samples.items():
        digest.update(np.nan_to_num(sample.answer, nan=2.0).tobytes())
        digest.update("\x1f".join(answered.answers[arm].row).encode())
        digest.update(sample.unit.tobytes() + sample.repeat.tobytes())
    return digest.hexdigest()


def _arrays(lists: Mapping[str, list[Any]]) -> Predictions:
    arrays: Json = {n: np.array(lists[n], _KINDS[n]) for n in _KINDS}
    return Predictions(**arrays)


def assisted(run: Run, task: "Task | None", why: str = "") -> Run:
    """The run with assisted estimates; `FwcError` if the needed table is missing (`why`)."""
    run = with_predictions(run, task)
    if not run.assists and task is None:
        raise FwcError(f"assisted estimates need the table: {why}")
    return replace(run, assist=True)


def _told(answers: ByArm, counterfactual: bool) -> dict[str, ArmAnswers]:
    """Answers about changed rows, of counterfactuals or probes, by arm with any."""
    by_arm = {}
    for arm, a in answers.items():
        names = a.variant.categories
        chosen = [
            name != "" and name.startswith(COUNTERFACTUAL) == counterfactual
            for name in names
        ]
        changed = np.array(chosen)[a.variant.codes]
        if changed.any():
            by_arm[arm] = a.where(changed)
    return by_arm


def score_run(
    folder: RunFolder,
    journal: Journal,
    stopped: str | None = None,
    task: "Task | None" = None,
) -> tuple[Json, Run | None]:
    """Score a run, with its records in results.json; what `score` returns, and the run.

    The run is None without any reply.
    """
    results = score(folder, journal, stopped)
    reparsed = results.pop("reparsed", None)
    if results["unanswered"] == results["requests"]:
        folder.seal()
        return results, None
    run = with_predictions(read_run(folder), task)
    if run.assists and not run.answered.assist:  # asked for later: no part of the run
        run = replace(run, assists={})
    results["attribute"] = run.answered.attribute
    results["records"] = plain(run.statistics.records)
    folder.write_json("results.json", results)
    folder.seal()
    return results | ({"reparsed": reparsed} if reparsed else {}), run


def read_runs(
    paths: Sequence[str | Path | RunFolder], unread: Unread | None = None
) -> list[Run]:
    """Read several runs of one task for one report; folders tell equal models apart."""
    if not paths:
        raise FwcError("name at least one run's folder")
    runs = [read_run(path, unread) for path in paths]
    for run in runs[1:]:
        check_same_task(runs[0], run)
    if len({run.folder.resolve() for run in runs}) < len(runs):
        raise FwcError("a run is named twice")
    if len({run.label for run in runs}) == len(runs):
        return runs
    names = [run.folder.name for run in runs]
    if len(set(names)) < len(runs):
        names = [str(run.folder) for run in runs]
    return [
        replace(run, label=f"{run.label} · {name}")
        for run, name in zip(runs, names, strict=True)
    ]


def check_same_task(run: Run, other: Run) -> None:
    """Raise `FwcError` for runs of different tasks."""
    if run.task != other.task:
        both = f"{run.folder} is about {run.task!r} and {other.folder} about {other.task!r}"
        raise FwcError(
            f"{both}: numbers of different tasks cannot be compared; make one report each"
        )


def answers_by_arm(
    folder: RunFolder, arms: Sequence[str]
) -> tuple[dict[str, ArmAnswers], dict[str, ArmAnswers]]:
    """Every arm's answers as given, and those at the threshold, if any."""
    where = folder.path / "answers.csv"
    names = _columns(folder)
    if not names:
        raise FwcError(f"{where} is empty: the run never began")
    arm_names = names["arm"]
    missing = {*arms} - {*arm_names.unique()}
    if missing:
        raise damaged(where, f"the arm {min(missing)!r} of run.json has no row")
    texts: Json = {name: names[name] for name in ("row", "variant", "group", "reason")}
    answers = ArmAnswers(
        repeat=_numbers(names["repeat"]).astype(np.int64),
        label=_numbers(names["label"]).astype(np.int8),
        answer=_numbers(names["answer"]),
        p_yes=_numbers(names["p_yes"]),
        examples=one_name("", len(arm_names)),
        **texts,
        **{name: names[name] for name in ("cluster", "stratum") if name in names},
        weight=_numbers(names["weight"]) if "weight" in names else None,
    )
    by_arm = {str(arm): answers.where(arm_names == arm) for arm in arms}
    if THRESHOLD_COLUMN not in names:
        return by_arm, {}
    moved = _numbers(names[THRESHOLD_COLUMN])
    return by_arm, {
        arm: replace(a, answer=moved[arm_names == arm]) for arm, a in by_arm.items()
    }


def _columns(folder: RunFolder) -> "dict[str, Names]":
    """The columns of answers.csv except the replies, as categories, read in blocks."""
    import pandas as pd
    from pandas.api.types import union_categoricals

    lines = folder.read_answers()
    blocks = list[Any]()
    while block := list(islice(lines, _BLOCK)):
        columns = [name for name in block[0] if name != "reply"]
        blocks.append(pd.DataFrame(block, columns=columns).astype("category"))
    if blocks:
        names = blocks[0].columns
    else:
        names = ()
    return {
        name: as_names(union_categoricals([b[name].array for b in blocks]))
        for name in names
    }


def _numbers(names: "Names") -> npt.NDArray[np.float64]:
    """The numbers (n,) of texts: of words for labels and answers, their codes; "" is NaN."""
    numbers = [
        CODES[text] if text in CODES else float(text) for text in names.categories
    ]
    return np.asarray(np.array(numbers, np.float64)[names.codes], np.float64)


def damaged(path: Path, why: str) -> FwcError:
    """The error for a damaged file in a run's folder."""
    return FwcError(f"{path} is damaged: {why}")
