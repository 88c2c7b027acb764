"""OpenAI-compatible services: chat completions, Azure, Batch API, pacing, prices."""
