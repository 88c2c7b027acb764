"""Tables larger than memory: solve a sample, and certify the result on all rows."""
