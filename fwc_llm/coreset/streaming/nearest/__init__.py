"""Which representative carries a row, told without all distances where that is possible."""
