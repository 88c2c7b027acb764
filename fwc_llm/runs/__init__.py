"""Runs: plan the calls, execute them, keep a journal, score the answers."""
