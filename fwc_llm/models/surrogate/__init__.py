"""The surrogate, a simulation of gpt-4-0314 on Adult rows, and its answers to OpenAI's SDK."""
