"""`tune`: find the examples that reach a fairness target for one model, and test them once (docs/tune.md)."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fwc_llm.errors import FwcError, IncompleteRunError, InterruptedRunError
from fwc_llm.evaluation.candidates import Candidate, choose_candidates
from fwc_llm.evaluation.job import Job, prepare
from fwc_llm.evaluation.race import (
    AGAIN,
    BALANCED,
    ZERO,
    Floats,
    Goal,
    Pool,
    Standing,
    choose,
    describe_front,
    moved,
    race,
    read_goal,
    soft_measures,
)
from fwc_llm.evaluation.result import Result
from fwc_llm.models import Client, Model, traits
from fwc_llm.models.functions import BatchFunction, Function
from fwc_llm.progress import choose as choose_progress
from fwc_llm.prompts import Prompt
from fwc_llm.report.tuning import FILE_NAME, kind_words
from fwc_llm.runs.batch import batches_under_way
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.journal import FILE_NAME as JOURNAL
from fwc_llm.runs.journal import Call, Journal, read_records
from fwc_llm.runs.plan import make_plan, rows_of
from fwc_llm.runs.settings import Api, Settings
from fwc_llm.runs.splits import Split, draw_split, hold_out
from fwc_llm.shots import save_shots, select_shots
from fwc_llm.shots.base import DEFAULT_M, Shots
from fwc_llm.shots.select import check_order

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.tasks import Task


TUNED = "tuned"
FORMAT = "fwc-llm-tuning/1"
_FEWEST_A_GROUP = 20


@dataclass(frozen=True, repr=False)
class Tuned:
    """What tuning found.

    `shots` are the examples chosen, None where no candidate moves the model; `template` is their wording.
    `verdict` says in words what was reached. `tuning` is tuning.json; its `front` has one object per
    candidate: how it was chosen, accuracy and metric on the pool rows with 95 % intervals, and whether no
    other beats it in both. `result` is the test on rows that took no part in the choice. `folder` holds
    shots.json, tuning.json and the run.
    """

    folder: Path
    verdict: str
    reached: bool
    shots: Shots | None
    template: str
    tuning: dict[str, Any] = field(default_factory=dict)
    result: Result | None = None

    @property
    def front(self) -> list[dict[str, Any]]:
        """One object per candidate, those asked about all rows first, nearest to the target first."""
        return list(self.tuning["front"])

    def to_frame(self) -> "pd.DataFrame":
        """The candidates as a table, those asked about all rows first."""
        import pandas as pd

        return pd.DataFrame(self.front).set_index("candidate")

    def __repr__(self) -> str:
        return f"<Tuned: {self.verdict}; {self.folder}>"


@dataclass(frozen=True)
class _Tuning:
    """A planned tuning: the model, the rows, each candidate's prompts, and the folder that keeps it."""

    job: Job
    folder: RunFolder
    asked: Mapping[str, Any]
    goal: Goal
    pool: Pool
    candidates: Mapping[str, Candidate]
    fixed: Mapping[str, Shots]
    template: str
    show: Any
    cancel_batch: bool

    def race(self) -> dict[str, Standing]:
        """Race in the folder, or take up the race that was interrupted there."""
        budget = self.job.budget()
        self.job.refuse_early()
        folder = self.folder
        if not (folder.path / FILE_NAME).is_file():
            folder.create()
        with Journal(folder.path) as journal:
            _check_same(folder, self.asked)
            if not _holds_answers(folder):
                folder.write_json(FILE_NAME, self.asked)

            def ask(names: Iterable[str], k: int) -> dict[str, tuple[Floats, Floats]]:
                arms = list(names)
                with self.show.asking(len(arms) * k) as state:
                    outcome = self.job.ask(
                        lambda: self._calls(arms, k), len(arms) * k, journal, budget, state, self.cancel_batch
                    )
                if outcome.stopped or outcome.errors:
                    why = outcome.stopped or f"{outcome.errors} questions have no reply"
                    raise IncompleteRunError(
                        f"tuning is not complete: {why}; the same command with "
                        f"--out {quote(str(folder.path))} continues"
                    )
                return self._answers(journal, arms, k)

            return race(list(self.candidates), self.pool, self.goal, ask)

    def _prompt(self, name: str) -> tuple[Shots, str]:
        """The examples of a candidate or an arm, and their wording."""
        if name in self.candidates:
            return self.candidates[name].shots, self.candidates[name].template
        return self.fixed[BALANCED if name == BALANCED else ZERO], self.template

    def _calls(self, names: Sequence[str], k: int) -> Iterator[Call]:
        plan = self.job.plan
        for name in names:
            prompt = Prompt(plan.task, *self._prompt(name), questions=plan.settings.questions)
            fixed = len(prompt.prefix)
            for row, values in rows_of(self.pool.rows.iloc[:k]):
                yield Call(f"pool {name}", 0, row, "", prompt.build(values), fixed=fixed)

    def _answers(self, journal: Journal, names: Sequence[str], k: int) -> dict[str, tuple[Floats, Floats]]:
        places = {str(row): place for place, row in enumerate(self.pool.rows.index[:k])}
        answers = {f"pool {name}": (np.full(k, np.nan), np.full(k, np.nan)) for name in names}
        for record in journal.records():
            arm, place = record.get("arm"), places.get(str(record.get("row")))
            if arm in answers and place is not None and record["text"] is not None:
                hard, soft = answers[arm]
                hard[place] = _VALUES.get(str(record.get("answer")), np.nan)
                soft[place] = np.nan if record.get("p_yes") is None else record["p_yes"]
        return {name: answers[f"pool {name}"] for name in names}

    def conclude(self, standing: Mapping[str, Standing], split: Split | None, settings: Settings) -> Tuned:
        """Choose, write what was chosen, and test it on the test rows of `split`, if there is one."""
        goal = self.goal
        measured = {name: one.measured(goal, self.pool) for name, one in standing.items() if name != AGAIN}
        complete = [name for name in self.candidates if standing[name].dropped_after is None]
        finalists = {name: measured[name] for name in (*complete, BALANCED)}
        calls = sum(len(one.hard) for one in standing.values())

        def write(verdict: str, reached: bool, winner: str | None = None, **chosen: str) -> dict[str, Any]:
            if winner is not None:
                chosen = {"winner": winner, **chosen}
            front = describe_front(self.asked["candidates"], standing, measured, finalists, goal, winner)
            outcome = {**self.asked, "verdict": verdict, "reached": reached, **chosen}
            outcome |= {"calls": calls, "front": front}
            self.folder.write_json(FILE_NAME, outcome)
            return outcome

        if not moved(standing, self.candidates):
            verdict = "no candidate differs from zero-shot beyond noise: examples do not move this model"
            return Tuned(self.folder.path, verdict, False, None, self.template, write(verdict, False))
        winner, reached = choose(
            finalists, goal, measured[BALANCED], soft_measures(standing, finalists, goal, self.pool)
        )
        shots, template = self._prompt(winner)
        best, kind = measured[winner], winner
        if winner in self.candidates:
            kind = kind_words(self.candidates[winner].recipe.label)
        lost = 100 * (measured[BALANCED].accuracy - best.accuracy)
        far = "is the nearest to the target, which no candidate reaches,"
        verdict = (
            f"{kind} {'reaches the target' if reached else far} on "
            f"{len(self.pool.rows)} pool rows: {goal.words}; it has {best.metric:.3f} at "
            f"{100 * best.accuracy:.1f} % accuracy, {lost:.1f} points below balanced"
        )
        save_shots(shots, self.folder.path / "shots.json")
        outcome = write(verdict, reached, winner, template=template)
        result = self._test(shots, settings.updated(template=template), split) if split else None
        return Tuned(self.folder.path, verdict, reached, shots, template, outcome, result)

    def _test(self, shots: Shots, settings: Settings, split: Split) -> Result:
        """Ask once about the test rows: the winner, and what it is measured against."""
        arms = (replace(shots, strategy=TUNED), ZERO, BALANCED, "fwc")
        with self.show.working("choosing the examples of the test") as step:
            plan = make_plan(self.job.plan.task, arms, settings, progress=step, splits=[split])
        job = Job(plan, self.job.model, self.job.client, reference=None)
        with self.show.asking(plan.n_calls) as state:
            return job.run(self.folder.path, state, self.cancel_batch)


