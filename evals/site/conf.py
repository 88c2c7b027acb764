"""Settings of the site: Sphinx reads the pages of the checkout where they are
(docs/decisions/0006-sphinx-for-the-site.md).
"""

import inspect
import json
import re
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fwc_llm.cli.program import every_command

PROGRAM = every_command()
CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT))

project = "fwc-llm"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "evals/site/index"
include_patterns = ["*.md", "docs/**", "prompts/*.md", "evals/**.md"]
exclude_patterns = ["README.md", "docs/pictures/**", "**/.*"]
html_theme = "furo"
html_title = "fwc-llm"
html_extra_path = ["index.html"]
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
smartquotes = False  # `--` stands for itself
default_role = "literal"
highlight_language = "none"  # blocks without a language are commands and drawings
suppress_warnings = ["misc.highlighting_failure"]  # examples may be parts of a file
myst_heading_anchors = 6
autodoc_member_order = "alphabetical"
autodoc_default_options = {"exclude-members": "set_fit_request, set_score_request"}
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 72
napoleon_custom_sections = ["Errors"]
_COLUMNS = re.compile(r"[^\n]*\S {3,}\S")  # a table of options
_GLUED = re.compile(r"(?<=\w`)(?=\w)")  # `Example`s
_CITED = re.compile(r'docs/([\w/-]+)\.md(?:, "([^"]+)")?')


class Commands(SphinxDirective):
    """The help of every command, with its arguments and options."""

    def run(self) -> list[nodes.Node]:
        """A section for each command."""
        sections: list[nodes.Node] = []
        for name, command in _commands(PROGRAM, "fwc-llm"):
            section = nodes.section(ids=[nodes.make_id(name)])
            section += nodes.title(text=name)
            section += _paragraphs(command.help)
            options = nodes.definition_list()
            for option in command.params:
                names = [*option.opts, *option.secondary_opts]
                if option.param_type_name == "argument":
                    names = [option.metavar or option.name]
                if not getattr(option, "hidden", False):
                    term = nodes.term("", "", nodes.literal(text=", ".join(names)))
                    text = nodes.definition("", *_paragraphs(option.help))
                    options += nodes.definition_list_item("", term, text)
            section += options
            sections.append(section)
        return sections


def _commands(group: Any, name: str) -> list[tuple[str, Any]]:
    """The name and the command of all commands, those in groups included."""
    found = []
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            found += _commands(command, f"{name} {word}")
        else:
            found.append((f"{name} {word}", command))
    return found


def _paragraphs(text: str | None) -> list[nodes.Node]:
    """Help without the marks of the terminal; `code` is literal."""
    plain = re.sub(r"\\(?=\[)|[\f\b]", "", inspect.cleandoc(text or ""))
    found: list[nodes.Node] = []
    for block in plain.split("\n\n"):
        paragraph = nodes.paragraph()
        for number, part in enumerate(block.split("`")):
            paragraph += nodes.literal(text=part) if number % 2 else nodes.Text(part)
        found.append(paragraph)
    return found


class NotebookParser(MystParser):
    """Reads a notebook with its stored outputs as a page."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse the notebook's cells as Markdown."""
        cells = json.loads(inputstring)["cells"]
        super().parse("\n\n".join(map(_markdown, cells)), document)


def _markdown(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    blocks = [f"```python\n{source}\n```"]
    for output in cell["outputs"]:
        data = output.get("data", {})
        html = "".join(data.get("text/html", ""))
        if "image/png" in data:
            picture = "".join(data["image/png"]).replace("\n", "")
            first = source.partition("\n")[0].removeprefix("# ")
            html = f'<img alt="{first}" src="data:image/png;base64,{picture}">'
        if html:
            blocks.append(
                f'```{{raw}} html\n<div class="cell-output">{html}</div>\n```'
            )
        else:
            text = "".join(output.get("text") or data.get("text/plain", ""))
            blocks.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(blocks)


def _as_rest(
    app: Sphinx, what: str, name: str, of: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings are Markdown: link what cites the manual, and keep tables in columns."""

    def link(found: re.Match[str]) -> str:
        section = re.sub(r"[^\w\- ]", "", (found[2] or "").lower()).replace(" ", "-")
        return f"`{found[0]} <../../../docs/{found[1]}.html#{section}>`__"

    blocks = "\n".join(lines).split("\n\n")
    for index, block in enumerate(blocks):
        if _COLUMNS.match(block):
            blocks[index] = f"::\n\n{indent(block, '    ')}"
        else:
            block = _GLUED.sub("\\\\ ", block.replace("|", "\\|"))
            blocks[index] = _CITED.sub(link, block)
    lines[:] = "\n\n".join(blocks).split("\n")


def setup(app: Sphinx) -> None:
    """Add the notebooks, the reference of commands, and the docstrings."""
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
    app.add_directive("commands", Commands)
    app.connect("autodoc-process-docstring", _as_rest)
