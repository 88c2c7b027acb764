"""The surrogate, an offline simulation of gpt-4-0314 on Adult rows, and its server."""
