"""Services that speak OpenAI's protocol: chat completions, Azure, the Batch API, pacing and prices."""
