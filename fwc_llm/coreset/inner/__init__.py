"""How the inner problem is solved exactly; `fwc_llm.coreset.transport` is the door.

`parity` is the set of fair masses, `dual` and `dual_walk` the long-step dual simplex method on the prices
of the cells, `merging` and `narrowing` reduce a large table to the rows that are in doubt, `cost_table` and
`transport_kernels` read the costs.
"""
