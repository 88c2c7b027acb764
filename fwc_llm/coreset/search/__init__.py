"""Leaving a local optimum: where to start, on how many rows, and which representatives to swap.

* `start` draws the rows from which a descent starts;
* `samples` draws rows that stand for all of them;
* `swaps` exchanges representatives for rows, by `fwc_llm.coreset.swaps`: on all rows, where the inner
  problem judges every swap, or on a sample at fixed prices;
* `local_search` looks at many local optima of samples and carries the best to all rows;
* `schedule` chooses among these by the size of the table.

Why one engine serves all: docs/decisions/0005-one-swap-engine.md.
"""
