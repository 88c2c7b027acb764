"""Swaps of representatives for rows: the engine of FasterPAM, and what stands between two swaps."""
