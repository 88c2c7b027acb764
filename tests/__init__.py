"""Before numpy is imported: a process of the suite has a core, and more threads of BLAS and
OpenMP only wait.

With two busy cores they made a fit of a logistic regression take ten times as long.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
