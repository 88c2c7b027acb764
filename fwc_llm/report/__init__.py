"""Reports on runs and audits: terminal, HTML page, Markdown, JSON, CSV, figures."""
