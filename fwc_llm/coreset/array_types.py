"""Short names of numpy's types."""

import numpy as np

Array = np.ndarray
Floats = Array  # of float64
Ints = Array  # of some integer type
Rng = np.random.Generator
