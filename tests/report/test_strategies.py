"""`fwc-llm shots` and the comparison of strategies."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist

from fwc_llm.cli import main
from fwc_llm.errors import FwcError
from fwc_llm.report.figures import plot_comparison
from fwc_llm.report.strategies import compare, measure
from fwc_llm.shots import load_shots, select_shots, strategies
from fwc_llm.shots.examples import labelled_pool
from fwc_llm.tasks import Task
from tests.people import make_people, write_people


def test_what_is_measured_is_what_it_says(two: Task) -> None:
    pool = two.pool()
    rows = labelled_pool(two, pool)
    shots = select_shots(two, "kmedoids", 10)
    found = measure(shots, rows, pool)
    chosen = pool.index.get_indexer([example.row for example in shots.examples])  # type: ignore[arg-type]
    weights = np.array([example.weight for example in shots.examples])
    l1, l2 = rows.dense(0.5).astype(float), rows.dense(np.sqrt(0.5)).astype(float)
    cost = cdist(l1, l1[chosen], "cityblock")
    assert found.distance == pytest.approx(ot.emd2(np.full(240, 1 / 240), weights / 10, cost), rel=1e-5)
    assert found.clustering_cost == pytest.approx(
        cdist(l2, l2[chosen], "sqeuclidean").min(axis=1).mean(), rel=1e-5
    )
    target = (pool["y"] == "yes").mean()
    worst = 0.0
    for level in ("a", "b"):
        own = (pool["group"] == level).to_numpy()[chosen]
        yes = (pool["y"] == "yes").to_numpy()[chosen]
        rate = weights[own & yes].sum() / weights[own].sum()
        worst = max(worst, abs(rate / target - 1), abs((1 - rate) / (1 - target) - 1))
        assert found.positives is not None
        assert found.positives[level] == ((own & yes).sum(), own.sum())
    assert found.violation == pytest.approx(worst)


def test_every_strategy_has_a_line(two: Task, three: Task) -> None:
    lines = {line.strategy: line for line in compare(two, m=8)}
    assert set(lines) == set(strategies()) - {"ids", "flipped"}
    assert lines["zero"].distance is None
    assert lines["zero"].note == "no examples"
    assert "means over 20 test rows" in lines["nearest"].note
    for name, line in lines.items():
        if name == "counterfactual":
            assert "4 of 8 examples are not true" in line.note
        elif name != "zero":
            assert line.m == 8
            assert (line.distance or 0) > 0
            assert (line.tokens or 0) > (lines["zero"].tokens or 0) > 0
            assert line.seconds is not None
    refused = {line.strategy: line for line in compare(three, ["fairlets", "random"], m=8)}
    assert refused["fairlets"].distance is None
    assert "two protected levels" in refused["fairlets"].note
    assert refused["random"].distance is not None


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_plot_is_a_picture(two: Task, tmp_path: Path, suffix: str) -> None:
    lines = compare(two, ["random", "balanced", "zero"], m=8)
    path = tmp_path / "new" / f"plot.{suffix}"
    plot_comparison(lines, path, "people")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG") if suffix == "png" else b"balanced" in content or b"<svg" in content
    with pytest.raises(FwcError, match=r"ends in \.png or \.svg"):
        plot_comparison(lines, tmp_path / "plot.txt", "people")
    with pytest.raises(FwcError, match="nothing to plot"):
        plot_comparison([line for line in lines if line.strategy == "zero"], path, "people")


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`fwc-llm shots` with these arguments: exit code, standard output, standard error on one line."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")

    def shots(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fwc-llm", "shots", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as done:
            code = int(done.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, " ".join(captured.err.split())

    return shots


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write_people(tmp_path / "table", make_people(120, 2))


def test_the_command_saves_what_select_shots_chooses(run: Run, people: Path, tmp_path: Path) -> None:
    from fwc_llm.tasks import load_task

    path = tmp_path / "shots.json"
    code, out, err = run("--task", people, "--m", 8, "--seed", 3, "-o", path)
    assert (code, out) == (0, "")
    assert "8 examples by fwc" in err
    assert "certificate: distance" in err
    task = load_task(people)
    assert load_shots(path, task) == select_shots(task, "fwc", 8, seed=3)
    assert json.loads(path.read_text())["certificate"]["seed"] == 3


@pytest.mark.slow
def test_the_command_compares_and_plots(run: Run, people: Path, tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    code, out, err = run(
        "--task", people, "--compare", "--strategy", "random,zero,fwc", "--m", 8, "--plot", plot
    )
    assert code == 0
    assert out.index("fwc") < out.index("random") < out.index("zero")
    assert "zero: no examples" in err
    assert plot.exists()
    assert re.search(r"choosing and measuring took \d+\.\d s in all", err)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--compare", "--plot", "plot.txt"), "ends in .png or .svg"),
        (("--compare", "-o", "x.json"), "saves no examples"),
        (("--plot", "plot.svg"), "add --compare"),
    ],
)
def test_what_a_comparison_cannot_do(run: Run, arguments: tuple[str, ...], words: str) -> None:
    """The task is not even looked for."""
    code, _, err = run("--task", "nowhere.toml", *arguments)
    assert code == 2
    assert words in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--strategy", "best"), "unknown strategy 'best': choose one of zero"),
        (("--strategy", "nearest"), "nearest chooses anew for every queried row"),
        (("--epsilon", "x"), "epsilon: input should be a valid number"),
        (("--epsilon", "2"), "epsilon is 2.0"), (("--option", "slots"), "--option is not KEY=VALUE"),
        (("--option", "metric=l2"), "no option 'metric': it takes slots"),
        (("--m", "1000"), "only 120 rows may become examples"),
        (("--max-prompt-tokens", "5"),
         "the fewest examples that every arm accepts make prompts of more than the 5 tokens"),
        (("--max-prompt-tokens", "5", "--strategy", "random"), "more than the 5 tokens"),
        (("--ids", "people.csv:999"), "'people.csv:999' is not in the pool"),
        (("-o", "/proc/nowhere/shots.json"), "cannot write the shots to /proc/nowhere/shots.json"),
    ],
)  # fmt: skip
def test_the_command_refuses(run: Run, people: Path, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run("--task", people, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