_VALUES = {"yes": 1.0, "no": 0.0}


def tune(
    task: "str | Path | Task",
    model: str | Model | Function | BatchFunction,
    target_dp: float | None = None,
    max_loss: float = 3.0,
    *,
    target: str | None = None,
    rows: int = 200,
    candidates: int = 40,
    m: int | Sequence[int] = DEFAULT_M,
    templates: Sequence[str] | None = None,
    orders: Sequence[str] | None = None,
    strategies: Sequence[str] | None = None,
    n_test: int = 200,
    base_parity: float | Literal["task"] | None = "task",
    seed: int = 0,
    out: str | Path | None = None,
    api: Api = "chat",
    client: Client | None = None,
    data_dir: str | Path | None = None,
    test: bool = True,
    cancel_batch: bool = False,
    progress: bool | None = None,
    shown: Any = None,
) -> Tuned:
    """Find examples with which `model` reaches a fairness target at the least loss of accuracy.

    `target_dp` is the DP gap to reach, or `target` another metric by name ("eo=0.1", "dp_ratio=0.8").
    `max_loss` is in points of accuracy below the arm `balanced` on the same rows. The candidates (so many,
    by all strategies or those named in `strategies`, with m examples or several numbers in turn, in the
    `orders` and wordings in turn) are raced on `rows` rows of the pool, which are drawn like the test rows
    and equal no example and no test row. The winner is then asked once about `n_test` test rows, beside
    zero-shot, balanced and FWC; `test` False leaves that out. `client` is how the model is asked, `api` how
    the question is put ("chat", or for decision models "decisions" or "systemone"); `cancel_batch` ends the
    folder's batches that are under way and asks live.

    Everything is written to `out`, by default ./runs/<time>-<task>-<model>; the same call with the folder of
    an interrupted tuning continues it. The winner is shots.json there.

    Errors: `FwcError` for a target outside its range, a negative loss, too few rows; what `evaluate` raises.
    """
    goal = read_goal(target_dp, target, max_loss)
    templates = templates or (Settings(api=api).template,)
    if candidates < 1:
        raise FwcError(f"candidates is {candidates}: give a whole number from 1 up")
    for order in orders or ():
        check_order(order)
    show = shown or choose_progress(progress)
    sizes = [m] if isinstance(m, int) else list(m)
    settings = Settings(m=sizes[0], n_test=n_test, seed=seed, template=templates[0], api=api)
    if base_parity != "task":
        settings = settings.updated(base_parity=base_parity)
    with show.working("reading the table") as step:
        bare = prepare(
            task, model, ("zero",), settings, client or Client(), data_dir, on_step=step, notice=show.say
        )
        if traits(bare.model).reference:
            raise FwcError(
                f"{bare.model.name} reads no prompt, so there is nothing to tune: name a language model "
                "(--model)"
            )
        table, base_parity = bare.plan.task, bare.plan.settings.base_parity
        settings = settings.updated(base_parity=base_parity)
        split = draw_split(table, n_test, base_parity, seed)
        held, split = _held_out(table, split, rows, base_parity, seed)
        free = int(split.candidates.sum())
        if max(sizes) > free:
            raise FwcError(f"m is {max(sizes)}, but only {free} rows may become examples: lower --m")
        pool = Pool.of(table, held)
        folder = RunFolder(Path(out)) if out else RunFolder.default(table.name, bare.model.name)
        basis = _basis(bare, goal, rows, settings)
        _check_same(folder, basis)
        found, refused = choose_candidates(
            table, split, candidates, sizes, templates, orders, seed, strategies, step
        )
        fixed = {
            name: select_shots(
                table, name, sizes[0], seed=seed, pool=split.pool, candidates=split.candidates, progress=False
            )
            for name in (ZERO, BALANCED)
        }
    for line in refused:
        show.say(line)
    by_name = {one.name: one for one in found}
    asked = basis | {"candidates": [one.as_json() for one in found]}
    tuning = _Tuning(bare, folder, asked, goal, pool, by_name, fixed, templates[0], show, cancel_batch)
    try:
        return tuning.conclude(tuning.race(), split if test else None, settings)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"interrupted; the same command with --out {quote(str(folder.path))} continues"
        ) from None


