"""Benchmarks; each prints a ratio against its peer in the same run."""
