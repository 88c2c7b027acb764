"""Tables as the solver reads them: arrays in memory, or the columns of a DataFrame where they are."""
