"""Answers with known chances of yes; `evals.coverage` has whole worlds of them."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.counts import COUNTED
from fwc_llm.metrics.run_answers import ArmAnswers, one_name
from fwc_llm.metrics.sampling_design import SamplingDesign
from fwc_llm.metrics.variance import REASONS, ArmArrays, arrays_of

DRAWN = (75, 25, 25, 75)  # rows of each group and label: a base-rate parity of 0.5


def arms(
    rng: np.random.Generator,
    *chances: tuple[tuple[float, float], ...],
    repeats: int = 1,
    shift: float = 0.0,
    fixed: bool = True,
) -> list[ArmArrays]:
    """Answers to the same rows of arms whose chances of yes are given by group and label.

    `shift` is the standard deviation of what each repeat's examples add to all chances.
    """
    cell = np.tile(np.repeat(np.arange(4), DRAWN), repeats)
    repeat = np.repeat(np.arange(repeats), sum(DRAWN))
    shifts = shift * rng.normal(size=repeats)[repeat]
    examples = repeat if shift else None
    shared = (cell % 2, cell // 2, repeat, np.arange(len(cell)), 2)
    return [
        ArmArrays(
            (rng.random(len(cell)) < np.ravel(yes)[cell] + shifts).astype(float),
            *shared,
            SamplingDesign(fixed),
            examples,
        )
        for yes in chances
    ]


def once(answer: Any, group: Any = 0, label: Any = 0, **more: Any) -> ArmArrays:
    """An arm that is asked about each row once, in one repeat."""
    n = len(answer)
    none = np.zeros(n, dtype=int)
    cells = none + label, none + group, none, np.arange(n)
    return ArmArrays(np.asarray(answer, float), *cells, int(np.max(group)) + 1, **more)


def losing(
    rng: np.random.Generator, sample: ArmArrays, share: Any, why: str = ""
) -> ArmArrays:
    """The arm without a share of its answers, or with a chance (n,) of each to be lost."""
    lost = rng.random(len(sample.answer)) < share
    reason = np.where(lost, REASONS.index(why), 0)
    return replace(sample, answer=np.where(lost, np.nan, sample.answer), reason=reason)


def people(
    n: int, seed: int, arms: int = 2, repeats: int = 1, names: str = "fm"
) -> pd.DataFrame:
    """Answers of `arms` to the same n rows in every repeat, some of them unread, with P(yes)."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {"row": [f"r{k}" for k in range(n)], "person": rng.integers(0, n // 2, n)}
    )
    rows["group"] = np.array([*names])[rng.integers(0, len(names), n)]
    rows["label"] = np.where(
        rng.random(n) < 0.3 + 0.3 * (rows["group"] == names[0]), "yes", "no"
    )
    rows["score"], rows["weight"] = rng.normal(size=n), rng.integers(0, 5, n) / 4
    rows["job"] = rng.choice(["office", "field"], n)
    tables = []
    for arm in range(arms):
        for repeat in range(repeats):
            wish = (
                (rows["label"] == "yes")
                + 0.4 * arm * (rows["group"] == names[0])
                + 0.5 * rows["score"]
            )
            p = (1 / (1 + np.exp(-2 * (wish - 0.6 + rng.normal(0, 0.5, n))))).round(1)
            said = np.where(p > 0.5, "yes", "no").astype(object)
            why = np.where(
                rng.random(n) < 0.06,
                rng.choice(["refused", "filtered", "error"], n),
                "",
            )
            said[why != ""] = None
            examples = f"e{repeat}" if arm else "none"
            tables.append(
                rows.assign(
                    arm=f"arm {arm}",
                    repeat=repeat,
                    p_yes=p,
                    answer=said,
                    reason=why,
                    examples=examples,
                )
            )
    return pd.concat(tables, ignore_index=True).sample(frac=1, random_state=seed)


def answers_of(
    said: Any, p_yes: Any = np.nan, groups: str = "ab", label: int = 0, repeat: Any = 0
) -> ArmAnswers:
    """One arm's answers to as many rows, whose groups take turns."""
    n = len(said)
    none = one_name("", len(said))
    every = {"variant": none, "reason": none, "examples": none}
    return ArmAnswers(
        repeat=np.broadcast_to(np.array(repeat), n),
        row=np.array([f"row:{k}" for k in range(n)]),
        group=np.array([*groups] * n)[:n],
        label=np.full(n, label, np.int8),
        answer=np.array(said, float),
        p_yes=np.broadcast_to(np.array(p_yes, float), n),
        **every,
    )


def metrics_of(*answers: Any, weight: Any = None) -> SimpleNamespace:
    """The metrics of answers, labels and groups as one repeat has them, rates by group."""
    sample, names = arrays_of(*answers, weight)
    found = ArmEstimates(sample)

    def by_group(rate: str) -> dict[str, float]:
        return dict(zip(names, found.counted(rate).values.tolist(), strict=True))

    return SimpleNamespace(
        **{
            key: found.value(key)
            for key in ("coverage", *(metric.key for metric in COUNTED))
        },
        rates=by_group("selection_rate"),
        coverage_by_group=by_group("coverage"),
        reasons={
            metric.key: found.undefined(metric.key, names)
            for metric in COUNTED
            if np.isnan(found[metric.key].value)
        },
    )


@st.composite
def random_arms(draw: st.DrawFn) -> list[ArmArrays]:
    """Two arms' answers to the same questions: few or many, some unparsed, groups of one row,
    rows asked again, every design.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    groups = draw(st.integers(1, 4))
    repeats = draw(st.sampled_from([1, 2, 5, 8]))
    group = np.r_[np.arange(groups), rng.integers(0, groups, draw(st.integers(1, 60)))]
    label = rng.integers(0, 2, len(group))
    n = min(draw(st.integers(1, 30)), len(group))
    row = np.concatenate(
        [rng.choice(len(group), n, replace=False) for _ in range(repeats)]
    )
    repeat = np.repeat(np.arange(repeats), n)
    design = SamplingDesign(draw(st.booleans()))
    found = []
    for _ in range(2):
        rate = draw(st.sampled_from([0.0, 0.02, 0.1, 0.4, 1.0]))
        chance = np.where(group[row] == 0, rate, draw(st.sampled_from([rate, 0.5])))
        answer = (rng.random(len(row)) < chance) * 1.0
        answer[rng.random(len(row)) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = np.nan
        examples = draw(
            st.sampled_from([None, repeat, repeat // 2, np.arange(len(row))])
        )
        arrays = (answer, label[row], group[row], repeat, row)
        found.append(ArmArrays(*arrays, groups, design, examples))
    return found
