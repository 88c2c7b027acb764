"""`tune`: find examples that reach a fairness target for a model (docs/tune.md).

A candidate is a set of examples by strategy, slots, seed and order.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from fwc_llm.errors import Ambiguous, FwcError, IncompleteRunError, checked
from fwc_llm.evaluation import successive_halving as halving
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
from fwc_llm.metrics.arm_comparison import ComparedArms, compare
from fwc_llm.metrics.counts import BY_KEY, CODES, plain
from fwc_llm.metrics.intervals import Interval
from fwc_llm.models import Client, Model, traits
from fwc_llm.models.client import AnswerFormat
from fwc_llm.models.functions import BatchFunction, Function
from fwc_llm.notices import Say, spoken, tell
from fwc_llm.number_format import number
from fwc_llm.options import split_options
from fwc_llm.progress import choose as choose_progress
from fwc_llm.report.tuning import FILE_NAME, kind_words
from fwc_llm.runs.batch import batches_under_way
from fwc_llm.runs.budget import Budget, Forecast, forecast
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.journal import Journal
from fwc_llm.runs.plan import Arm, Plan, make_plan
from fwc_llm.runs.results import Replies
from fwc_llm.runs.settings import Api, Settings
from fwc_llm.runs.splits import Split, hold_out, nearest_whole
from fwc_llm.sanitize import Fields, Json
from fwc_llm.shots import is_per_row, save_shots, select_shots, strategies
from fwc_llm.shots.base import Shots
from fwc_llm.shots.examples import counter_slots
from fwc_llm.shots.registry import ONLY_BY_NAME
from fwc_llm.shots.select import check_order
from fwc_llm.tasks import Task

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.keywords import ClientKeywords


# Arguments (share, more) of `counter_slots`.
COUNTER_TABLES = ((1.0, 0.0), (0.875, 0.0), (0.75, 0.0), (1.0, 0.25), (0.875, 0.25))
_FWC = {"fwc": 0.01, "fwc ε=0.1": 0.1, "fwc without a limit of parity": None}
_ORDERS = ("given", "random")
_LEFT_OUT = ONLY_BY_NAME | {"zero"}


@dataclass(frozen=True)
class Recipe:
    """The way to choose a candidate; `kind` names candidates that differ in chance alone."""

    kind: str
    strategy: str
    m: int
    options: Fields = field(default_factory=dict)
    epsilon: float | None = 0.01

    def choose(
        self, task: Task, split: Split, name: str, seed: int, order: str, template: str
    ) -> "Candidate":
        """Choose a candidate; `FwcError` if the table does not give it."""
        shots = select_shots(
            task,
            self.strategy,
            self.m,
            self.epsilon,
            seed,
            split.pool,
            split.candidates,
            order=check_order(order),
            progress=False,
            **self.options,
        )
        return Candidate(self, name, seed, order, template, shots)


@dataclass(frozen=True)
class Candidate:
    """One set of examples in one template set."""

    recipe: Recipe
    name: str
    seed: int
    order: str
    template: str
    shots: Shots = field(repr=False)

    def as_json(self) -> Json:
        """The candidate as in tuning.json."""
        return {
            "candidate": self.name,
            **vars(self.recipe),
            "m": self.shots.m,
            "seed": self.seed,
            "order": self.order,
            "template": self.template,
        }


def recipes(
    task: Task, sizes: Sequence[int], names: Sequence[str] | None = None
) -> list[Recipe]:
    """The recipes of all sizes: in turn a counter-stereotypical kind and another one.

    Counter-stereotypical examples change the gap most: of groups with low base rates they are
    mostly yes, of groups with high base rates mostly no.
    """
    counter = list[list[Recipe]]()
    others = list[list[Recipe]]()
    for name in _usable() if names is None else names:
        if is_per_row(name):
            raise FwcError(
                f"{name} chooses anew for every row: there would be no shots.json to keep"
            )
        if name in _LEFT_OUT:
            raise FwcError(
                f"tune does not try {name}: it has no examples, or needs the ids of rows"
            )
        if name == "strata":
            for table in COUNTER_TABLES:
                slots = {m: counter_slots(task, m, *table) for m in sizes}
                counter.append(
                    [
                        Recipe(f"strata {of}", name, m, {"slots": of})
                        for m, of in slots.items()
                    ]
                )
        elif name == "fwc":
            for kind, epsilon in _FWC.items():
                others.append([Recipe(kind, name, m, epsilon=epsilon) for m in sizes])
        else:
            others.append([Recipe(name, name, m) for m in sizes])
    found = list[Recipe]()
    for turn in range(max(len(counter), len(others))):  # the shorter list starts again
        for kinds in filter(None, (counter, others)):
            found += kinds[turn % len(kinds)]
    return found


def _usable() -> Iterator[str]:
    for name in strategies():
        if name not in _LEFT_OUT and not is_per_row(name):
            yield name


def choose_candidates(
    task: Task,
    split: Split,
    count: int,
    sizes: Sequence[int],
    templates: Sequence[str],
    orders: Sequence[str] | None,
    seed: int,
    names: Sequence[str] | None = None,
    progress: Say = lambda words: None,
) -> tuple[list[Candidate], list[str]]:
    """Choose `count` candidates; also return the reasons for kinds that failed."""
    kinds = recipes(task, sizes, names)
    if not kinds:
        raise FwcError(
            "no strategy is left to choose candidates: name some with --strategies"
        )
    variants = list(product(templates, orders or _ORDERS))
    chosen: list[Candidate] = []
    refused: dict[str, str] = {}
    for attempt in range(4 * count + 4 * len(kinds)):
        turn, index = divmod(attempt, len(kinds))
        recipe = kinds[index]
        label = f"{recipe.kind}, m={recipe.m}"
        if len(chosen) == count or label in refused:
            continue
        progress(f"choosing candidate {len(chosen) + 1} of {count}: {recipe.kind}")
        # Over the turns, every kind meets every pair of template and order.
        pair = index // (2 * len(sizes))  # of two kinds in all sizes
        template, order = variants[(turn + pair) % len(variants)]
        name = f"candidate-{len(chosen) + 1:03d}"
        try:
            chosen.append(
                recipe.choose(task, split, name, seed + 1 + attempt, order, template)
            )
        except FwcError as error:
            refused[label] = str(error)
    if not chosen:
        raise FwcError(f"no candidate can be chosen: {next(iter(refused.values()))}")
    return chosen, [f"{label}: {reason}" for label, reason in refused.items()]


TUNED = "tuned"
FORMAT = "fwc-llm-tuning/1"
FIXED = (ZERO, BALANCED)  # arms that candidates are compared with
_POOL = "pool "  # prefix of the arms that ask about pool rows
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
    tuning: Json = field(default_factory=dict)
    result: Result | None = None

    @property
    def front(self) -> list[Json]:
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
    """A planned tuning; `arms` are zero-shot, balanced, then the candidates.

    The plan of `job` asks about all pool rows with all arms.
    """

    job: Job
    folder: RunFolder
    described: Json
    goal: Goal
    pool: Pool
    arms: dict[str, Candidate]
    show: Any
    cancel_batch: bool

    @property
    def candidates(self) -> list[str]:
        return [name for name in self.arms if name not in FIXED]

    @property
    def schedule(self) -> list[tuple[int, int]]:
        return list(halving.schedule(len(self.candidates), len(self.pool.rows)))

    def ask_candidates(self) -> dict[str, Floats]:
        """Each arm's answers about the first rows of the pool, from successive halving."""
        budget = self.job.budget()
        self.job.preflight()
        begun = (self.folder.path / FILE_NAME).is_file()
        if not begun:
            self.folder.create()
        plan = self.job.plan
        stated = plan.settings.stated
        with Journal(self.folder.path, plan.task.spellings, stated) as journal:
            if begun and (len(journal) or batches_under_way(self.folder.path)):
                self._check_same()
            else:
                self.folder.write_json(FILE_NAME, self.described)
            ask = partial(self._ask, journal, budget)
            return halving.successive_halving(
                self.candidates, self.pool, self.goal, ask, self.schedule
            )

    def _check_same(self) -> None:
        """`FwcError` if the folder has replies of another tuning."""
        before = self.folder.read_json(FILE_NAME)
        for name, value in self.described.items():
            if before.get(name) != value:
                raise FwcError(
                    f"{self.folder.path} holds another tuning ({name} differs): repeat its "
                    f"options, or name a new folder with --out"
                )

    def _ask(
        self, journal: Journal, budget: Budget | None, names: Iterable[str], k: int
    ) -> dict[str, Floats]:
        """The answers (k,) to the first k pool rows, 1, 0 or NaN, by candidate."""
        plan = self._plan(names, self.pool.rows.iloc[:k])
        watched = [f"{_POOL}{name}" for name in FIXED]
        with self.show.asking(plan.n_calls) as state:
            outcome = self.job.ask(
                plan, journal, budget, state, self.cancel_batch, watched
            )
        if outcome.stopped or outcome.errors:
            why = outcome.stopped or f"{outcome.errors} questions have no reply"
            again = (
                f"the same command with --out {in_shell(self.folder.path)} continues"
            )
            raise IncompleteRunError(f"tuning is not complete: {why}; {again}")
        replies = Replies(journal)
        found = defaultdict[str, list[float]](list)
        for question in plan.questions():
            name = question["arm"].removeprefix(_POOL)
            found[name].append(CODES[replies.row(question)["answer"]])
        return {name: np.array(answers) for name, answers in found.items()}

    def _plan(self, names: Iterable[str], rows: "pd.DataFrame") -> Plan:
        """The questions about pool rows with these arms."""
        plan = self.job.plan
        (repeat,) = plan.repeats
        by_name = {arm.source: arm for arm in plan.arms}
        return replace(
            plan,
            arms=tuple(by_name[name] for name in names),
            repeats=(replace(repeat, split=replace(repeat.split, test=rows)),),
        )

    def conclude(self, answers: Mapping[str, Floats], split: Split) -> Tuned:
        """Choose the winner, write the files, and test the winner on `split`."""
        with self.show.working("comparing the candidates by their answers"):
            measured = {
                name: self.pool.measure(self.goal, yes) for name, yes in answers.items()
            }
            winner, reached, verdict = self._choose(answers, measured)
        best_first = sorted(
            measured,
            key=lambda name: (
                -measured[name].rows,
                self.goal.shortfall(measured[name].metric),
            ),
        )
        candidate = self.arms[winner or ZERO]
        tuning = {
            **self.described,
            "verdict": verdict,
            "reached": reached,
            "winner": winner,
            "template": candidate.template,
            "calls": sum(map(len, answers.values())),
            "front": [self._line(name, measured, winner) for name in best_first],
        }
        self.folder.write_json(FILE_NAME, tuning)
        shots = result = None
        if winner is not None:
            shots = candidate.shots
            save_shots(shots, self.folder.path / "shots.json", force=True)
            plan = self._test_plan(candidate, split)
            job = replace(self.job, plan=plan)
            with self.show.asking(plan.n_calls) as state:
                result = job.run(self.folder.path, state, self.cancel_batch)
        return Tuned(
            self.folder.path,
            verdict,
            reached,
            shots,
            candidate.template,
            tuning,
            result,
        )

    def _choose(
        self, answers: Mapping[str, Floats], measured: Mapping[str, Measured]
    ) -> tuple[str | None, bool, str]:
        """(name of the winner or None, whether it reaches the target, verdict)."""
        names = [name for name in self.arms if name != ZERO]
        tests = halving.compared_with_zero(answers, names, self.goal, self.pool)
        rows = len(self.pool.rows)
        finalists = {
            name: measured[name] for name in names if measured[name].rows == rows
        }
        complete = [tests[name] for name in finalists]
        if not any(halving.better(test, self.goal) for test in complete):
            return None, False, self._nothing_chosen(complete)
        winner, reached = halving.ranked(finalists, self.goal)[0]
        return winner, reached, self._verdict(winner, reached, finalists)

    def _nothing_chosen(self, tests: Sequence[ComparedArms]) -> str:
        """The sentence on a choice of nothing, with the gains that would have been seen."""
        rows = len(self.pool.rows)
        verdict = (
            f"Nothing chosen: on {rows:,} rows no candidate beat zero-shot clearly. "
        )
        gains = halving.smallest_gains(tests, self.goal)
        if gains is None:
            return f"{verdict}None changed an answer"
        of_metric, of_accuracy = (100 * gain for gain in gains)
        verdict += (
            f"Gains under about {of_metric:.0f} points of {TARGETS[self.goal.metric]} or "
            f"{of_accuracy:.0f} points of accuracy cannot be seen"
        )
        more = 4 * rows  # for gains half as large
        if more <= self.job.plan.repeats[0].split.candidates.sum():
            verdict += f"; try --rows {more}, which shows gains half as large"
        return spoken(verdict)

    def _line(
        self, name: str, measured: Mapping[str, Measured], winner: str | None
    ) -> Json:
        """A candidate as in tuning.json."""
        of = measured[name]
        loss, loss_interval = self._loss(of, measured[BALANCED])
        line = {
            **self.arms[name].as_json(),
            **of._asdict(),
            "dropped": of.rows < len(self.pool.rows),
            "loss": loss,
            "loss_interval": loss_interval,
            "chosen": name == winner,
        }
        del line["estimates"]
        return dict(plain(line))

    def _loss(self, of: Measured, balanced: Measured) -> tuple[float, Interval]:
        """The loss of accuracy against balanced on the same rows, with limits."""
        answers = balanced.estimates.sample.answer[: of.rows]
        reference = self.pool.measure(self.goal, answers)
        both = (of.estimates, reference.estimates)
        test = compare(both, metrics=("accuracy",))["accuracy"]
        return reference.accuracy - of.accuracy, test.decisive

    def _verdict(
        self, winner: str, reached: bool, finalists: Mapping[str, Measured]
    ) -> str:
        best = finalists[winner]
        kind = "balanced examples"
        if winner != BALANCED:
            kind = f"{kind_words(self.arms[winner].recipe.kind)} ({winner})"
        how = "reaches the target"
        if not reached:
            how = (
                "is nearest to the target of those within the allowed loss, and none of these "
                "reaches it"
            )
        loss, interval = self._loss(best, finalists[BALANCED])
        side, sign = ("below", 100) if loss >= 0 else ("above", -100)
        low, high = sorted(sign * end for end in interval)
        metric = BY_KEY[self.goal.metric]
        value = number(best.metric, metric.digits, metric.scale)
        accuracy = number(best.accuracy, 1, 100)
        return (
            f"{kind} {how}, by answers to {best.rows} pool rows ({self.goal.words}): "
            f"{metric.title} {value} at {accuracy} % accuracy, {sign * loss:.1f} points {side} "
            f"balanced ({number(low, 1)} to {number(high, 1)})"
        )

    def _test_plan(self, winner: Candidate, split: Split) -> Plan:
        """The plan of the test: the winner, zero-shot, balanced and FWC on the test rows."""
        arms = (replace(winner.shots, strategy=TUNED), ZERO, BALANCED, "fwc")
        plan = self.job.plan
        settings = plan.settings.updated(template=winner.template, templates=())
        with self.show.working("choosing the examples of the test") as step:
            return make_plan(plan.task, arms, settings, progress=step, split=split)

    def forecast(self, split: Split) -> Forecast:
        """Forecast the largest possible use of candidates and test: requests, tokens, cost."""
        prompts = {call.arm: str(call.messages) for call in self.job.plan.first_calls}
        longest = sorted(
            self.candidates, key=lambda name: -len(prompts[f"{_POOL}{name}"])
        )
        plans = [self._test_plan(self.arms[longest[0]], split)]
        done = 0
        for left, k in self.schedule:
            rows = self.pool.rows.iloc[done:k]
            plans.append(self._plan((*FIXED, *longest[:left]), rows))
            done = k
        calls = chain.from_iterable(plan.calls() for plan in plans)
        n = sum(plan.n_calls for plan in plans)
        return forecast(self.job.model, self.job.client, calls, n, self.job.price)


