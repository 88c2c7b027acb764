"""Gates over replies without an answer that are missing in the worst way: how often they decide
wrongly.

    python -m evals.coverage.unread            # records evals/results/unread.md
    python -m evals.coverage.unread --quick    # few runs; records nothing

Answers are drawn from known rates. Then some are lost, as an adversary would choose them: *hidden*
makes a gap (or a difference of arms) look smaller than it is, so that a gate may pass wrongly,
*invented* makes it look larger, so that one may fail wrongly. The bound of the gate is the truth
itself, where errors are most frequent. Beside the decisions stand those of the answers that were
read alone (`--unread ignore`).
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from evals.record import RESULTS, command_line, markdown
from fwc_llm.gates import decide, parse_condition
from fwc_llm.metrics.run_answers import ArmAnswers, RunAnswers, as_names, one_name
from fwc_llm.metrics.sampling_design import SamplingDesign

MOST = 0.06  # of runs that decide wrongly, two standard errors aside


@dataclass(frozen=True)
class World:
    """Rates of yes (A, G) of arms and groups, the number of `rows`, and the share of answers at
    risk that are lost. Arms agree about half of the rows by luck. People have `people` rows
    each; `sets` of examples move the rates by `shift`. Half of the labels of each group are yes.
    """

    name: str
    rates: tuple[tuple[float, ...], ...]
    rows: int
    lost: float
    condition: str = "dp"
    people: int = 1
    sets: int = 1
    shift: float = 0.0

    def draw(self, rng: np.random.Generator, hidden: bool) -> RunAnswers:
        """Draw a run; `hidden`: the gap, or the second arm's advantage, looks smaller than it
        is.
        """
        groups = len(self.rates[0])
        arms = {}
        group = np.arange(self.rows) % groups
        person = np.arange(self.rows) // (groups * self.people)
        person = person * groups + group
        label = (np.arange(self.rows) // groups % 2).astype(np.int8)
        shared = rng.random(person.max() + 1)
        none = one_name("", self.rows)
        names = [f"g{place}" for place in range(groups)]
        for place, rates in enumerate(self.rates):
            moved = np.repeat(rng.normal(0, self.shift, self.sets), -(-self.rows // self.sets))[
                : self.rows
            ]
            chance = np.array(rates)[group] + moved
            luck = np.where(rng.random(len(shared)) < 0.5, shared, rng.random(len(shared)))
            if self.people > 1:
                draws = 0.5 * luck[person] + 0.5 * rng.random(self.rows)
            else:
                draws = luck[person]
            if self.people > 1:  # of two uniform variables the mean; its distribution is known
                draws = np.where(draws < 0.5, 2 * draws**2, 1 - 2 * (1 - draws) ** 2)
            yes = (draws < chance).astype(float)
            top = np.argmax(rates) if self.condition == "dp" else -1
            if self.condition == "dp":
                raises = np.where(group == top, yes, 1 - yes)
            else:
                raises = yes == label
            second = (
                place == len(self.rates) - 1
            )  # the first arm of two is lost the other way round
            at_risk = (raises == 1) == (hidden == second)
            answer = np.where(at_risk & (rng.random(self.rows) < self.lost), np.nan, yes)
            repeat = np.zeros(self.rows, np.int64)
            arms[f"a{place}"] = ArmAnswers(
                repeat,
                _texts(np.arange(self.rows)),
                none,
                _texts(group, "g"),
                label,
                answer,
                none,
                np.full(self.rows, np.nan),
                _texts(np.arange(self.rows) * self.sets // self.rows) if self.sets > 1 else none,
                cluster=_texts(person) if self.people > 1 else None,
            )
        return RunAnswers(arms, tuple(names), SamplingDesign(self.condition != "dp"))

    @property
    def truth(self) -> float:
        """The gap, or the difference of the arms' values."""
        rates = np.array(self.rates)
        if self.condition == "accuracy":
            return 0.0  # half of the labels are yes: every arm is right about half of the rows
        gaps = np.ptp(rates, axis=1)
        if len(rates) > 1:
            return float(gaps[-1] - gaps[0])
        return float(gaps[0])


