"""The race: who drops out, what it saves, and when there is nothing to choose."""

from collections.abc import Iterable

import numpy as np
import pytest

from fwc_llm.evaluation.race import (
    AGAIN,
    BALANCED,
    FEWEST_KEPT,
    ZERO,
    Floats,
    Goal,
    Measured,
    Pool,
    Standing,
    choose,
    front,
    moved,
    race,
)
from fwc_llm.tasks import Task, load_task

GOAL = Goal("dp", 0.05, 0.05)


@pytest.fixture(scope="module")
def pool() -> Pool:
    task: Task = load_task("census")
    return Pool.of(task, task.pool().head(400))


class World:
    """Candidate c0 answers alike for both groups; the higher the number, the larger the gap."""

    def __init__(self, pool: Pool, soft: bool) -> None:
        rng, self.pool, self.soft = np.random.default_rng(0), pool, soft
        self.questions: dict[str, int] = {}
        self.noise = rng.random(len(pool.rows))

    def p_yes(self, name: str) -> Floats:
        gap = 0.02 * int(name[1:]) if name.startswith("c") else 0.4
        return np.where(self.pool.groups == "Male", 0.5 + gap / 2, 0.5 - gap / 2)

    def ask(self, names: Iterable[str], k: int) -> dict[str, tuple[Floats, Floats]]:
        found = {}
        for name in names:
            p = self.p_yes(name)
            soft = p if self.soft else np.full(len(p), np.nan)
            found[name] = ((self.noise < p)[:k].astype(float), soft[:k])
            self.questions[name] = k  # the earlier ones are in the journal
        return found

    @property
    def asked(self) -> int:
        return sum(self.questions.values())


@pytest.mark.parametrize("soft", [True, False])
def test_a_race_finds_what_asking_everything_finds_with_half_the_questions(pool: Pool, soft: bool) -> None:
    names = [f"c{number}" for number in range(40)]
    world, everything = World(pool, soft), World(pool, soft)
    standing = race(names, pool, GOAL, world.ask)
    exhaustive = race(names, pool, GOAL, everything.ask, ((1.0, 1.0),))
    left = [name for name in names if standing[name].dropped_after is None]
    assert FEWEST_KEPT <= len(left) <= 6
    assert world.asked <= everything.asked / 2
    best = min(names, key=lambda name: exhaustive[name].measured(GOAL, pool).metric)
    assert best in left
    assert standing["c39"].dropped_after == 120
    assert {len(standing[name].hard) for name in (ZERO, AGAIN, BALANCED, *left)} == {400}


@pytest.mark.parametrize("soft", [True, False])
def test_who_may_still_win_stays_and_not_who_is_near_on_average(pool: Pool, soft: bool) -> None:
    """The loss decides: a fair candidate far beyond it goes, and one at its edge stays."""
    rng = np.random.default_rng(1)
    right, other = pool.labels.astype(float), 1.0 - pool.labels
    shares = {"zero": 0.0, "zero-again": 0.0, "balanced": 0.0, "edge": 0.05, "beyond": 0.4}
    shares |= {f"filler{number}": 0.3 for number in range(10)}
    flips = {name: rng.random(len(right)) < share for name, share in shares.items()}

    def ask(names: Iterable[str], k: int) -> dict[str, tuple[Floats, Floats]]:
        hard = {name: np.where(flips[name], other, right) for name in names}
        unknown = np.full(len(right), np.nan)
        return {name: (yes[:k], (yes if soft else unknown)[:k]) for name, yes in hard.items()}

    found = race(list(shares)[3:], pool, Goal("dp", 0.0, 0.06), ask)
    assert found["edge"].dropped_after is None
    assert sum(found[name].dropped_after is None for name in shares) == 3 + FEWEST_KEPT
    again = race(list(shares)[3:], pool, Goal("dp", 0.0, 0.06), ask)
    assert {name: one.dropped_after for name, one in again.items()} == {
        name: one.dropped_after for name, one in found.items()
    }


def standing(name: str, hard: Floats) -> Standing:
    return Standing(name, hard, np.full(len(hard), np.nan))


def test_only_answers_that_change_more_than_on_asking_again_count() -> None:
    rng = np.random.default_rng(2)
    zero = rng.integers(0, 2, 200).astype(float)

    def noisy(share: float) -> Floats:
        return np.where(rng.random(200) < share, 1 - zero, zero)

    def found(noise: float, moves: list[float]) -> bool:
        names = [f"c{place}" for place in range(len(moves))]
        known = {ZERO: standing(ZERO, zero), AGAIN: standing(AGAIN, noisy(noise))}
        known |= {name: standing(name, noisy(share)) for name, share in zip(names, moves, strict=True)}
        return moved(known, names)

    assert not found(0.0, [0.0] * 10)
    assert found(0.0, [0.0] * 9 + [0.12])
    assert not found(0.1, [0.1] * 20)
    assert found(0.1, [0.1] * 19 + [0.4])


def measured(accuracy: float, gap: float) -> Measured:
    return Measured(accuracy, gap, np.zeros(1), np.zeros(1))


def test_the_choice_is_the_least_loss_at_the_target_else_the_lowest_gap_within_the_loss() -> None:
    balanced = measured(0.80, 0.40)
    field = {
        "a": measured(0.79, 0.04),
        "b": measured(0.78, 0.01),
        "c": measured(0.70, 0.0),
        BALANCED: balanced,
    }
    assert choose(field, GOAL, balanced, {}) == ("a", True)
    del field["a"], field["b"]
    assert choose(field, GOAL, balanced, {}) == (BALANCED, False)
    field |= {"d": measured(0.76, 0.20), "e": measured(0.77, 0.22)}
    assert choose(field, GOAL, balanced, {}) == ("d", False)
    soft = field | {"e": measured(0.77, 0.19)}  # P(yes) varies less, so it says which is nearest
    assert choose(field, GOAL, balanced, soft) == ("e", False)
    assert choose({"c": field["c"]}, GOAL, balanced, {}) == ("c", False)
    assert front(field, GOAL) == {"c", "d", "e", BALANCED}
