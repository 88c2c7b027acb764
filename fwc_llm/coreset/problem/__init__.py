"""The given problem: the table as numbers and codes, its cells, the slots, and all other fixed data."""
