"""Asking until decided, beside a fixed sample, simulated: what it asks, decides and gets wrong.

    python -m evals.stopping --record

A path is a run of at most 2,000 questions, which ends at the look that decides `dp_gap > 0.1`, or the
gate that is named. At the bound whoever fails or passes is wrong in one of the gate's two senses (>
and ≥): each may happen in 2.5 % of paths.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from evals.frames import from_frame
from evals.record import command_line, markdown, write
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.intervals import Z
from fwc_llm.metrics.prediction_powered import FeatureTable, assisted_answers
from fwc_llm.metrics.sampling_design import SamplingDesign
from fwc_llm.metrics.sequential import (
    GAPS,
    INFLATION,
    GroupSequential,
    equal_looks,
    simulate,
)
from fwc_llm.metrics.variance import ArmArrays
from fwc_llm.runs.splits import interleave_cells

MOST = 2_000
BOUND = 0.1
TABLE = 6_000
DP = "dp_gap"
EO = "eo_gap"
RATIO = "dp_ratio"
Draw = Callable[[np.random.Generator], tuple[ArmArrays, np.ndarray]]


@dataclass(frozen=True)
class World:
    """What is drawn for a path: the answers to all questions that it may ask, in their order,
    and after how many of them it looks; the metric of the gate, and its bound, at which the
    truth lies.
    """

    name: str
    draw: Draw
    metric: str = DP
    bound: float = BOUND


def rows(
    rng: np.random.Generator,
    rates: tuple[float, ...] = (0.45, 0.55),
    base: float = 0.5,
    eo: float = 0.0,
) -> tuple[ArmArrays, np.ndarray]:
    """Rows as they fall, of groups of equal size; the second group's true positive rate is `eo`
    lower.
    """
    group = rng.integers(0, len(rates), MOST)
    label = (rng.random(MOST) < base).astype(int)
    p = np.array(rates)[group] + (
        0.2 * (2 * label - 1) - eo * label * (group == 1) if eo else 0.0
    )
    answer = (rng.random(MOST) < p).astype(float)
    none = np.zeros(MOST, dtype=np.int64)
    sample = ArmArrays(answer, label, group, none, np.arange(MOST), len(rates))
    return sample, np.array(equal_looks(MOST))


def weighted(rng: np.random.Generator) -> tuple[ArmArrays, np.ndarray]:
    """Sampling weights whose logarithm has a standard deviation of 1."""
    sample, looks = rows(rng)
    return replace(sample, weight=rng.lognormal(0, 1, MOST)), looks


def unread(rng: np.random.Generator) -> tuple[ArmArrays, np.ndarray]:
    """Of the second group's answers yes one in five is no answer: the gap that is read is near
    0.
    """
    sample, looks = rows(rng)
    lost = (sample.group == 1) & (sample.answer == 1) & (rng.random(MOST) < 0.2)
    return replace(sample, answer=np.where(lost, np.nan, sample.answer)), looks


def designed(rng: np.random.Generator) -> tuple[ArmArrays, np.ndarray]:
    """A base parity of 0: every beginning has the same shares of group and label."""
    group = np.repeat([0, 1], MOST // 2)
    label = np.tile([0, 1], MOST // 2)
    order = interleave_cells(2 * group + label)
    sample, looks = rows(rng)
    p = 0.2 + 0.5 * label + 0.1 * group
    answer = (rng.random(MOST) < p) * 1.0
    design = SamplingDesign(labels_fixed=True)
    return replace(
        sample,
        answer=answer[order],
        label=label[order],
        group=group[order],
        design=design,
    ), looks


def people(
    rng: np.random.Generator, number: int = 400, spread: float = 1.0
) -> tuple[ArmArrays, np.ndarray]:
    """People of unequal size, whose answers correlate by 0.5; those of many rows get a yes more
    often.
    """
    size = np.ceil(3 * rng.lognormal(0, spread, number)).astype(int)
    group = rng.integers(0, 2, number)
    mean = 0.45 + 0.1 * group + 0.1 * np.where(size > np.median(size), 1, -1)
    chance = rng.beta(mean, 1 - mean)  # correlation 1 / (1 + 1)
    person = np.repeat(np.arange(number), size)
    answer = (rng.random(len(person)) < chance[person]).astype(float)
    none = np.zeros(len(person), dtype=np.int64)
    sample = ArmArrays(
        answer, none, group[person], none, np.arange(len(person)), 2, cluster=person
    )
    return sample, np.cumsum(size)[np.array(equal_looks(number)) - 1]


COUNTED = {  # rates, and shares of the rows
    "2 groups, near one half": ((0.45, 0.55), (1, 1)),
    "2 groups, near 0": ((0.001, 0.101), (1, 1)),
    "2 groups, one of 5 % of the rows": ((0.45, 0.55), (0.05, 0.95)),
    "5 groups, all apart": ((0.45, 0.475, 0.5, 0.525, 0.55), (1,) * 5),
    "5 groups, four pairs at the bound": ((0.45, 0.45, 0.5, 0.55, 0.55), (1,) * 5),
}
WORLDS = (
    World(
        "EO, 10 % have the label yes", lambda rng: rows(rng, (0.5, 0.5), 0.1, 0.1), EO
    ),
    World("DP ratio of 0.8", lambda rng: rows(rng, (0.4, 0.5)), RATIO, 0.8),
    World("base parity", designed),
    World("--weight", weighted),
    World("--unread worst, 20 % of one group's yes", unread),
    World("--cluster, 400 people", people),
    World("--cluster, 100 people, very unequal", lambda rng: people(rng, 100, 1.5)),
)


def path(world: World, rng: np.random.Generator) -> tuple[int, float]:
    """Return how many rows a run asks, and whether it failed the gate (1), passed (0) or neither
    (NaN).
    """
    sample, looks = world.draw(rng)
    design = replace(sample.design, sequential=GroupSequential(tuple(looks.tolist())))
    columns = "answer", "label", "group", "repeat", "row", "weight", "cluster"
    for asked in looks.tolist():
        arrays = {name: getattr(sample, name) for name in columns}
        part: Any = {
            name: None if values is None else values[:asked]
            for name, values in arrays.items()
        }
        low, high = ArmEstimates(replace(sample, **part, design=design))[
            world.metric
        ].decisive
        if low > world.bound or high <= world.bound:
            return asked, float(low > world.bound)
    return int(looks[-1]), np.nan


def assisted(gap: float, paths: int) -> dict[str, Any]:
    """Return what becomes of `dp_gap > 0.1` with a predictor that the package learns at every look."""
    groups = np.array(["a", "b"])
    level = np.arange(TABLE) % 2
    asked = np.zeros(paths)
    found = np.full(paths, np.nan)
    for number in range(paths):
        rng = np.random.default_rng([number, round(1000 * gap)])
        x, slope = (
            rng.normal(size=(TABLE, 3)),
            1.78,
        )  # a probit of which 55 % is explained
        middle = ndtri(0.5 + gap * (level - 0.5)) * np.sqrt(1 + slope**2)
        answer = np.where(
            rng.random(TABLE) < ndtr(middle + slope * x[:, 0]), "yes", "no"
        )
        frame = pd.DataFrame(
            {
                "row": np.arange(TABLE).astype(str),
                "group": groups[level],
                "answer": answer,
            }
        )
        frame["label"] = "no"
        features = pd.DataFrame(x, columns=["x", "y", "z"])
        table = FeatureTable(
            pd.Index(frame["row"]), groups[level], np.zeros(TABLE, dtype=int), features
        )
        for rows_asked in equal_looks(MOST):
            run = from_frame(frame.iloc[:rows_asked], "group")
            run = replace(
                run,
                design=replace(
                    run.design, sequential=GroupSequential(equal_looks(MOST))
                ),
            )
            low, high = ArmEstimates(assisted_answers(run, table).samples["answers"])[
                DP
            ].decisive
            asked[number] = rows_asked
            if low > BOUND or high <= BOUND:
                found[number] = low > BOUND
                break
    return _summary(asked, found)


def _summary(asked: np.ndarray, found: np.ndarray) -> dict[str, Any]:
    return {
        "paths": len(found),
        "failed": float((found == 1).mean()),
        "passed": float((found == 0).mean()),
        "rows": round(float(asked.mean())),
    }


def inflation(power: float, paths: int = 400_000) -> tuple[float, float]:
    """Return, of Brownian paths at ten looks, the share that ever crosses without a drift, and N
    over the fixed sample of equal error and `power`.
    """
    design = GroupSequential(equal_looks(MOST))
    share = np.arange(1, 11) / 10
    path = np.random.default_rng(0).normal(size=(paths, 10)).cumsum(1) * np.sqrt(0.1)
    bound = np.array([design.critical_value(rows) for rows in design.rows]) * np.sqrt(
        share
    )

    def crossed(drift: float) -> float:
        return float((np.abs(path + drift * share) > bound).any(1).mean())

    drift = brentq(lambda drift: crossed(drift) - power, 0.5, 8.0)
    return crossed(0.0), (drift / (Z + float(ndtri(power)))) ** 2


def measured(paths: int, assisted_paths: int) -> dict[str, Any]:
    """Return everything that the record has."""
    most = 20 * paths
    design = GroupSequential(equal_looks(MOST))
    wrong = {
        name: _summary(*simulate(*of, (BOUND, BOUND), design, most))
        for name, of in COUNTED.items()
    }
    for number, world in enumerate(WORLDS):
        rng = np.random.default_rng(number)
        asked, found = np.array([path(world, rng) for _ in range(paths)]).T
        wrong[world.name] = _summary(asked, found)
    fixed = GroupSequential((round(MOST / INFLATION),))
    saved = {}
    for gap in (*GAPS, 0.15):
        rates = (0.5 - gap / 2, 0.5 + gap / 2)
        both = (BOUND, BOUND)
        runs = [simulate(rates, (1, 1), both, one, most) for one in (design, fixed)]
        saved[f"{gap:g}"] = [
            [round(float(n.mean())), float(np.mean(above >= 0))] for n, above in runs
        ]
    learnt = {
        f"{gap:g}": assisted(gap, assisted_paths)
        for gap in (BOUND, 0.0, 0.2)
        if assisted_paths
    }
    brownian = {f"{power:g}": inflation(power) for power in (0.5, 0.8, 0.9, 0.99)}
    return {
        "paths": paths,
        "wrong": wrong,
        "saved": saved,
        "assisted": learnt,
        "inflation": brownian,
    }


def as_markdown(record: dict[str, Any]) -> str:
    """Return the record as a page."""
    paths = record["paths"]
    times = [
        (power, f"{times:.3f}") for power, (_, times) in record["inflation"].items()
    ]
    saved = [
        [
            gap,
            *(
                part
                for rows, decided in designs
                for part in (f"{rows:,}", f"{decided:.1%}")
            ),
        ]
        for gap, designs in sorted(
            record["saved"].items(), key=lambda item: float(item[0])
        )
    ]
    head = ["true gap", "until decided", "decided", "fixed sample", "decided"]
    wrong = [
        [name, f"{of['paths']:,}", f"{of['failed']:.2%}", f"{of['passed']:.2%}"]
        for name, of in record["wrong"].items()
    ]
    page = f"""# Until decided, beside a fixed sample

