"""Swaps of points for rows, compiled or with numpy alone, with prices that are fixed or that a judge sets."""
