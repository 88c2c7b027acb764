"""What a design finds and misses, in sentences, and beside the results of a run."""

import numpy as np
import pandas as pd
import pytest

from fwc_llm import audit
from fwc_llm.metrics.planning import Assumptions, Design
from fwc_llm.report.narrative import power_lines

ADULT = Design(
    ("Female", "Male"),
    np.array([[75.0, 25.0], [25.0, 75.0]]),
    np.array([[4356.0, 557.0], [7004.0, 3143.0]]),
    1,
)


def answers(
    repeats: int, n: int = 200, arms: tuple[str, ...] = ("zero", "fwc"), groups: int = 2
) -> pd.DataFrame:
    """Rows of their own in every repeat; arms that differ on a fifth of them."""
    rng = np.random.default_rng(0)
    size = repeats * n
    said = rng.random(size) < 0.5
    frames = []
    for place, arm in enumerate(arms):
        other = said ^ (rng.random(size) < 0.2 * place)
        frames.append(
            pd.DataFrame(
                {
                    "arm": arm,
                    "repeat": np.repeat(np.arange(repeats), n),
                    "row": np.arange(size),
                    "group": np.array(list("abc"))[np.arange(size) % groups],
                    "label": np.where(rng.random(size) < 0.5, "yes", "no")
                    if not place
                    else frames[0]["label"],
                    "answer": np.where(other, "yes", "no"),
                    "examples": np.char.add(f"{arm}-", np.repeat(np.arange(repeats), n).astype(str)),
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def test_a_run_says_what_it_would_miss() -> None:
    found = audit(answers(1)).to_dict()
    (test,) = found["comparisons"]
    shown = test["accuracy"]
    error = (shown["high"] - shown["low"]) / 2 / 1.959964
    assert shown["smallest_found"] == pytest.approx(2.801585 * error, rel=1e-4)
    assert shown["smallest_found"] == pytest.approx(2.8016 * np.sqrt(0.2 / 200), rel=0.15)  # a fifth differ
    gap = test["demographic_parity_difference"]["smallest_found"]
    assert gap == pytest.approx(2 * shown["smallest_found"], rel=0.1)
    alone = found["arms"][0]["demographic_parity_difference"]
    assert alone["smallest_found"] == pytest.approx(alone["noise_95"] * 2.801585 / 1.959964, rel=1e-4)
    (note,) = (note for note in found["notes"] if "would miss" in note)
    assert f"below {gap:.3f} of DP gap and {100 * shown['smallest_found']:.1f} points of accuracy" in note
    assert "(these examples)" in note


def test_it_says_so_of_strategies_where_it_can() -> None:
    few, many = (audit(answers(repeats)).to_dict() for repeats in (3, 8))
    (note,) = (note for note in few["notes"] if "would miss" in note)
    assert "(these examples)" in note
    (note,) = (note for note in many["notes"] if "would miss" in note)
    assert "(this strategy)" in note
    (test,) = many["comparisons"]
    assert test["accuracy"]["smallest_found"] > test["these_examples"]["accuracy"]["smallest_found"]


def test_lines_before_a_run() -> None:
    lines = power_lines(ADULT, Assumptions(discordant=0.1, source="as given"))
    assert lines[1] == (
        "  these examples: 0.125 of DP gap and 6.3 points of accuracy between two arms; "
        "one arm's DP gap of 0.163 against 0"
    )
    assert "10% of the rows differently (as given)" in lines[-1]
