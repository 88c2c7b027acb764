"""Where the spread comes from: planted variances are found again, on average and by their intervals."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest

from fwc_llm.metrics.spread import PARTS, Asked, as_numbers, split_variance

REPEATS, ROWS, TIMES = 6, 60, 3
ORDERS, WORDINGS = np.array([-0.05, 0.0, 0.05]), np.array([-0.04, 0.04])
BOTH = 0.02 * np.array([[1.0, -1.0], [-2.0, 2.0], [1.0, -1.0]])
OF_ROW, OF_DRAW, OF_ROW_AND_ORDER = 0.15, 0.06, 0.05


def world(
    rng: np.random.Generator, orders: Sequence[float], wordings: Sequence[float], both: np.ndarray
) -> np.ndarray:
    """Chances of yes (O, T, R, rows): two strata, a row's own, a draw's, and what order and wording do."""
    stratum = np.where(np.arange(ROWS) < 20, 0.4, 0.6)
    row = rng.choice([-OF_ROW, OF_ROW], (REPEATS, ROWS))
    draw = rng.choice([-OF_DRAW, OF_DRAW], (REPEATS, 1))
    heed = rng.choice([-OF_ROW_AND_ORDER, OF_ROW_AND_ORDER], (len(orders), 1, REPEATS, ROWS))
    heed = heed * (len(orders) > 1)
    shift = np.asarray(orders)[:, None] + np.asarray(wordings)[None] + both
    chances = stratum + row + draw + heed + shift[..., None, None]
    assert 0.0 <= chances.min() <= chances.max() <= 1.0
    return np.asarray(chances)


def asked(rng: np.random.Generator, chances: np.ndarray, times: int) -> Asked:
    """Answers to them, every prompt `times` times, shuffled: places must not matter."""
    shape = chances.shape[:2]
    repeat, row = (places.ravel() for places in np.indices(chances.shape[2:]))
    answer = (rng.random((times, *chances.shape)) < chances).astype(np.float64)
    flat = np.moveaxis(answer, 0, 2).reshape(*shape, -1)
    mixed = rng.permutation(flat.shape[-1])
    stratum = (row >= 20).astype(np.int64)
    codes = (np.tile(part, times)[mixed] for part in (repeat, repeat * ROWS + row, stratum))
    return Asked(flat[..., mixed], *codes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("orders", "wordings", "times"),
    [(3, 2, 3), (3, 1, 2), (1, 2, 2), (1, 1, 4), (1, 1, 1)],
    ids=["all", "orders", "wordings", "again", "once"],
)
def test_every_part_is_unbiased_and_its_interval_holds(orders: int, wordings: int, times: int) -> None:
    rng = np.random.default_rng(0)
    given = ORDERS[:orders] * (orders > 1), WORDINGS[:wordings] * (wordings > 1)
    both = BOTH if orders * wordings == 6 else np.zeros((orders, wordings))
    single, found = [], defaultdict(list)
    for _ in range(400):
        chances = world(rng, *given, both)
        single.append((chances * (1 - chances)).mean() / ROWS)
        parts, interval = split_variance([(1.0, asked(rng, chances, times))])
        for name, value in parts.items():
            found[name].append((value, *interval))
    heed = OF_ROW_AND_ORDER**2 / ROWS
    truth = {
        "rows": OF_ROW**2 / ROWS + (np.mean(single) if times == 1 else 0.0),
        "examples": OF_DRAW**2,
        "order": given[0].var(ddof=1) + heed if orders > 1 else np.nan,
        "wording": given[1].var(ddof=1) if wordings > 1 else np.nan,
        "order_and_wording": (BOTH**2).sum() / 2 if orders * wordings == 6 else np.nan,
        "repetition": np.mean(single) if times > 1 else np.nan,
    }
    assert tuple(found) == PARTS
    for name, expected in truth.items():
        values, low, high = np.array(found[name]).T
        if np.isnan(expected):
            assert np.isnan(values).all(), name
            continue
        error = values.std(ddof=1) / np.sqrt(len(values))
        assert abs(values.mean() - expected) < 3.5 * error + 1e-12, name
        if name != "examples":
            continue
        known = ~np.isnan(low)
        assert known.mean() > 0.9, name
        assert ((low <= expected) & (expected <= high))[known].mean() > 0.92, name


def test_the_gap_adds_the_variances_of_two_groups() -> None:
    rng = np.random.default_rng(1)
    one, other = (asked(rng, world(rng, [0.0], [0.0], np.zeros((1, 1))), 3) for _ in range(2))
    alone = [split_variance([(1.0, group)])[0] for group in (one, other)]
    gap, _ = split_variance([(1.0, one), (-1.0, other)])
    for name in ("rows", "repetition"):
        assert gap[name] == pytest.approx(sum(group[name] for group in alone))


def test_a_model_that_always_says_the_same_has_no_repetition() -> None:
    rng = np.random.default_rng(2)
    sure = np.round(world(rng, [0.0], [0.0], np.zeros((1, 1))))
    found = as_numbers(*split_variance([(1.0, asked(rng, sure, 2))]))
    assert found["repetition"] == 0.0
    assert found["not_measured"] == ["order", "wording", "order_and_wording"]
    assert found["intervals"]["repetition"] is None  # type: ignore[index]
    assert found["intervals"]["examples"] is not None  # type: ignore[index]


@pytest.mark.parametrize("unparsed", [0.3, 1.0])
def test_what_could_not_be_parsed_is_left_out(unparsed: float) -> None:
    rng = np.random.default_rng(3)
    whole = asked(rng, world(rng, ORDERS.tolist(), WORDINGS.tolist(), BOTH), 2)
    whole.answer[rng.random(whole.answer.shape) < unparsed] = np.nan
    found, _ = split_variance([(1.0, whole)])
    assert np.isnan(found["rows"]) == (unparsed == 1.0)
    if unparsed < 1.0:
        assert found["repetition"] == pytest.approx(0.21 / (0.7 * ROWS), rel=0.15)


def test_one_repeat_cannot_tell_what_the_examples_do() -> None:
    rng = np.random.default_rng(4)
    whole = asked(rng, world(rng, [0.0], [0.0], np.zeros((1, 1)))[:, :, :1], 1)
    found, _ = split_variance([(1.0, whole)])
    assert np.isnan(found["examples"])
    p = [whole.answer[0, 0, whole.stratum == place] for place in (0, 1)]
    expected = sum((len(x) / ROWS) ** 2 * x.var(ddof=1) / len(x) for x in p)
    assert found["rows"] == pytest.approx(expected)
