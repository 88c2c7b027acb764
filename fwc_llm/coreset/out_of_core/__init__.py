"""Tables larger than memory: a sample is solved in memory; passes over all rows certify the result."""
