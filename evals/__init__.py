"""Experiments, benchmarks and their recorded results; not part of the installed package."""
