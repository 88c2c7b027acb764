"""Does the paper's claim hold for a real model? Qwen2.5-Coder-Instruct, asked on this machine."""
