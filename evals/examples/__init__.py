"""Applications to copy from, each with the test that its CI runs."""
