"""The descent (the paper's Algorithm 1): assign, solve the inner problem, move the representatives."""