def _texts(values: np.ndarray, prefix: str = "") -> "pd.Categorical[str]":
    return as_names([f"{prefix}{value}" for value in values])


WORLDS = (
    World("two groups, 3,000 rows", ((0.4, 0.6),), 3000, 0.15),
    World("two groups, 300 rows", ((0.4, 0.6),), 300, 0.15),
    World("two groups, 3,000 rows, much lost", ((0.4, 0.6),), 3000, 0.4),
    World("two groups, 300 rows, few lost", ((0.4, 0.6),), 300, 0.03),
    World("two groups, rates near 0", ((0.03, 0.10),), 600, 0.03),
    World("three groups", ((0.3, 0.45, 0.6),), 450, 0.1),
    World("people with 5 rows", ((0.4, 0.6),), 600, 0.15, people=5),
    World("8 sets of examples", ((0.4, 0.6),), 800, 0.15, sets=8, shift=0.05),
    World("two arms, DP gap", ((0.4, 0.6), (0.35, 0.65)), 400, 0.1),
    World("two arms, three groups", ((0.4, 0.5, 0.6), (0.35, 0.5, 0.65)), 450, 0.1),
    World("two arms, accuracy", ((0.4, 0.6), (0.5, 0.5)), 400, 0.1, condition="accuracy"),
    World("all read", ((0.4, 0.6),), 300, 0.0),
)


def measure(world: World, runs: int, seed: int = 0) -> dict[str, float]:
    """Return the shares of runs that pass and fail wrongly, and those by the read answers alone."""
    rng = np.random.default_rng(seed)
    if len(world.rates) > 1:
        arms = f"{world.condition}[a1] - {world.condition}[a0]"
    else:
        arms = world.condition
    counts = dict.fromkeys(("passed", "failed", "passed, ignored", "failed, ignored", "same"), 0.0)
    for hidden, wrong, bound in ((True, "passed", -1e-9), (False, "failed", 1e-9)):
        condition = parse_condition(f"{arms} > {world.truth + bound:.12f}")
        for _ in range(runs):
            made = world.draw(rng, hidden)
            read = replace(made, design=replace(made.design, unread="ignore"))
            (check,), (alone,) = decide(condition, made), decide(condition, read)
            counts[wrong] += (check.outcome == wrong) / runs
            counts[f"{wrong}, ignored"] += (alone.outcome == wrong) / runs
            counts["same"] += (check.outcome == alone.outcome) / (2 * runs)
    return counts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 when a gate decides wrongly too often."""
    parser = command_line(__doc__)
    parser.add_argument("--runs", type=int, default=500, help="runs a world and side")
    parser.add_argument("--quick", action="store_true", help="40 runs of each; records nothing")
    given = parser.parse_args(arguments)
    if given.quick:
        runs = 40
    else:
        runs = given.runs
    lines = list[list[str]]()
    worst = 0.0
    for world in WORLDS:
        found = measure(world, runs)
        lines.append([world.name, *(f"{share:.3f}" for share in found.values())])
        worst = max(worst, found["passed"], found["failed"])
    head = ["world", "passes wrongly", "fails wrongly", "passes, ignored", "fails, ignored", "same"]
    page = f"""# Gates over replies without an answer

Made by `python -m evals.coverage.unread --runs {runs}`, seed 0: {runs} runs of each world and side. The \
bound is the truth, and answers are lost in the worst way: every decision is wrong. Accepted are up to \
{MOST} of the runs (nominal 0.05), two standard errors aside. *Ignored*: the same gates by the answers that \
were read (`--unread ignore`). *Same*: runs in which both decide alike.

{markdown(head, lines)}"""
    print(page)
    if not given.quick:
        (RESULTS / "unread.md").write_text(page, encoding="utf-8")
    return int(worst > MOST + 2 * np.sqrt(0.05 * 0.95 / runs))


if __name__ == "__main__":
    sys.exit(main())
