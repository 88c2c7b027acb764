"""From a plan to answers on disk: calls, journal, results."""
