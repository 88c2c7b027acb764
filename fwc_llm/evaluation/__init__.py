"""Evaluate a model: takes a task, a model and ways to choose examples; returns a `Result`."""
