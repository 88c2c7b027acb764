"""Swaps at fixed prices, in memory that grows with n: for k-medoids, and for coresets on samples."""
