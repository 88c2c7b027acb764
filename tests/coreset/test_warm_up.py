"""After `fwc-llm warm-up` nothing is left to compile."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fwc_llm.coreset.warm_up import problems

FITS = """
import tempfile
import numpy as np
import pandas as pd
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.distance import wasserstein
from fwc_llm.coreset.fairwasp import FairWASP
from fwc_llm.coreset.rivals.faster_pam import kmedoids
rng = np.random.default_rng(0)
def table(n, p):
    return rng.normal(size=(n, p)), rng.integers(0, 2, n), rng.integers(0, 3, n)
for cost in ("l1", "sqeuclidean"):
    x, y, d = table(120_000, 6)
    x[0, 0] = 1e4
    FairCoreset(40, cost=cost, max_iter=5, random_state=0).fit(x.astype(np.float32), y, d)
    x, y, d = table(30_000, 12)
    frame = pd.DataFrame(x.round(1)).rename(columns=str).assign(kind=rng.choice(list("abc"), len(x)))
    FairCoreset(300, cost=cost, max_iter=5, init="random", random_state=0).fit(frame, y, d)
    for support in ("rows", "features"):
        FairCoreset(12, cost=cost, support=support, max_iter=3, random_state=0).fit(*table(4_500, 60))
    FairCoreset(6, cost=cost, max_iter=2, swaps=True, random_state=0).fit(*table(900, 3))
x, y, d = table(40_000, 12)
with tempfile.NamedTemporaryFile() as file:
    x.tofile(file.name)
    rows = np.memmap(file.name, x.dtype, mode="r", shape=x.shape)
    for cost in ("l1", "sqeuclidean"):
        for support in ("free", "rows"):
            FairCoreset(9, cost=cost, support=support, sample=500, max_iter=1, random_state=0).fit(rows, y, d)
kmedoids(*table(700, 4), 6)
kmedoids(*table(700, 4), 6, metric="l2")
FairWASP().fit(*table(4_000, 9))
FairWASP(cost="sqeuclidean").fit(*table(4_000, 9))
wasserstein(rng.random((300, 7)), rng.random(7))
from fwc_llm.coreset.compiled import compiled
print(sorted(set(compiled)))
"""


def test_every_kind_of_problem_has_a_name_of_its_own():
    names = [name for name, _ in problems()]
    assert len(set(names)) == len(names) == 8


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_all_is_compiled_by_the_command_and_nothing_afterwards(tmp_path: Path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "COLUMNS": "200"}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command], env=environment, capture_output=True, text=True, check=True
        )

    first, second = (run("-m", "fwc_llm", "warm-up") for _ in range(2))
    assert "free representatives: compiled in" in first.stdout
    assert "Compiled " in first.stdout
    assert "compiled in" not in second.stdout
    assert "Everything was compiled already" in second.stdout
    for done in (first, second):
        assert done.stdout.count("\n") == len(list(problems())) + 1
        assert str(tmp_path) in done.stdout
        assert "compiling the solver for this machine" not in done.stderr
    assert run("-c", FITS).stdout.strip() == "[]"
