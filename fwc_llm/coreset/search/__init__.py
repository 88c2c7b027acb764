"""The search for a good local optimum: starts, growing samples, and swaps.

`schedule` chooses the steps by the size of the table. docs/decisions/0005-one-swap-engine.md says
why all swaps use `fasterpam`.
"""
