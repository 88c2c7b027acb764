"""The parts of `tune`: what is aimed at, which candidates there are, how they are raced."""