@checked
def tune(
    task: str | Path | Task,
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
    answer_format: AnswerFormat = "word",
    client: Client | None = None,
    data_dir: str | Path | None = None,
    cancel_batch: bool = False,
    dry_run: bool = False,
    progress: bool | None = None,
    display: Any = None,
    **options: "Unpack[ClientKeywords]",
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
    zero-shot, balanced and FWC in the same template set.

    `client` has the options of the service; they may also be passed by name. `api` is its protocol
    ("chat"; "decisions" or "systemone" for decision models), `answer_format` as in `evaluate`.
    `cancel_batch` cancels the folder's
    pending batches and sends their requests live.

    All files are written to `out`, by default ./runs/<time>-<task>-<model>; the winner is
    shots.json. The same call with the folder of an interrupted tuning continues that tuning.
    `dry_run` sends and writes nothing; `verdict` then has the largest number of requests and their
    cost.

    Errors: `FwcError` for a target outside its range, a negative loss, and too few rows; also those
    of `evaluate`.
    """
    (client,) = split_options(tune, options, Client() if client is None else client)
    sizes: list[int] = []
    if isinstance(m, Sequence):
        sizes = list(m)
    elif m is not None:
        sizes = [int(m)]
    goal = halving.read_goal(target_dp, target, max_loss)
    if candidates < 1:
        raise FwcError(f"candidates is {candidates}: give a whole number from 1 up")
    for order in orders or ():
        check_order(order)
    templates = list(templates or (Settings(api=api).template,))
    chosen: Json = {
        "m": sizes[0] if sizes else None,
        "n_test": n_test,
        "base_parity": "none" if base_parity is None else base_parity,
    }
    settings = Settings(
        seed=seed,
        template=templates[0],
        templates=tuple(templates),  # which are all checked before any request
        api=api,
        answer_format=answer_format,
        **{
            name: value for name, value in chosen.items() if value not in (None, "task")
        },
    )
    show = display or choose_progress(progress)
    with show.working("reading the table") as step:
        # The default of m is that of arms with examples.
        arms = (ZERO,) if sizes else FIXED
        job = prepare(task, model, arms, settings, client, data_dir, on_step=step)
        table = job.plan.task
        settings = job.plan.settings
        if traits(job.model).reference:
            raise FwcError(
                f"{job.model.name} reads no prompt, so there is nothing to tune: name a language "
                f"model"
            )
        pool_rows, split = _draw_pool(job.plan, rows)
        sizes = sizes or [settings.m]
        free = int(split.candidates.sum())
        if max(sizes) > free:
            raise FwcError(
                f"m is {max(sizes)}, but only {free} rows may become examples: lower --m"
            )
        all_arms = {
            name: Recipe(name, name, sizes[0]).choose(
                table, split, name, seed, "given", settings.template
            )
            for name in FIXED
        }
        tried, refused = choose_candidates(
            table, split, candidates, sizes, templates, orders, seed, strategies, step
        )
        all_arms |= {candidate.name: candidate for candidate in tried}
    for line in refused:
        tell(line)
    described = {
        "format": FORMAT,
        "task": table.name,
        "fingerprint": table.fingerprint,
        "model": job.model.name,
        "simulated": traits(job.model).simulated or table.simulated,
        "parameters": dict(job.model.parameters),
        "answer_format": answer_format,
        "goal": asdict(goal),
        "rows": len(pool_rows),
        "n_test": settings.n_test,
        "base_parity": settings.base_parity,
        "seed": seed,
        "candidates": [candidate.as_json() for candidate in tried],
    }
    pool = Pool.of(table, pool_rows)
    asked = [
        Arm(f"{_POOL}{name}", name, template=arm.template)
        for name, arm in all_arms.items()
    ]
    repeat = replace(
        job.plan.repeats[0],
        split=replace(split, test=pool.rows),
        shots={arm.name: all_arms[arm.source].shots for arm in asked},
    )
    folder = RunFolder.for_run(out, table.name, job.model.name)
    tuning = _Tuning(
        replace(job, plan=replace(job.plan, arms=tuple(asked), repeats=(repeat,))),
        folder,
        json.loads(json.dumps(described, default=str)),
        goal,
        pool,
        all_arms,
        show,
        cancel_batch,
    )
    if dry_run:
        found = tuning.forecast(split)
        verdict = f"at most {'; '.join(found.lines(job.why_unpriced, client.batch))}"
        content = {**tuning.described, "forecast": found.plain(), "front": []}
        return Tuned(folder.path, verdict, False, None, templates[0], content)
    try:
        return tuning.conclude(tuning.ask_candidates(), split)
    except KeyboardInterrupt:
        raise interrupted(folder.path) from None


def _draw_pool(plan: Plan, rows: int | None) -> tuple["pd.DataFrame", Split]:
    """Draw pool rows that compare candidates, by default as many as test rows."""
    table = plan.task
    settings = plan.settings
    parity = settings.base_parity
    count = settings.n_test if rows is None else rows
    fewest = _FEWEST_A_GROUP * len(table.groups)
    if count < fewest:
        least = (
            f"comparing candidates takes at least {fewest}, {_FEWEST_A_GROUP} per group"
        )
        raise FwcError(f"--rows is {count}: {least}")
    nearest = nearest_whole(table.groups, count, parity)
    if nearest != count:
        tell(
            f"--rows {count} does not divide evenly into cells: {nearest} rows are drawn"
        )
    try:
        return hold_out(table, plan.repeats[0].split, nearest, parity, settings.seed)
    except FwcError as error:
        raise FwcError(f"--rows: {error}") from None
