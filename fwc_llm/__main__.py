"""`python -m fwc_llm` is the command line too."""

from fwc_llm.cli import main

main()
