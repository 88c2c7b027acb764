"""Every kind of parity constraint on random small instances, against HiGHS.

    python -m evals.bench.constraints [--instances 2000] [--record]

The peer writes the inner problem out, row by row, as a linear program. Some instances have rows of
other masses, ties, cells without a representative, or limits of 0. `--record` writes
evals/results/constraints.md.
"""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from evals.plans import plan_of
from evals.record import RESULTS, command_line, describe_machine, markdown
from fwc_llm.coreset.transport.inner_problem import Transport, fair_transport
from fwc_llm.coreset.transport.parity import imbalance, violation

_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class Instance(NamedTuple):
    """Costs (n, G), the target, what is asked of the levels, and the masses (n,) of the rows."""

    cost: np.ndarray
    target: np.ndarray
    limits: np.ndarray | None
    penalty: float | None
    mass: np.ndarray
    groups: np.ndarray | None = None

    def solve(self) -> Transport:
        """The plan of `fair_transport`."""
        outcomes = len(self.target)
        shape = self.cost.shape[1] // outcomes, outcomes
        terms = {
            "sample_weight": self.mass,
            "penalty": self.penalty,
            "groups": self.groups,
        }
        return fair_transport(self.cost, *shape, self.target, self.limits, **terms)  # type: ignore[arg-type]


class Errors(NamedTuple):
    """How far a plan is from HiGHS, its objective from its own bound and costs, and from the
    limits.
    """

    highs: float
    gap: float
    plan: float
    excess: float


def limits_of_levels(seed: int) -> Instance:
    """A limit for each level."""
    rng, cost, target, mass = _draw(seed)
    limits = rng.choice([0.0, 0.01, 0.1, 0.5, 0.9], cost.shape[1] // len(target))
    return Instance(cost, target, limits, None, mass)


def penalties(seed: int) -> Instance:
    """A penalty in the place of a limit."""
    rng, cost, target, mass = _draw(seed)
    if seed % 5 == 0:
        cost[:, rng.integers(cost.shape[1])] = np.inf
    return Instance(
        cost, target, None, float(rng.choice([0.0, 0.05, 0.1, 0.2, 0.5, 2.0])), mass
    )


def limits_of_attributes(seed: int) -> Instance:
    """Limits for each level of two attributes that are crossed; some crossings are empty, some
    cells bare.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 20))
    outcomes = int(rng.integers(2, 4))
    sizes = rng.integers(1, 4, 2)
    crossed = [
        (a, b) for a in range(sizes[0]) for b in range(sizes[1]) if rng.random() < 0.8
    ] or [(0, 0)]
    groups = np.array(
        [[pair[k] == v for pair in crossed] for k in (0, 1) for v in range(sizes[k])],
        float,
    )
    groups = groups[groups.any(axis=1)]
    cost = rng.random((n, len(crossed) * outcomes)).round(int(rng.integers(1, 9)))
    if seed % 5 == 0 and len(crossed) > 3:
        cost[:, rng.integers(cost.shape[1])] = np.inf
    target = rng.dirichlet(np.full(outcomes, 3.0))
    limits = rng.choice([0.0, 0.01, 0.1, 0.5, 0.9], len(groups))
    return Instance(
        cost,
        target,
        limits,
        None,
        rng.random(n) + 0.1 if seed % 2 else np.ones(n),
        groups,
    )


KINDS: dict[str, Callable[[int], Instance]] = {
    "a limit for each level": limits_of_levels,
    "a penalty": penalties,
    "limits of two attributes": limits_of_attributes,
}


def _draw(seed: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 14))
    levels = int(rng.integers(1, 4))
    outcomes = int(rng.integers(2, 5))
    cost = rng.random((n, levels * outcomes)).round(int(rng.integers(1, 9)))
    target = rng.dirichlet(np.full(outcomes, 3.0))
    return rng, cost, target, rng.random(n) + 0.1 if seed % 2 else np.ones(n)


def errors(instance: Instance) -> Errors:
    """Solve an instance by both."""
    found, (cost, target, limits, penalty, mass, groups) = instance.solve(), instance
    plan = plan_of(found).toarray()
    paid = float((plan * np.where(plan > 0, cost, 0.0)).sum())
    paid += (penalty or 0.0) * imbalance(plan.sum(axis=0), target)
    return Errors(
        abs(found.objective - by_highs(instance)),
        found.objective - found.lower_bound,
        max(
            abs(found.objective - paid),
            float(np.abs(plan.sum(axis=1) - mass / mass.sum()).max()),
        ),
        0.0
        if limits is None
        else max(0.0, violation(plan.sum(axis=0), target, limits, groups)),
    )


def by_highs(instance: Instance) -> float:
    """The optimum of the program as it is written: a row for every limit."""
    from scipy.optimize import linprog

    cost, target, limits, penalty, mass, groups = instance
    (n, cells), outcomes = cost.shape, len(target)
    if groups is None:
        groups = np.eye(cells // outcomes)
    rows = []
    slacks = 2 * len(groups) * outcomes
    for k, (group, y) in enumerate(product(range(len(groups)), range(outcomes))):
        level = groups[group].repeat(outcomes)
        own = np.tile(np.arange(outcomes) == y, groups.shape[1])
        if limits is None:
            limit = 0.0
        else:
            limit = limits[group]
        for sign in (1, -1):
            row = sign * level * (own - target[y] * (1 + sign * limit))
            slack = np.zeros(slacks)
            slack[2 * k + (sign < 0)] = -1.0 if limits is None else 0.0
            rows.append(np.append(np.tile(row, n), slack))
    solver: Any = linprog
    found = solver(
        np.append(
            np.where(np.isinf(cost), 0.0, cost), np.full(slacks, (penalty or 0.0) / 2)
        ),
        np.array(rows),
        np.zeros(len(rows)),
        np.hstack([np.kron(np.eye(n), np.ones(cells)), np.zeros((n, slacks))]),
        mass / mass.sum(),
        [(0, 0 if np.isinf(own) else None) for own in cost.ravel()]
        + [(0, None)] * slacks,
        method="highs",
        options=_TIGHT,
    )
    return float(found.fun)


def main() -> None:
    """Solve, print, and record if asked."""
    parser = command_line(__doc__)
    parser.add_argument("--instances", type=int, default=2000, help="of each kind")
    parser.add_argument("--record", action="store_true", help="write constraints.md")
    options = parser.parse_args()
    lines = []
    for name, draw in KINDS.items():
        worst = np.max(
            [errors(draw(seed)) for seed in range(options.instances)], axis=0
        )
        lines.append(
            [name, f"{options.instances:,}", *(f"{error:.0e}" for error in worst)]
        )
    table = markdown(
        ["constraint", "instances", "from HiGHS", "gap", "plan", "limits exceeded"],
        lines,
    )
    print(table)
    if options.record:
        command = f"python -m evals.bench.constraints --instances {options.instances} --record"
        page = f"""# Every kind of parity constraint against HiGHS

Made by `{command}` on {describe_machine("numpy", "scipy")}. The largest differences of random instances: \
between the objectives; between objective and lower bound; between the objective and the costs of the plan, \
or its rows' masses and their shares; and by how much a limit is exceeded.

{table}"""
        (RESULTS / "constraints.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