def _held_out(
    task: "Task", split: Split, rows: int, base_parity: float | None, seed: int
) -> "tuple[pd.DataFrame, Split]":
    """The pool rows of the race, and the split without them as examples."""
    fewest = _FEWEST_A_GROUP * len(task.groups)
    if rows < fewest:
        raise FwcError(
            f"rows is {rows}: to compare candidates takes at least {fewest} rows, {_FEWEST_A_GROUP} a group"
        )
    try:
        return hold_out(task, split, rows, base_parity, seed)
    except FwcError as error:
        raise FwcError(f"the pool rows of the race (--rows): {error}") from None


def _basis(job: Job, goal: Goal, rows: int, settings: Settings) -> dict[str, Any]:
    """What determines a tuning, but for its candidates."""
    return {
        "format": FORMAT,
        "task": job.plan.task.name,
        "fingerprint": job.plan.task.fingerprint,
        "model": job.model.name,
        "simulated": traits(job.model).simulated or job.plan.task.simulated,
        "parameters": json.loads(json.dumps(dict(job.model.parameters), default=str)),
        "goal": {"metric": goal.metric, "target": goal.target, "max_loss": goal.max_loss},
        "rows": rows,
        "n_test": settings.n_test,
        "base_parity": settings.base_parity,
        "seed": settings.seed,
    }


def _check_same(folder: RunFolder, asked: Mapping[str, Any]) -> None:
    """Refuse a folder in which something else is tuned; where nothing was answered, it begins anew."""
    if not _holds_answers(folder):
        return
    before, now = folder.read_json(FILE_NAME), json.loads(json.dumps(asked))
    for name, value in now.items():
        if before.get(name) != value:
            raise FwcError(
                f"{folder.path} holds another tuning ({name} differs): repeat its options to continue it, or "
                "name a new folder with --out"
            )


def _holds_answers(folder: RunFolder) -> bool:
    """Whether a tuning has an answer there, or one stands in a batch that is under way."""
    path = folder.path / JOURNAL
    if not (folder.path / FILE_NAME).is_file():
        return False
    replied = path.exists() and any(record["text"] is not None for _, record in read_records(path))
    return replied or batches_under_way(folder.path)
