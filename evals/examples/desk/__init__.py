"""A desk that decides: a web handler, saved examples, and its test."""
