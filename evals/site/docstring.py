"""A docstring of ours as Markdown: sections become lists, citations of the manual become links."""

import inspect
import re
from collections.abc import Iterator

_SECTIONS = {"Args", "Attributes", "Raises", "Returns", "Yields", "Errors"}
_ITEM = re.compile(r"(?P<names>[\w*]+(?:, [\w*]+)*)(?: \((?P<note>[^)]*)\))?: +(?P<text>.*)", re.S)
_CITED = re.compile(r'docs/(?P<page>[\w/-]+\.md)(?:, "(?P<section>[^"]+)")?')


def as_markdown(docstring: str | None) -> str:
    """The docstring as Markdown, for a page one folder below the manual."""
    text = inspect.cleandoc(docstring or "")
    return "\n\n".join(_blocks(text))


def first_sentence(docstring: str) -> str:
    """The first line's sentence, for a table."""
    first = inspect.cleandoc(docstring).partition("\n\n")[0]
    return _inline(re.split(r"(?<=\.)\s", " ".join(first.split()))[0])


def _blocks(text: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", text):
        lines = block.splitlines()
        if not lines:
            continue
        if lines[0].rstrip(":") in _SECTIONS and lines[0].endswith(":"):
            yield f"**{lines[0][:-1]}**"
            yield "\n".join(_items(lines[1:]))
        elif all(line.startswith("    ") for line in lines) or _in_columns(lines):
            yield "```\n" + inspect.cleandoc("\n" + block) + "\n```"
        else:
            yield _inline(block)


def _in_columns(lines: list[str]) -> bool:
    """Whether a block is a table laid by hand."""
    return (
        len(lines) > 1
        and sum(bool(re.search(r"\S {3,}\S", line)) for line in lines) > len(lines) / 2
    )


def _items(lines: list[str]) -> Iterator[str]:
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    items: list[str] = []
    for line in lines:
        if len(line) - len(line.lstrip()) > indent and items:
            items[-1] += f" {line.strip()}"
        else:
            items.append(line.strip())
    for item in items:
        found = _ITEM.fullmatch(item)
        if found:
            names = ", ".join(f"`{name}`" for name in found["names"].split(", "))
            if found["note"]:
                note = f" ({found['note']})"
            else:
                note = ""
            yield f"* {names}{note}: {_inline(found['text'])}"
        else:
            yield f"* {_inline(item)}"


def _inline(text: str) -> str:
    """Text of a docstring outside code: nothing in it is HTML, and what cites the manual links
    there.
    """
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if place % 2 else _linked(piece) for place, piece in enumerate(pieces))


def _linked(text: str) -> str:
    text = re.sub(r"([<\\*\[\]])", r"\\\1", text)

    def link(found: re.Match[str]) -> str:
        slug = re.sub(r"[^\w\- ]", "", (found["section"] or "").lower()).replace(" ", "-")
        return f"[{found[0]}](../{found['page']}{'#' + slug if slug else ''})"

    return _CITED.sub(link, text)
