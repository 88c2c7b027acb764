"""One build of the site: sources into a folder, then Sphinx with every warning an error."""

import sys
from pathlib import Path

from evals.site import api, commands, notebooks
from evals.site.pages import CHECKOUT, stage, write

_HERE = Path(__file__).parent
_SETTINGS = {
    "project": "fwc-llm",
    "extensions": ["myst_parser"],
    "root_doc": "index",
    "html_theme": "furo",
    "html_title": "fwc-llm",
    "html_static_path": ["_static"],
    "html_css_files": ["site.css"],
    "html_copy_source": False,
    "html_show_sphinx": False,
    "smartquotes": False,  # `--` stands for itself
    "html_show_copyright": False,
    "myst_heading_anchors": 6,
    "myst_links_external_new_tab": False,
    # Blocks without a language are commands and drawings.
    "highlight_language": "none",
    # Jinja and TOML of examples may be parts of a file.
    "suppress_warnings": ["misc.highlighting_failure"],
}


def write_sources(made: Path) -> None:
    """Write what Sphinx reads: the reference, the notebooks, all pages, and the style."""
    for name, text in (api.pages() | commands.pages()).items():
        write(made, f"reference/{name}.md", text)
    for notebook in sorted((CHECKOUT / "docs" / "notebooks").glob("*.ipynb")):
        notebooks.as_page(notebook, made / "notebooks")
    stage(made)
    for name in ("site.css",):
        write(made, f"_static/{name}", (_HERE / name).read_text(encoding="utf-8"))


def build(made: Path, out: Path) -> int:
    """Build the site into `out` by way of its sources in `made`; 0, or 1 where anything is
    warned of.
    """
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace

    sources = made / "sources"
    write_sources(sources)
    with docutils_namespace():
        site = Sphinx(
            sources,
            None,
            out,
            made / "doctrees",
            "html",
            dict(_SETTINGS),
            status=None,
            warning=sys.stderr,
            freshenv=True,
            warningiserror=True,
        )
        site.build()
    return int(site.statuscode)
