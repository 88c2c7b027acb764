"""The problem to solve: the encoded table, its cells, the slots, and all other fixed data."""
