"""Tables beyond memory: a sample is solved in memory, and passes over all rows certify the result."""
