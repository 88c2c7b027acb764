"""Steps of the rivals of Fair Wasserstein Coresets, which strategies call (docs/baselines.md)."""
