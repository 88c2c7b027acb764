"""The documentation as a site: `python -m evals.site`
(docs/decisions/0006-sphinx-for-the-site.md).
"""
