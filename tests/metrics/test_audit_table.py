"""Tables of answers as columns of codes: the numbers are those of counting one by one."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm.metrics.audit_table import by_attribute, from_frame
from fwc_llm.metrics.statistics import statistics


def table(seed: int) -> pd.DataFrame:
    """Answers of up to three arms in up to four repeats, shuffled; with gaps, P(yes) and sets of examples."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 90))
    rows = pd.DataFrame(
        {
            "row": [f"r{n - place}" for place in range(n)],
            "sex": rng.choice(["f", "m"], n),
            "race": rng.choice(["B", "A", "unknown"], n),
            "label": np.where(rng.random(n) < 0.4, "yes", "no"),
        }
    )
    parts, arms, repeats = [], int(rng.integers(1, 4)), int(rng.integers(1, 5))
    for arm, repeat in product(range(arms), range(repeats)):
        p = rng.random(n).round(2)
        said = np.where(p > 0.5, "yes", "no").astype(object)
        said[rng.random(n) < 0.1] = None
        asked = rows.assign(arm=f"arm {arm}", repeat=repeat, examples=f"e{repeat}")
        parts.append(asked.assign(p_yes=p, answer=said))
    whole = pd.concat(parts, ignore_index=True)
    whole["group"] = whole["sex"] + " & " + whole["race"]
    return whole.sample(frac=1, random_state=seed) if seed % 2 else whole


def close(one: Any, other: Any) -> bool:
    """The same numbers, but for the last digits of sums in another order."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    return bool(one == pytest.approx(other, rel=1e-10, abs=1e-12)) if isinstance(one, float) else one == other


@pytest.mark.parametrize("seed", range(6))
def test_categories_and_texts_give_the_same_statistics(seed: int) -> None:
    frame = table(seed)
    coded = frame.assign(
        # Categories that nobody has, and others in an order of their own, change nothing.
        **{
            name: pd.Categorical(frame[name], [*sorted(set(frame[name].dropna()), reverse=True), "never"])
            for name in ("row", "group", "label", "answer", "arm", "examples")
        }
    )
    found = [statistics(from_frame(one, attributes=["sex", "race"])) for one in (frame, coded)]
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(6))
def test_counts_and_rates_are_those_of_the_table(seed: int) -> None:
    frame = table(seed)
    found = statistics(from_frame(frame, attributes=["sex", "race"]))
    for arm in found["arms"]:
        own = frame[frame["arm"] == arm["arm"]]
        parsed = own.dropna(subset="answer")
        by_repeat = (parsed["answer"] == parsed["label"]).groupby(parsed["repeat"]).mean()
        assert arm["accuracy"]["value"] == pytest.approx(by_repeat.mean(), abs=1e-12)
        assert arm["accuracy"]["per_repeat"] == pytest.approx(by_repeat.tolist(), abs=1e-12)
        assert arm["unparsed"] == ({"": lost} if (lost := int(own["answer"].isna().sum())) else {})
        for name, group in arm["groups"].items():
            here = parsed[parsed["group"] == name]
            rates = (here["answer"] == "yes").groupby(here["repeat"]).mean()
            assert group["rate"] == (None if rates.empty else pytest.approx(rates.mean(), abs=1e-12))
            assert group["n"] == (own["group"] == name).sum()


@pytest.mark.parametrize("seed", range(4))
def test_an_attribute_of_crossed_answers_is_the_attribute_alone(seed: int) -> None:
    frame = table(seed)
    views = by_attribute(from_frame(frame, attributes=["sex", "race"]))
    assert list(views) == ["sex", "race", "sex & race"]
    for name in ("sex", "race"):
        alone = from_frame(frame.assign(group=frame[name]), attributes=[name])
        assert views[name].groups == alone.groups
        assert close(statistics(views[name]), statistics(alone))
    assert list(by_attribute(from_frame(frame, attributes=["both"]))) == ["both"]
