"""Runs the command line as `python -m fwc_llm`."""

from fwc_llm.cli import main

main()
