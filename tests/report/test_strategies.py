"""`fwc-llm shots` and the comparison of strategies."""

from pathlib import Path

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist

from fwc_llm.report.strategies import closeness
from fwc_llm.shots import load_shots, select_shots
from fwc_llm.shots.examples import labelled_pool
from fwc_llm.tasks import Task, load_task
from tests.command import Run, read_json
from tests.people import make_people, write_people


def test_what_is_measured_is_what_it_says(two: Task) -> None:
    pool = two.pool()
    shots = select_shots(two, "kmedoids", 10)
    distance, violation = closeness(two, shots)
    chosen = pool.index.get_indexer([example.row for example in shots.examples])  # type: ignore[arg-type]
    weights = np.array([example.weight for example in shots.examples])
    points = labelled_pool(two, pool).dense(0.5).astype(float)
    cost = cdist(points, points[chosen], "cityblock")
    exact = ot.emd2(np.full(240, 1 / 240), weights / 10, cost)
    assert distance == pytest.approx(exact, rel=1e-5)
    target = (pool["y"] == "yes").mean()
    worst = 0.0
    for level in ("a", "b"):
        own = (pool["group"] == level).to_numpy()[chosen]
        yes = (pool["y"] == "yes").to_numpy()[chosen]
        rate = weights[own & yes].sum() / weights[own].sum()
        worst = max(worst, abs(rate / target - 1), abs((1 - rate) / (1 - target) - 1))
    assert violation == pytest.approx(worst)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write_people(tmp_path / "table", make_people(120, 2))


def test_the_command_saves_what_select_shots_chooses(
    fwc: Run, people: Path, tmp_path: Path
) -> None:
    path = tmp_path / "shots.json"
    done = fwc(f"shots --task {people} --m 8 --seed 3 -o", path)
    assert (done.code, done.out) == (0, "")
    assert "8 examples by fwc" in done.err
    assert "certificate: distance" in done.err
    task = load_task(people)
    assert load_shots(path, task) == select_shots(task, "fwc", 8, seed=3)
    assert read_json(path)["certificate"]["seed"] == 3


def test_several_strategies_are_compared(fwc: Run, people: Path) -> None:
    asked = f"shots --task {people} --m 8 --strategy random,zero,fwc"
    done = fwc(asked, code=0)
    assert done.out.index("fwc") < done.out.index("random")
    assert "zero: no examples" in done.err
    found = fwc(f"{asked} --json", code=0).json["strategies"]
    assert [shots["strategy"] for shots in found] == ["fwc", "random"]
    assert found[0]["distance"] < found[1]["distance"]
    assert "saves one strategy" in fwc(f"{asked} -o x.json", code=2).line
