"""Every fault of the table, once and lasting, through eval, the same again, rescore and every
report.

python -m evals.faults            # all of them, a few minutes; the exit code is 1 when something is
                                  wrong
python -m evals.faults redirect   # those whose name holds the word
"""

import os
import sys
import tempfile
from pathlib import Path

from tests.faults.decisions import decision_faults, shared_faults
from tests.faults.passage import KEY_VARIABLE, passage
from tests.faults.table import FAULTS, KEY


def main() -> int:
    os.environ[KEY_VARIABLE] = KEY
    words = sys.argv[1:] or [""]
    cases = [("chat", fault) for fault in FAULTS]
    for api in ("decisions", "systemone"):
        cases += [(api, fault) for fault in (*shared_faults(), *decision_faults(api))]
    chosen = [
        (api, fault)
        for api, fault in cases
        if any(word in fault.name for word in words)
    ]
    failed = 0
    for api, fault in chosen:
        for lasting in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    wrong = passage([fault], lasting, Path(folder) / "run", api=api)
                except Exception as error:  # what a user would see as a traceback
                    wrong = [f"it raised {type(error).__name__}: {error}"[:500]]
            failed += bool(wrong)
            how = "lasting" if lasting else "once"
            print(
                f"{api:9} {fault.kind:9} {how:8} {fault.name[:60]:60} {'; '.join(wrong) or 'ok'}",
                flush=True,
            )
    print(f"{2 * len(chosen)} passages of {len(chosen)} faults, {failed} of them wrong")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
