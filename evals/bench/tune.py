"""Tuning against FWC, and racing against exhaustive search, with the surrogate on Adult (SIMULATED).

    python -m evals.bench.tune           # 20 seeds; --seeds 2 for a look

A seed draws 200 pool rows, 40 candidates and 400 test rows at base parity 0.5. The target is a DP gap of
0.25, the limit 2 points of accuracy below balanced, about what FWC loses. The goal: against FWC's 16
examples a gap lower by 0.03 or more at no lower accuracy, with at most half the calls of exhaustive search at
the same result. Candidates are drawn and none is computed, so that a seed takes seconds. Writes
evals/results/tune.{json,md}.
"""

import argparse
import json
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from fwc_llm.evaluation.tuning.candidates import Candidate, choose_candidates
from fwc_llm.evaluation.tuning.goal import Floats, Goal, Measured, measure
from fwc_llm.evaluation.tuning.race import AGAIN, BALANCED, ROUNDS, ZERO, Pool, choose, race, soft_measures
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.prompts import Prompt
from fwc_llm.runs.splits import draw_split, hold_out
from fwc_llm.shots import select_shots
from fwc_llm.shots.base import Shots
from fwc_llm.tasks import Task, load_task

RESULTS = Path(__file__).resolve().parents[1] / "results"
COMMAND = "python -m evals.bench.tune"
GOAL = Goal("dp", 0.25, 0.02)
ROWS, CANDIDATES, N_TEST, M, PARITY = 200, 40, 400, 16, 0.5
STRATEGIES = ("strata", "balanced", "random", "minority")
EXHAUSTIVE = ((1.0, 1.0),)


class Field:
    """The candidates of one seed, and the surrogate's answers to any rows under any of them."""

    def __init__(self, task: Task, seed: int) -> None:
        split = draw_split(task, N_TEST, PARITY, seed)
        rows, split = hold_out(task, split, ROWS, PARITY, seed)
        self.pool, self.test = Pool.of(task, rows), Pool.of(task, split.test)
        found, _ = choose_candidates(task, split, CANDIDATES, (M,), ("default",), None, seed, STRATEGIES)
        self.candidates: dict[str, Candidate] = {one.name: one for one in found}
        self.shots: dict[str, Shots] = {name: one.shots for name, one in self.candidates.items()}
        for name in (ZERO, BALANCED, "fwc"):
            self.shots[name] = select_shots(
                task, name, M, seed=seed, pool=split.pool, candidates=split.candidates, progress=False
            )
        self.shots[AGAIN] = self.shots[ZERO]
        self.task = task
        self.p_yes = cache(self._p_yes)

    def _p_yes(self, name: str, where: str) -> Floats:
        """P(yes) of all rows of `pool` or `test` under one candidate."""
        model, prompt = Surrogate(), Prompt(self.task, self.shots[name])
        rows: Any = getattr(self, where).rows.to_dict("records")
        return np.array([model.p_yes(prompt.build(row)) for row in rows])

    def ask(self, names: Iterable[str], k: int) -> dict[str, tuple[Floats, Floats]]:
        """The answers to the first k pool rows."""
        soft = {name: self.p_yes(name, "pool")[:k] for name in names}
        return {name: ((p > 0.5).astype(float), p) for name, p in soft.items()}

    def tested(self, name: str) -> Measured:
        """The measures of one candidate on the test rows."""
        yes = (self.p_yes(name, "test") > 0.5).astype(float)
        return measure(GOAL, yes, self.test.labels, self.test.groups)


def one_seed(task: Task, seed: int) -> dict[str, Any]:
    """What tuning finds by racing and by exhaustive search, tested beside FWC."""
    field = Field(task, seed)
    found: dict[str, Any] = {"seed": seed}
    for how, rounds in (("raced", ROUNDS), ("exhaustive", EXHAUSTIVE)):
        standing = race(list(field.candidates), field.pool, GOAL, field.ask, rounds)
        measured = {name: one.measured(GOAL, field.pool) for name, one in standing.items()}
        left = [name for name in field.candidates if standing[name].dropped_after is None]
        finalists = {name: measured[name] for name in (*left, BALANCED)}
        soft = soft_measures(standing, finalists, GOAL, field.pool)
        winner, reached = choose(finalists, GOAL, measured[BALANCED], soft)
        kind = field.candidates[winner].recipe.label if winner in field.candidates else winner
        found["balanced_pool"] = _pair(measured[BALANCED])
        found[how] = {
            "winner": winner, "kind": kind, "reached": reached,
            "calls": sum(len(one.hard) for one in standing.values()),
            "pool": _pair(measured[winner]), "test": _pair(field.tested(winner)),
        }  # fmt: skip
    found |= {name: _pair(field.tested(name)) for name in (ZERO, BALANCED, "fwc")}
    return found


