"""Tables beyond memory: a sample is solved in memory, and readings of all rows certify the result."""
