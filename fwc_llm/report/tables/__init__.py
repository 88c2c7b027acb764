"""The report as tables: text cells, Markdown and tidy CSV."""
