"""Our tasks, metrics and surrogate inside Inspect, and its logs as runs of ours. Extra: `inspect`."""
