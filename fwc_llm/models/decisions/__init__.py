"""Decision models: typed questions about an input, answered with a probability and no text."""
