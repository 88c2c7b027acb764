"""`tune`: find examples that reach a fairness target for a model (docs/tune.md)."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from fwc_llm.errors import Ambiguous, FwcError, IncompleteRunError, checked, require
from fwc_llm.evaluation import successive_halving as halving
from fwc_llm.evaluation.candidates import (
    NO_EXAMPLES,
    Candidate,
    Recipe,
    choose_candidates,
)
from fwc_llm.evaluation.evaluate import Job, interrupted, prepare
from fwc_llm.evaluation.result import Result
from fwc_llm.evaluation.successive_halving import (
    BALANCED,
    TARGETS,
    ZERO,
    Floats,
    Goal,
    Measured,
    Pool,
)
from fwc_llm.files import in_shell
from fwc_llm.models import Client, Model, traits
from fwc_llm.models.client import ClientKeywords
from fwc_llm.models.functions import BatchFunction, Function
from fwc_llm.models.tokens import TokenCounter
from fwc_llm.notices import spoken, tell
from fwc_llm.options import split_options
from fwc_llm.progress import choose as choose_progress
from fwc_llm.prompts import Prompt
from fwc_llm.report.tuning import FILE_NAME, kind_words
from fwc_llm.runs.batch import batches_under_way
from fwc_llm.runs.budget import Forecast, forecast
from fwc_llm.runs.execute import Watch
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.journal import Journal, PlannedCall
from fwc_llm.runs.plan import Plan, bare_prompt, make_plan, rows_of
from fwc_llm.runs.results import VALUES, Replies
from fwc_llm.runs.settings import Api, Settings
from fwc_llm.runs.splits import Split, hold_out, nearest_whole
from fwc_llm.shots import save_shots, select_shots
from fwc_llm.shots.base import Shots
from fwc_llm.shots.select import check_order

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.tasks import Task


TUNED = "tuned"
FORMAT = "fwc-llm-tuning/1"
FIXED = {
    ZERO: NO_EXAMPLES,
    BALANCED: Recipe(BALANCED, BALANCED),
}  # arms that candidates are compared with
_FEWEST_A_GROUP = 20


@dataclass(frozen=True, repr=False)
class Tuned(Ambiguous):
    """The outcome of tuning; `folder` has shots.json, tuning.json and the test run.

    `shots` are the chosen examples; None if no candidate is better than no examples. `template` is
    their template set. `verdict` is a sentence on the outcome. `reached` tells whether the target
    is reached on the pool rows. `tuning` is the content of tuning.json; its `front` has accuracy
    and metric of each arm on the pool rows, with 95 % intervals. `result` is the test on held-out
    test rows.
    """

    instead = "write tuned.reached, or compare tuned.shots with None"

    folder: Path
    verdict: str
    reached: bool
    shots: Shots | None
    template: str
    tuning: dict[str, Any] = field(default_factory=dict)
    result: Result | None = None

    @property
    def front(self) -> list[dict[str, Any]]:
        """One dict per arm: candidates asked about all rows, by distance to target; then all
        others.
        """
        return list(self.tuning["front"])

    def to_frame(self) -> "pd.DataFrame":
        """`front` as a table."""
        import pandas as pd

        return pd.DataFrame(self.front).set_index("candidate")

    def __repr__(self) -> str:
        return f"<Tuned: {self.verdict}; {self.folder}>"


@dataclass(frozen=True)
class _Tuning:
    """A planned tuning; `arms` are zero-shot, balanced, then the candidates."""

    job: Job
    folder: RunFolder
    asked: dict[str, Any]
    goal: Goal
    pool: Pool
    arms: dict[str, Candidate]
    show: Any
    cancel_batch: bool

    @property
    def candidates(self) -> list[Candidate]:
        return [arm for name, arm in self.arms.items() if name not in FIXED]

    def ask_candidates(self) -> dict[str, Floats]:
        """Each arm's answers about the first rows of the pool, from successive halving."""
        budget = self.job.budget()
        self.job.preflight()
        folder = self.folder
        if not (folder.path / FILE_NAME).is_file():
            folder.create()
        with Journal(folder.path, self.job.plan.task.spellings) as journal:
            begun = len(journal) or batches_under_way(folder.path)
            taken_up = bool(begun) and (folder.path / FILE_NAME).is_file()
            if taken_up:
                before = folder.read_json(FILE_NAME)
            else:
                before = {}
            self.asked["parameters"] = _plain(dict(self.job.model.parameters))
            arms = [f"pool {name}" for name in FIXED]
            watch = Watch(self.job.model, journal, self.job.plan.settings, arms)
            if taken_up:
                other = [
                    name
                    for name, value in self.asked.items()
                    if before.get(name) != value
                ]
                if other:
                    problem = f"{folder.path} holds another tuning ({other[0]} differs)"
                    raise FwcError(
                        f"{problem}: repeat its options, or name a new folder with --out"
                    )
            else:  # without any reply, the tuning begins again
                folder.write_json(FILE_NAME, self.asked)

            def ask(names: Iterable[str], k: int) -> dict[str, Floats]:
                arms = list(names)
                with self.show.asking(len(arms) * k) as state:
                    outcome = self.job.ask(
                        lambda: self._calls(arms, k),
                        len(arms) * k,
                        journal,
                        budget,
                        state,
                        self.cancel_batch,
                        None if self.job.client.no_watch else watch,
                    )
                if outcome.stopped or outcome.errors:
                    why = outcome.stopped or f"{outcome.errors} questions have no reply"
                    again = (
                        f"the same command with --out {in_shell(folder.path)} continues"
                    )
                    raise IncompleteRunError(f"tuning is not complete: {why}; {again}")
                return self._answers(journal, arms, k)

            names = [candidate.name for candidate in self.candidates]
            return halving.successive_halving(names, self.pool, self.goal, ask)

    def _calls(self, names: Sequence[str], k: int) -> Iterator[PlannedCall]:
        plan = self.job.plan
        for name in names:
            arm = self.arms[name]
            apart = plan.settings.question_apart
            prompt = Prompt(plan.task, arm.shots, arm.template, question_apart=apart)
            fixed = len(prompt.prefix)
            for row, values in rows_of(self.pool.rows.iloc[:k]):
                yield PlannedCall(
                    f"pool {name}", 0, row, "", prompt.build(values), fixed=fixed
                )

    def _answers(
        self, journal: Journal, names: Sequence[str], k: int
    ) -> dict[str, Floats]:
        replies = Replies(journal)
        rows = self.pool.rows.index[:k].astype(str)

        def answer(name: str, row: str) -> float:
            question = {"arm": f"pool {name}", "repeat": 0, "row": row, "variant": ""}
            return VALUES[replies.row(question)["answer"]]

        return {name: np.array([answer(name, row) for row in rows]) for name in names}

    def conclude(self, answers: Mapping[str, Floats], split: Split | None) -> Tuned:
        """Choose the winner, write the files, and test the winner on `split` unless None."""
        with self.show.working("comparing the candidates by their answers"):
            winner, reached, verdict = self._choose(answers)
        template = self.arms[winner or ZERO].template
        tuning = {
            **self.asked,
            "verdict": verdict,
            "reached": reached,
            **({"winner": winner, "template": template} if winner else {}),
            "calls": sum(map(len, answers.values())),
            "front": self._lines(answers, winner),
        }
        self.folder.write_json(FILE_NAME, tuning)
        shots = None
        result = None
        if winner is not None:
            shots = self.arms[winner].shots
            save_shots(shots, self.folder.path / "shots.json", force=True)
            result = self._test(self.arms[winner], split) if split else None
        return Tuned(
            self.folder.path, verdict, reached, shots, template, tuning, result
        )

    def _choose(self, answers: Mapping[str, Floats]) -> tuple[str | None, bool, str]:
        """(name of the winner or None, whether it reaches the target, verdict)."""
        compared = (
            answers,
            [name for name in self.arms if name != ZERO],
            self.goal,
            self.pool,
        )
        if not halving.any_better(*compared):
            rows = len(self.pool.rows)
            verdict = f"Nothing chosen: on {rows:,} rows no candidate beat zero-shot clearly. "
            gains = halving.smallest_gains(*compared)
            if gains is None:
                return None, False, f"{verdict}None changed an answer"
            of_metric, of_accuracy = (100 * gain for gain in gains)
            more = 4 * rows  # for gains half as large
            enough = more <= self.job.plan.repeats[0].split.candidates.sum()
            verdict += (
                f"Gains under about {of_metric:.0f} points of "
                f"{TARGETS[self.goal.metric]} or "
            )
            verdict += f"{of_accuracy:.0f} points of accuracy cannot be seen"
            try_more = f"; try --rows {more}, which shows gains half as large"
            return None, False, spoken(verdict + try_more * bool(enough))
        finalists = self._finalists(answers)
        winner, reached = halving.choose(finalists, self.goal)
        return winner, reached, self._verdict(winner, reached, finalists)

    def _finalists(self, answers: Mapping[str, Floats]) -> dict[str, Measured]:
        """Measures of the candidates that were asked about all rows, and of `balanced`."""
        n = len(self.pool.rows)
        complete = [
            candidate.name
            for candidate in self.candidates
            if len(answers[candidate.name]) == n
        ]
        return {
            name: self.pool.measure(self.goal, answers[name])
            for name in (*complete, BALANCED)
        }

    def _lines(
        self, answers: Mapping[str, Floats], winner: str | None
    ) -> list[dict[str, Any]]:
        """One dict per arm: finalists by distance to the target; then all others."""
        best = halving.front(self._finalists(answers), self.goal)
        lines = list[tuple[Any, dict[str, Any]]]()
        for name, yes in answers.items():
            values = self.pool.measure(self.goal, yes)
            k = len(yes)
            reference = self.pool.measure(self.goal, answers[BALANCED][:k])
            lost = reference.accuracy.less(values.accuracy)
            fixed = {"candidate": name, "kind": name, "strategy": name}
            line = {
                **(fixed if name in FIXED else self.arms[name].as_json()),
                "rows": k,
                "dropped": k < len(self.pool.rows),
                "accuracy": values.accuracy.value,
                "accuracy_interval": values.accuracy.interval(),
                "metric": values.metric.value,
                "metric_interval": values.metric.interval(),
                "loss": lost.value,
                "loss_interval": lost.interval(low=-1.0),
                "front": name in best,
                "chosen": name == winner,
            }
            sort_key = (
                line["dropped"],
                name in FIXED,
                -k,
                self.goal.shortfall(values.metric.value),
            )
            lines.append((sort_key, line))
        return [line for _, line in sorted(lines, key=lambda pair: pair[0])]

    def _verdict(
        self, winner: str, reached: bool, finalists: Mapping[str, Measured]
    ) -> str:
        goal = self.goal
        best = finalists[winner]
        kind = "balanced examples"
        chosen = self.arms[winner]
        if winner != BALANCED:
            kind = f"{kind_words(chosen.recipe.label)} ({winner})"
        near = any(
            goal.shortfall(finalist.metric.value) <= 0.0
            for finalist in finalists.values()
        )
        how = (
            "is nearest to the target, which no candidate reaches"
            + " within the allowed loss" * near
        )
        lost = finalists[BALANCED].accuracy.less(best.accuracy)
        if lost.value >= 0:
            side = "below"
        else:
            side = "above"
        low, high = sorted(
            100 * end * (1 if lost.value >= 0 else -1)
            for end in lost.interval(low=-1.0)
        )
        return (
            f"{kind} {'reaches the target' if reached else how}, by answers to "
            f"{len(self.pool.rows)} pool "
            f"rows ({goal.words}): {TARGETS[goal.metric]} {best.metric.value:.3f} at "
            f"{100 * best.accuracy.value:.1f} % accuracy, {100 * abs(lost.value):.1f} points "
            f"{side} balanced "
            f"({low:.1f} to {high:.1f})"
        )

    def _test_plan(self, winner: Candidate, split: Split) -> Plan:
        """The plan of the test: the winner, zero-shot, balanced and FWC on the test rows."""
        arms = (replace(winner.shots, strategy=TUNED), ZERO, BALANCED, "fwc")
        task = self.job.plan.task
        settings = self.job.plan.settings.updated(template=winner.template)
        with self.show.working("choosing the examples of the test") as step:
            return make_plan(task, arms, settings, progress=step, split=split)

    def forecast(self, split: Split | None) -> Forecast:
        """Forecast the largest possible use of candidates and test: requests, tokens, cost."""
        count = TokenCounter(self.job.model.name).count
        total = len(self.pool.rows)
        tokens = {
            candidate.name: count(next(self._calls([candidate.name], 1)).messages)
            for candidate in self.candidates
        }
        longest = sorted(tokens, key=lambda name: -tokens[name])

        def calls() -> Iterator[PlannedCall]:
            done = 0
            left = len(longest)
            for share, kept in halving.ROUNDS:
                k = max(1, round(share * total))
                for name in (*FIXED, *longest[:left]):
                    yield from islice(self._calls([name], k), done, None)
                done = k
                left = max(halving.FEWEST_KEPT, round(kept * len(longest)))
            if split is not None:
                yield from self._test_plan(self.arms[longest[0]], split).calls()

        return forecast(self.job.model, calls(), self.job.price, self.job.client.batch)

    def _test(self, winner: Candidate, split: Split) -> Result:
        plan = self._test_plan(winner, split)
        job = Job(plan, self.job.model, self.job.client)
        with self.show.asking(plan.n_calls) as state:
            return job.run(self.folder.path, state, self.cancel_batch)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they are after writing and reading JSON."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(values), default=str))
    return plain


