"""The inner problem again, after a small change of the costs, in a fraction of the time."""
