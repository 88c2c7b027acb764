"""The descent (the paper's Algorithm 1): assign, solve, move representatives."""
