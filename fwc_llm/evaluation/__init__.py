"""Evaluates models on tasks (`evaluate`), and tunes their examples (`tune`)."""
