"""Fit coresets as the lines on standard input ask; `evals.bench.peer` starts this file for each
checkout.
"""

import json
import sys
import time
import warnings

import numpy as np

from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset


def main() -> None:
    """Answer every line, the JSON of n, p and options, by CPU seconds and the certificate."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        case = json.loads(line)
        table = synthetic(case["n"], case["p"])
        model = FairCoreset(
            **case["options"], n_jobs=1, random_state=case.get("seed", 0)
        )
        start = time.process_time()
        model.fit(*table)
        seconds = time.process_time() - start
        gap = model.objective_ - model.lower_bound_
        answer = {
            "seconds": seconds,
            "objective": model.objective_,
            "gap": float(np.abs(gap)),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
