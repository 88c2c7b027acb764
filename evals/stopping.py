"""What stopping at a verdict costs and risks, simulated: wrong stops at the bound, and questions saved.

    python -m evals.stopping --record

Paths are answers in the order asked, with the looks and limits of `eval --until-decided`, at most 2,000
questions an arm. Rates lie exactly at the bound of a gate: whoever fails or passes it there is wrong in one
of its two senses (> and ≥). Assisted paths have a predictor that explains 55 % of the variance of the
answers, cross-fitted weights, and 15,060 rows; `--fitted N` has N more whose predictor the package learns.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from fwc_llm.metrics.arm_estimates import estimate
from fwc_llm.metrics.audit_table import from_frame
from fwc_llm.metrics.confidence_sequences import MIN_ROWS_FIRST_LOOK, ConfidenceSequence
from fwc_llm.metrics.intervals import Z, wilson
from fwc_llm.metrics.prediction_powered import FOLDS, MIN_ROWS_OF_STRATUM, FeatureTable, assisted_samples

RESULTS = Path(__file__).resolve().parent / "results"
MOST, ROWS, EXPLAINED, AT_ONCE = 2_000, 15_060, 0.55, 500
BOUND = 0.1
_TABLE, _SLOPE = 6_000, 1.78  # rows, and a probit of which 55 % is explained
Floats = np.ndarray


@dataclass(frozen=True)
class World:
    """Rates of yes (G, 2) of each group's rows with label no and yes, gates, and the bound of those on gaps.

    `shares` (G,) are the groups' shares of the rows, equal without any; `base` is that of label yes. Gates on
    accuracy have its true value as bound.
    """

    name: str
    rates: tuple[tuple[float, float], ...]
    gates: tuple[str, ...] = ("dp",)
    bound: float = BOUND
    shares: tuple[float, ...] = ()
    base: float = 0.5

    @property
    def part(self) -> Floats:
        """The groups' shares (G,)."""
        return np.array(self.shares or [1 / len(self.rates)] * len(self.rates))

    @property
    def looks(self) -> list[int]:
        """After how many rows a run looks; a group that will have fewer than 30 is not waited for."""
        waited = self.part[self.part * MOST >= MIN_ROWS_FIRST_LOOK]
        return ConfidenceSequence(1, MOST).rows(int(np.ceil(MIN_ROWS_FIRST_LOOK / waited.min())))


def even(*rates: float) -> tuple[tuple[float, float], ...]:
    """Rates that do not depend on the label."""
    return tuple((rate, rate) for rate in rates)


AT_THE_BOUND = (
    World("2 groups, near one half", even(0.45, 0.55)),
    World("2 groups, near 0", even(0.001, 0.101)),
    World("2 groups, one of 5 % of the rows", even(0.45, 0.55), shares=(0.95, 0.05)),
    World("2 groups, one of 5 %, near 0", even(0.101, 0.001), shares=(0.95, 0.05)),
    World("5 groups, all apart", even(0.45, 0.475, 0.5, 0.525, 0.55)),
    World("5 groups, four pairs at the bound", even(0.45, 0.45, 0.5, 0.55, 0.55)),
    World("3 groups, one of 1 %, all judged", even(0.5, 0.5, 0.6), shares=(0.5, 0.49, 0.01)),
    World("2 groups, three gates at once", ((0.35, 0.7), (0.25, 0.6)), ("dp", "eo", "accuracy")),
    World("2 groups, EO, 10 % have the label yes", ((0.2, 0.9), (0.2, 0.8)), ("eo",), base=0.1),
    World("2 groups, EO, 3 %", ((0.2, 0.9), (0.2, 0.8)), ("eo",), base=0.03),
    World("accuracy of 0.99", ((0.01, 0.99), (0.01, 0.99)), ("accuracy",)),
    World("accuracy of 0.5", ((0.5, 0.5), (0.5, 0.5)), ("accuracy",)),
)
GAPS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)


