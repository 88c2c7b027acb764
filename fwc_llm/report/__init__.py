"""The output of a finished run: on the terminal, as tidy files, as one HTML page."""
