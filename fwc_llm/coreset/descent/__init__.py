"""The descent, Algorithm 1 of the paper: assign rows, solve the inner problem, move representatives."""
