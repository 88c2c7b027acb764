"""The simplex method for the inner problem: its steps, and the plan that its last basis gives."""
