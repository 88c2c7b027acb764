"""What a finished run looks like: on the terminal, as tidy files, as one HTML page."""