Simulated by `{record["command"]}` in {record["minutes"]:.0f} minutes, seeds fixed. Ten looks, at most \
{MOST:,} questions an arm.

## What it costs

Of 400,000 Brownian paths without a drift {record["inflation"]["0.8"][0]:.4f} ever cross (0.05 is spent). \
The most that is asked, over the fixed sample of equal error and power:

{markdown(["power", "times"], times)}
`dp_gap > 0.1`, two groups, rates near one half, {20 * paths:,} paths; rows on average:

{markdown(head, saved)}
## Wrong stops: paths whose truth lies at the bound

At most 2.5 % either way, ± {1.96 * np.sqrt(0.025 * 0.975 / paths):.1%} by simulation where {paths:,} paths \
go through the package's estimates at every look. Several groups err less: only pairs at the bound can.

{markdown(["world", "paths", "failed", "passed"], wrong)}"""
    learnt = [
        [
            gap,
            of["paths"],
            f"{of['failed']:.1%}",
            f"{of['passed']:.1%}",
            f"{of['rows']:,}",
        ]
        for gap, of in record["assisted"].items()
    ]
    if learnt:
        page += (
            f"\n## With `--assist`: a predictor learnt at every look, from a table of {TABLE:,} "
            f"rows\n\n"
        )
        page += markdown(
            ["true gap", "paths", "failed", "passed", "rows asked"], learnt
        )
    return page


def main() -> None:
    """Measure, print, and with `--record` write evals/results/stopping.md and .json."""
    parser = command_line(__doc__)
    parser.add_argument("--paths", type=int, default=1_000)
    parser.add_argument("--assisted", type=int, default=100, metavar="N")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    begun = time.monotonic()
    command = "python -m evals.stopping"
    record = measured(options.paths, options.assisted)
    for name in ("paths", "assisted"):
        if getattr(options, name) != parser.get_default(name):
            command += f" --{name} {getattr(options, name)}"
    record |= {
        "command": command + " --record" * options.record,
        "minutes": (time.monotonic() - begun) / 60,
    }
    page = as_markdown(record)
    print(page)
    if options.record:
        write("stopping", record, page)


if __name__ == "__main__":
    main()
