"""Leaving a local optimum: where to start, on how many rows, and which representatives to exchange."""