def counted(world: World, paths: int, rng: np.random.Generator) -> Floats:
    """Return the counts (P, L, G, 2, 2) of answers no and yes by group and label at each look."""
    cells = np.outer(world.part, (1 - world.base, world.base))
    asked = np.stack(
        [rng.multinomial(n, cells.ravel(), paths) for n in np.diff(world.looks, prepend=0)], axis=1
    ).reshape(paths, -1, *cells.shape)
    yes = rng.binomial(asked, np.array(world.rates))
    return np.stack([asked - yes, yes], -1).cumsum(1)


def predicted(world: World, paths: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return assisted rates and effective rows (P, L, G), as `assisted.Predictions.adjusted` has them."""
    groups = len(world.rates)
    looks, shape = world.looks, (paths, MOST // groups)
    ends = np.array(looks) // groups
    sums, mean_rest = np.zeros((paths, len(looks), groups, FOLDS, 5)), np.empty((paths, len(looks), groups))
    left = ROWS // groups - ends
    for group, (rate, _) in enumerate(world.rates):
        f, y, fold, others = answers(rate, shape, rng)
        both = np.stack([np.ones(shape), y, f, y * f, f * f], -1)
        for k in range(FOLDS):
            sums[:, :, group, k] = (both * (fold == k)[..., None]).cumsum(1)[:, ends - 1]
        mean_rest[..., group] = (others[:, None] + f.sum(1, keepdims=True) - f.cumsum(1)[:, ends - 1]) / left
    return assisted(sums, mean_rest, left[:, None])


def answers(rate: float, shape: tuple[int, int], rng: np.random.Generator) -> tuple[Floats, ...]:
    """Return predictions, answers and folds (P, n), and the sum of the other rows' predictions (P,)."""
    size = 1 / EXPLAINED - 1
    f = rng.beta(rate * size, (1 - rate) * size, shape)
    y, fold = (rng.random(shape) < f) * 1.0, rng.integers(0, FOLDS, shape)
    others = ROWS // (MOST // shape[1]) - shape[1]
    return f, y, fold, rng.normal(others * rate, np.sqrt(others * rate * (1 - rate) * EXPLAINED), shape[0])


def assisted(sums: Floats, mean_rest: Floats, left: Floats) -> tuple[Floats, Floats]:
    """Return assisted shares and effective rows (P, L, G).

    `sums` (P, L, G, K, 5) are those of 1, y, f, y f and f² of each fold, `mean_rest` (P, L, G) the mean
    prediction of the `left` (L, 1) rows. Groups are equally large and share the weight of a fold.
    """
    n, yes, f, product, square = np.moveaxis(sums, -1, 0)
    total = n.sum(-1)
    share, middle = (part.sum(-1, keepdims=True) / total[..., None] for part in (yes, f))
    cross = product - middle * yes - share * f + n * middle * share
    control = square - 2 * middle * f + n * middle**2
    own = yes - 2 * share * yes + n * share**2

    def elsewhere(part: Floats) -> Floats:
        of_all = part.sum(-2, keepdims=True)
        return np.asarray(of_all.sum(-1, keepdims=True) - of_all)

    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.clip(np.nan_to_num(elsewhere(cross) / elsewhere(control)), 0, 2)
        weight = weight * (left / (left + total))[..., None]
        before, after = own.sum(-1), (own - 2 * weight * cross + weight**2 * control).sum(-1)
        whole = after + (weight**2).mean(-1) * control.sum(-1) * total / left
        moved = share[..., 0] - (weight * (f - n * mean_rest[..., None])).sum(-1) / total
        used = (total >= MIN_ROWS_OF_STRATUM) & (before > whole) & (moved >= 0) & (moved <= 1)
        return np.where(used, moved, share[..., 0]), np.where(used, total * before / whole, total)


def limits(shares: Floats, rows: Floats, asked: list[int], checks: int = 1, kinds: int = 1) -> Floats:
    """Return limits (2, P, L) of the largest gap of shares (P, L, G), or of shares of all (P, L, 1).

    At each look so many rows are `asked` (L,).
    """
    groups, looks = shares.shape[-1], ConfidenceSequence(checks, MOST)
    grown = np.array([looks.reach(n, max(2, groups), kinds) for n in asked]) / Z
    low, high = wilson(shares, rows)
    if groups == 1:
        below, above = (shares - low)[..., 0], (high - shares)[..., 0]
        return np.stack([shares[..., 0] - grown * below, shares[..., 0] + grown * above])
    ends = np.zeros((2, *shares.shape[:2]))
    for one, other in combinations(range(groups), 2):
        gap = shares[..., other] - shares[..., one]
        down = grown * np.hypot((shares - low)[..., other], (high - shares)[..., one])
        up = grown * np.hypot((high - shares)[..., other], (shares - low)[..., one])
        ends = np.maximum(ends, [np.maximum(gap - down, -gap - up), np.maximum(gap + up, down - gap)])
    return ends


def ever(world: World, paths: int, assist: bool) -> tuple[Floats, Floats, Floats]:
    """Return whether some gate (P,) is ever failed, and passed, and at which row all are decided, if ever."""
    rng = np.random.default_rng([len(world.rates), assist, len(world.gates)])
    parts = []
    for start in range(0, paths, AT_ONCE):
        every = list(_gates(world, min(AT_ONCE, paths - start), assist, rng))
        failed = np.array([low > bound for (low, _), bound in every])
        passed = np.array([high <= bound for (_, high), bound in every])
        done = (failed | passed).all(0)
        when = np.where(done.any(1), np.array(world.looks)[done.argmax(1)], MOST + 1)
        parts.append((failed.any((0, 2)), passed.any((0, 2)), when))
    failed, passed, when = (np.concatenate(part) for part in zip(*parts, strict=True))
    return failed, passed, when


def _gates(
    world: World, paths: int, assist: bool, rng: np.random.Generator
) -> Iterator[tuple[Floats, float]]:
    """Yield limits (2, P, L) and bound of each gate; NaN where something is undefined."""
    asked = world.looks, len(world.gates)
    if assist:
        yield limits(*predicted(world, paths, rng), *asked), world.bound
        return
    counts = counted(world, paths, rng)
    with np.errstate(divide="ignore", invalid="ignore"):
        for gate in world.gates:
            if gate == "dp":
                n = counts.sum((-1, -2))
                yield limits(counts.sum(-2)[..., 1] / n, n, *asked), world.bound
            elif gate == "eo":
                n = counts.sum(-1)
                each = [limits(counts[..., k, 1] / n[..., k], n[..., k], *asked, 2) for k in (0, 1)]
                yield np.maximum(*each), world.bound
            else:
                n = counts.sum((-1, -2, -3))[..., None]
                right = (counts[..., 0, 0] + counts[..., 1, 1]).sum(-1)[..., None]
                truth = [(1 - world.base) * (1 - no) + world.base * yes for no, yes in world.rates]
                yield limits(right / n, n, *asked), float(world.part @ np.array(truth))


def fitted(gap: float, paths: int) -> dict[str, Any]:
    """Return what becomes of `dp > 0.1` where the package learns the predictor."""
    groups, looks = np.array(["a", "b"]), World("", even(0.5, 0.5)).looks
    failed, passed, when = np.zeros((3, paths))
    for path in range(paths):
        rng = np.random.default_rng([path, round(1000 * gap)])
        x, level = rng.normal(size=(_TABLE, 3)), np.arange(_TABLE) % 2
        middle = ndtri(0.5 + gap * (level - 0.5)) * np.sqrt(1 + _SLOPE**2)
        answer = np.where(rng.random(_TABLE) < ndtr(middle + _SLOPE * x[:, 0]), "yes", "no")
        frame = pd.DataFrame({"row": np.arange(_TABLE).astype(str), "group": groups[level], "answer": answer})
        frame["label"] = "no"
        features = pd.DataFrame(x, columns=["x", "y", "z"])
        table = FeatureTable(pd.Index(frame["row"]), groups[level], np.zeros(_TABLE, dtype=int), features)
        for asked in looks:
            run = from_frame(frame.iloc[:asked], "group")
            run = replace(run, design=replace(run.design, sequential=ConfidenceSequence(1, MOST)))
            found = estimate(assisted_samples(run, run.samples, table)["answers"])[
                "demographic_parity_difference"
            ]
            failed[path], passed[path] = found.low > BOUND, found.high <= BOUND
            when[path] = asked
            if failed[path] or passed[path]:
                break
    stopped = failed + passed > 0
    return {
        "paths": paths, "failed": failed.mean(), "passed": passed.mean(),
        "asked": when.mean() / MOST, "decided": stopped.mean(),
    }  # fmt: skip


def measured(paths: int, fitted_paths: int) -> dict[str, Any]:
    """Return everything that the record has."""
    bound, saved = {}, {}
    for world in AT_THE_BOUND:
        for assist in (False, True) if world.gates == ("dp",) and not world.shares else (False,):
            failed, passed, _ = ever(world, paths, assist)
            both = failed.mean(), passed.mean(), (failed | passed).mean()
            bound[f"{world.name}, {'assisted' if assist else 'plain'}"] = both
    for gap in GAPS:
        world = World("", even(0.5 - gap / 2, 0.5 + gap / 2))
        times = [ever(world, paths // 5, assist)[2] for assist in (False, True)]
        saved[f"{gap:g}"] = [[np.minimum(t, MOST).mean() / MOST, (t <= MOST).mean()] for t in times]
    learnt = {f"{gap:g}": fitted(gap, fitted_paths) for gap in (BOUND, 0.0, 0.2) if fitted_paths}
    return {"paths": paths, "bound": bound, "saved": saved, "fitted": learnt}


def as_markdown(record: dict[str, Any]) -> str:
    """Return the record as a page."""
    lines = [
        "# Stopping when a gate is decided: what it risks and saves",
        "",
        f"Simulated, by `{record['command']}`, seeds fixed. At most {MOST:,} questions an arm.",
        "",
        f"## Wrong stops: {record['paths']:,} paths with rates exactly at the bound",
        "",
        "Gates `dp > 0.1` where no other is named; the three at once are it, `eo > 0.1` and one on accuracy. "
        "Ever failed or passed, at any look; at most 0.054 is asked for.",
        "",
        "| world | failed | passed | either |",
        "|---|---:|---:|---:|",
    ]
    for name, ever in record["bound"].items():
        lines.append(f"| {name} | {' | '.join(f'{one:.4f}' for one in ever)} |")
    lines += [
        "",
        f"## Questions asked: `dp > 0.1`, two groups, rates near one half, {record['paths'] // 5:,} paths",
        "",
        f"Assisted: a predictor that explains {EXPLAINED:.0%} of the variance.",
        "",
        "| true gap | plain: asked | decided | assisted: asked | decided |",
        "|---|---:|---:|---:|---:|",
    ]
    for gap, both in record["saved"].items():
        lines.append(f"| {gap} | {' | '.join(f'{one:.0%}' for pair in both for one in pair)} |")
    if record["fitted"]:
        lines += [
            "",
            "## The same with a predictor that the package learns from the answers",
            "",
            "| true gap | paths | failed | passed | asked | decided |",
            "|---|---:|---:|---:|---:|---:|",
        ]
    for gap, got in record["fitted"].items():
        cells = f"{got['failed']:.3f} | {got['passed']:.3f} | {got['asked']:.0%} | {got['decided']:.0%}"
        lines.append(f"| {gap} | {got['paths']} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and with `--record` write evals/results/stopping.md and .json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--paths", type=int, default=10_000)
    parser.add_argument("--fitted", type=int, default=0, metavar="N")
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    record = measured(asked.paths, asked.fitted)
    chosen = "".join(
        f" --{name} {value}" for name, value in (("paths", asked.paths), ("fitted", asked.fitted))
        if value != parser.get_default(name)
    )  # fmt: skip
    record["command"] = f"python -m evals.stopping{chosen}{' --record' * asked.record}"
    page = as_markdown(record)
    print(page)
    if asked.record:
        (RESULTS / "stopping.md").write_text(page, encoding="utf-8")
        (RESULTS / "stopping.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
