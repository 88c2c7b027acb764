"""Tables: where they lie, how they are read, checked and split; and the simulated census."""