def _pair(one: Measured) -> dict[str, float]:
    return {"gap": round(one.metric, 4), "accuracy": round(one.accuracy, 4)}


def summary(seeds: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the seeds, and the paired differences with their standard errors."""

    def differences(how: str, metric: str, other: str) -> dict[str, float]:
        values = [
            one[how]["test"][metric] - (one[other]["test"] if "test" in one[other] else one[other])[metric]
            for one in seeds
        ]
        error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
        return {"mean": fmean(values), "error": error}

    shares = [one["raced"]["calls"] / one["exhaustive"]["calls"] for one in seeds]
    return {
        "against_fwc": {metric: differences("raced", metric, "fwc") for metric in ("gap", "accuracy")},
        "against_exhaustive": {
            metric: differences("raced", metric, "exhaustive") for metric in ("gap", "accuracy")
        },
        "optimism": {
            metric: fmean(
                (one["raced"]["test"][metric] - one[BALANCED][metric])
                - (one["raced"]["pool"][metric] - one["balanced_pool"][metric])
                for one in seeds
            )
            for metric in ("gap", "accuracy")
        },
        "share_of_calls": fmean(shares),
        "same_winner": sum(one["raced"]["winner"] == one["exhaustive"]["winner"] for one in seeds),
        "arms": {
            name: {
                metric: fmean(
                    (one[name]["test"] if "test" in one[name] else one[name])[metric] for one in seeds
                )
                for metric in ("gap", "accuracy")
            }
            for name in (ZERO, BALANCED, "fwc", "raced", "exhaustive")
        },
    }


def markdown(report: dict[str, Any]) -> str:
    """The figures as a page."""
    found, n = report["summary"], len(report["seeds"])
    words = {ZERO: "zero-shot", BALANCED: "balanced", "fwc": "FWC", "raced": "tuned, raced",
             "exhaustive": "tuned, exhaustive"}  # fmt: skip
    lines = "\n".join(
        f"| {words[name]} | {one['gap']:.3f} | {100 * one['accuracy']:.1f} |"
        for name, one in found["arms"].items()
    )
    optimism = found["optimism"]
    return f"""# Tuning, measured with the surrogate on Adult (SIMULATED: no finding about a language model)

Made by `{report["command"]}`: {n} seeds, each with {ROWS} pool rows, {CANDIDATES} candidates of {M}
examples ({", ".join(STRATEGIES)}) and {N_TEST:,} test rows at base parity {PARITY:g}.
Target: a DP gap of {GOAL.target:g} within {100 * GOAL.max_loss:g} points of accuracy below balanced.
Means over the seeds, on the test rows:

| examples | DP gap | accuracy % |
|---|---:|---:|
{lines}

* Tuned against FWC, paired over seeds: {_difference(found["against_fwc"])}.
* Racing asks {found["share_of_calls"]:.0%} of the calls of exhaustive search and takes the same candidate in
  {found["same_winner"]} of {n} seeds. Its choice against that of exhaustive search:
  {_difference(found["against_exhaustive"])}.
* The optimism of choosing, as what the winner's distance from balanced changes between pool rows and test
  rows: DP gap {optimism["gap"]:+.3f}, accuracy
  {100 * optimism["accuracy"]:+.1f} points.
"""


def _difference(found: dict[str, dict[str, float]]) -> str:
    gap, accuracy = found["gap"], found["accuracy"]
    points = f"{100 * accuracy['mean']:+.1f} points (± {100 * accuracy['error']:.1f})"
    return f"DP gap {gap['mean']:+.3f} (± {gap['error']:.3f} standard error), accuracy {points}"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    task, began, seeds = load_task("adult"), time.monotonic(), []
    for seed in range(arguments.seeds):
        seeds.append(one_seed(task, seed))
        raced = seeds[-1]["raced"]
        print(f"seed {seed}: {raced['kind']}, {raced['test']}, FWC {seeds[-1]['fwc']}", flush=True)
    report = {
        "command": COMMAND, "simulated": True, "minutes": round((time.monotonic() - began) / 60, 1),
        "summary": summary(seeds), "seeds": seeds,
    }  # fmt: skip
    (arguments.out / "tune.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (arguments.out / "tune.md").write_text(markdown(report), encoding="utf-8")
    print(markdown(report))


if __name__ == "__main__":
    main()
