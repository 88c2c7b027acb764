"""One reading of a table in blocks: what is asked of every block, and what is made of the answers."""
