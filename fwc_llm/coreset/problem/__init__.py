"""The problem to solve: encoded table, cells, slots, and all other fixed data."""
