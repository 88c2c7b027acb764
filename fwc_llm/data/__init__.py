"""Tables: finding, reading, checking and splitting them; and the simulated census."""
