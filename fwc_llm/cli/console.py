"""Where the commands print: results to standard output, everything about the work to standard error."""

from rich.console import Console

from fwc_llm.progress import Terminal

# No markup: names of columns, groups and files are printed, and "[/b]" in one is text.
out = Console(soft_wrap=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)
_shown = Terminal(err)
working = _shown.working
asking = _shown.asking
