"""The search for a good local optimum: starts, samples of growing size, and swaps of representatives.

`schedule` chooses the steps by the size of the table. docs/decisions/0005-one-swap-engine.md says why all
swaps use `fasterpam`.
"""
