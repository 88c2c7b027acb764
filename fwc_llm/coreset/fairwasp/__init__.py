"""FairWASP: fair weights for the rows of a table, with no new points."""
