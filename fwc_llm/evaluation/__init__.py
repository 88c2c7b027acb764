"""The whole line in one function: a task, a model and ways to choose examples in, a `Result` out."""