def _expected(job: Job, numbers: Forecast) -> str:
    """A sentence on the largest number of requests and their cost."""
    exact = "" if numbers.exact else " (an estimate)"
    requests = f"at most {numbers.calls:,} requests to {job.model.name}"
    about = traits(job.model)
    if about.local or (about.simulated and job.client.base_url is None):
        return f"{requests}: they cost nothing"
    unknown = "; cost unknown: give a price file with --prices"
    if numbers.dollars_most is None:
        cost = unknown
    else:
        cost = f", ${numbers.dollars_most:.2f}"
    prompts = f"{numbers.prompt_tokens:,}"
    replies = f"{numbers.completion_tokens:,}"
    return (
        f"{requests}: {prompts} prompt tokens{exact}, {replies} completion tokens{cost}"
    )


@checked
def tune(
    task: "str | Path | Task",
    model: str | Model | Function | BatchFunction,
    target_dp: float | None = None,
    max_loss: float = 3.0,
    *,
    target: str | None = None,
    rows: int | None = None,
    candidates: int = 40,
    m: int | Sequence[int] | None = None,
    templates: Sequence[str] | None = None,
    orders: Sequence[str] | None = None,
    strategies: Sequence[str] | None = None,
    n_test: int | None = None,
    base_parity: float | Literal["task"] | None = "task",
    seed: int = 0,
    out: str | Path | None = None,
    api: Api = "chat",
    client: Client | None = None,
    data_dir: str | Path | None = None,
    test: bool = True,
    cancel_batch: bool = False,
    dry_run: bool = False,
    progress: bool | None = None,
    display: Any = None,
    **options: Unpack[ClientKeywords],
) -> Tuned:
    """Find examples that reach a fairness target at the least loss of accuracy.

    `target_dp` is the largest acceptable DP gap; `target` names another metric instead
    ("eo_gap=0.1", "dp_ratio=0.8"). `max_loss` is the largest acceptable loss of accuracy, in
    percentage points below the arm `balanced` on the same rows.

    `candidates` is the number of sets of examples to try. They are chosen by all strategies, or by
    those in `strategies`; numbers of examples (`m`, by default that of `evaluate`), `orders` and
    template sets alternate. The model answers with each candidate about `rows` rows of the pool (by
    default the number of test rows). These are drawn like the test rows; none equals a test row or
    an example. Successive halving drops poor candidates early. Then the winner is tested once on
    `n_test` test rows (by default 200, or the nearest number that the table allows), together with
    zero-shot, balanced and FWC in the same template set; `test` False skips the test.

    `client` has the options of the service; they may also be passed by name. `api` is its protocol
    ("chat"; "decisions" or "systemone" for decision models). `cancel_batch` cancels the folder's
    pending batches and sends their requests live.

    All files are written to `out`, by default ./runs/<time>-<task>-<model>; the winner is
    shots.json. The same call with the folder of an interrupted tuning continues that tuning.
    `dry_run` sends and writes nothing; `verdict` then has the largest number of requests and their
    cost.

    Errors: `FwcError` for a target outside its range, a negative loss, and too few rows; also those
    of `evaluate`.
    """
    (client,) = split_options(tune, options, Client() if client is None else client)
    sizes = [m] if isinstance(m, int) else m
    if sizes is not None:
        require(sizes, (list, tuple), "m", "give a number or a list")
    goal = halving.read_goal(target_dp, target, max_loss)
    templates = list(templates or (Settings(api=api).template,))
    if candidates < 1:
        raise FwcError(f"candidates is {candidates}: give a whole number from 1 up")
    for order in orders or ():
        check_order(order)
    show = display or choose_progress(progress)
    sizes = list(sizes or ())
    chosen: dict[str, Any] = {"m": sizes[0]} if sizes else {}
    chosen |= {"n_test": n_test} if n_test is not None else {}
    chosen |= {"base_parity": base_parity} if base_parity != "task" else {}
    settings = Settings(seed=seed, template=templates[0], api=api, **chosen)
    with show.working("reading the table") as step:
        arms = (
            (ZERO,) if sizes else (ZERO, BALANCED)
        )  # the default of m is that of arms with examples
        bare = prepare(task, model, arms, settings, client, data_dir, on_step=step)
        if traits(bare.model).reference:
            raise FwcError(
                f"{bare.model.name} reads no prompt, so there is nothing to tune: name a language "
                f"model"
            )
        table = bare.plan.task
        settings = bare.plan.settings
        drawn = bare.plan.repeats[0].split
        for template in templates[1:]:  # before any request
            traits(bare.model).check(
                bare_prompt(table, template, settings.question_apart)
            )
        if rows is None:
            rows = settings.n_test
        fewest = _FEWEST_A_GROUP * len(table.groups)
        sizes = sizes or [settings.m]
        if rows < fewest:
            least = f"comparing candidates takes at least {fewest}, {_FEWEST_A_GROUP} per group"
            raise FwcError(f"--rows is {rows}: {least}")
        if settings.base_parity is not None:
            nearest = nearest_whole(table.groups, rows, settings.base_parity)
            if nearest != rows:
                tell(
                    f"--rows {rows} does not divide evenly into cells: {nearest} rows are drawn"
                )
            rows = nearest
        try:
            pool_rows, split = hold_out(table, drawn, rows, settings.base_parity, seed)
        except FwcError as error:
            raise FwcError(f"--rows: {error}") from None
        free = int(split.candidates.sum())
        if max(sizes) > free:
            raise FwcError(
                f"m is {max(sizes)}, but only {free} rows may become examples: lower --m"
            )
        pool = Pool.of(table, pool_rows)
        if out:
            folder = RunFolder(Path(out))
        else:
            folder = RunFolder.default(table.name, bare.model.name)
        fixed = {}
        for name, recipe in FIXED.items():
            shots = select_shots(
                table,
                name,
                sizes[0],
                seed=seed,
                pool=split.pool,
                candidates=split.candidates,
                progress=False,
            )
            fixed[name] = Candidate(name, recipe, seed, "given", templates[0], shots)
        tried, refused = choose_candidates(
            table, split, candidates, sizes, templates, orders, seed, strategies, step
        )
    for line in refused:
        tell(line)
    described = {
        "format": FORMAT,
        "task": table.name,
        "fingerprint": table.fingerprint,
        "model": bare.model.name,
        "simulated": traits(bare.model).simulated or table.simulated,
        "parameters": dict(bare.model.parameters),
        "goal": {
            "metric": goal.metric,
            "target": goal.target,
            "max_loss": goal.max_loss,
        },
        "rows": rows,
        "n_test": settings.n_test,
        "base_parity": settings.base_parity,
        "seed": seed,
        "candidates": [candidate.as_json() for candidate in tried],
    }
    all_arms = fixed | {candidate.name: candidate for candidate in tried}
    tuning = _Tuning(
        bare, folder, _plain(described), goal, pool, all_arms, show, cancel_batch
    )
    if dry_run:
        numbers = tuning.forecast(split if test else None)
        forecasted = asdict(numbers) | {
            "price": numbers.price and numbers.price.model_dump()
        }
        content = {**tuning.asked, "forecast": forecasted, "front": []}
        return Tuned(
            folder.path, _expected(bare, numbers), False, None, templates[0], content
        )
    try:
        return tuning.conclude(tuning.ask_candidates(), split if test else None)
    except KeyboardInterrupt:
        raise interrupted(folder.path) from None
