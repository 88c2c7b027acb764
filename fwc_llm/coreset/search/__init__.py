"""Leaving a local optimum: where to start, on how many rows, and which representatives to swap.

Three pieces of code compare swaps, each for another size of table:

* `swaps`, with `gains`, solves the inner problem after every swap, on all rows: the most exact;
* `local_search`, with `swap_kernels`, takes each swap at once that gains, on samples of some thousand rows,
  hundreds of times a fit: the fastest there;
* `fwc_llm.coreset.exchange` compares batches at fixed prices, without keeping the rows' costs: the only one
  for large tables, and for k-medoids.

The last in the place of all three takes a third to a half of the time below 3,000 rows. But on Adult with 16
representatives (ε 0.01, the default call, seeds 0 to 4) a trial ended 0.14 to 0.82 % above the best known
objective, where the three end 0.16 to 0.31 % above it (evals/results/solver.md).
"""
