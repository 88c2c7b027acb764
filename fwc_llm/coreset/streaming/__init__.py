"""Tables beyond memory: a sample is solved, all rows are read in blocks, the result is certified."""
