"""Benchmarks; each prints its ratio to a peer in the same run."""
