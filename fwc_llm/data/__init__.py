"""Tables: locate, download, read, clean and check them; the simulated census."""
