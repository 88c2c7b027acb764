"""The exact Wasserstein distance between a table and a weighted coreset."""
