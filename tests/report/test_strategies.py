"""`fwc-llm shots` and the comparison of strategies."""

import re
from pathlib import Path

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist

from fwc_llm.report.strategies import compare, measure
from fwc_llm.shots import load_shots, select_shots, strategies
from fwc_llm.shots.examples import labelled_pool
from fwc_llm.tasks import Task, load_task
from tests.command import Run, read_json
from tests.people import make_people, write_people


def test_what_is_measured_is_what_it_says(two: Task) -> None:
    pool = two.pool()
    rows = labelled_pool(two, pool)
    shots = select_shots(two, "kmedoids", 10)
    found = measure(shots, rows, pool)
    chosen = pool.index.get_indexer([example.row for example in shots.examples])  # type: ignore[arg-type]
    weights = np.array([example.weight for example in shots.examples])
    l1 = rows.dense(0.5).astype(float)
    l2 = rows.dense(np.sqrt(0.5)).astype(float)
    cost = cdist(l1, l1[chosen], "cityblock")
    assert found.distance == pytest.approx(
        ot.emd2(np.full(240, 1 / 240), weights / 10, cost), rel=1e-5
    )
    nearest = cdist(l2, l2[chosen], "sqeuclidean").min(axis=1)
    assert found.clustering_cost == pytest.approx(nearest.mean(), rel=1e-5)
    target = (pool["y"] == "yes").mean()
    worst = 0.0
    for level in ("a", "b"):
        own = (pool["group"] == level).to_numpy()[chosen]
        yes = (pool["y"] == "yes").to_numpy()[chosen]
        rate = weights[own & yes].sum() / weights[own].sum()
        worst = max(worst, abs(rate / target - 1), abs((1 - rate) / (1 - target) - 1))
        assert found.positives[level] == ((own & yes).sum(), own.sum())
    assert found.violation == pytest.approx(worst)


def test_every_strategy_has_a_line(two: Task, three: Task) -> None:
    lines = {line.strategy: line for line in compare(two, m=8)}
    assert set(lines) == set(strategies()) - {"ids"}
    assert lines["zero"].distance is None
    assert lines["zero"].note == "no examples"
    assert "means over 20 test rows" in lines["nearest"].note
    for name, line in lines.items():
        if name != "zero":
            assert line.m == 8
            assert (line.distance or 0) > 0
            assert (line.tokens or 0) > (lines["zero"].tokens or 0) > 0
            assert line.seconds is not None
    refused = {
        line.strategy: line for line in compare(three, ["balanced", "random"], m=5)
    }
    assert refused["balanced"].distance is None
    assert "at least one example in each of the 6 cells" in refused["balanced"].note
    assert refused["random"].distance is not None


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


@pytest.mark.slow
def test_the_command_compares(fwc: Run, people: Path) -> None:
    strategies = ("--compare", "--strategy", "random,zero,fwc")
    done = fwc("shots --task", people, *strategies, "--m", 8, code=0)
    assert done.out.index("fwc") < done.out.index("random") < done.out.index("zero")
    assert "zero: no examples" in done.err
    assert re.search(
        r"choosing and measuring took \d+\.\d s in total", " ".join(done.err.split())
    )
