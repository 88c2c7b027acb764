"""The same input and seed give the same coreset in every process, whatever it compiled before."""

import pytest

from tests.command import python

FITS = """
import os, sys, zlib
import numpy as np, pandas as pd
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.transport.inner_problem import fair_transport
if hasattr(os, "sched_setaffinity"):  # the inner problem takes all processors
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
if "warm" in sys.argv:  # everything has run in this process before
    from fwc_llm.coreset.warm_up import PROBLEMS
    for run in PROBLEMS.values():
        run()
rng = np.random.default_rng(0)
y, d = rng.integers(0, 2, 400), rng.integers(0, 2, 400)
whole = np.rint(2 * rng.normal(size=(400, 5)))
kinds = pd.DataFrame({k: rng.choice(list("abcde")[:count], 400) for k, count in zip("pqrs", (2, 3, 4, 5))})
mixed = kinds.assign(x=whole[:, 0], z=rng.normal(size=400))
ways = ("free", "l1"), ("free", "sqeuclidean"), ("rows", "sqeuclidean"), ("features", "l1")
for table in (whole, kinds, mixed):
    for support, cost in ways:
        options = {"support": support, "cost": cost, "random_state": 0, "n_jobs": int(sys.argv[1])}
        fitted = FairCoreset(12, **options).fit(table, y, d)
        print(support, cost, fitted.objective_.hex(), fitted.weights_.tobytes().hex())
for cost in (rng.integers(0, 5, (9000, 4)), rng.random((600_000, 4)).astype(np.float32)):
    plan = fair_transport(cost, 2, 2, [0.4, 0.6], 0.01)
    print(plan.objective.hex(), plan.lower_bound.hex(), plan.prices.tobytes().hex(), zlib.crc32(plan.cell))
"""


@pytest.mark.slow
def test_a_process_and_its_threads_do_not_change_a_coreset() -> None:
    fresh = python("-c", FITS, 1, "fresh").stdout
    assert fresh.count("\n") == 14
    assert python("-c", FITS, 3, "warm").stdout == fresh
