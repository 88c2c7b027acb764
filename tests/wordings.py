"""The template sets that hold the question themselves, as a chat needs it."""

from fwc_llm.prompts import templates

CHATS = tuple(name for name in templates() if name != "decision")
