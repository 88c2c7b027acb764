"""Leaving a local optimum: where to start, on how many rows, and which representatives to swap.

`schedule` chooses among the others by the size of the table. Why one engine of swaps serves all:
docs/decisions/0005-one-swap-engine.md.
"""
