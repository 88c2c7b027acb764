"""What is collected of every block while a table is read, and how findings are put together."""
