"""The page's table of contents, made from its headings: whoever adds a part has to do nothing for it."""

import re
from dataclasses import dataclass

PLACE = "<!-- contents -->"
_MARKUP = re.compile(r"<[^>]*>")
_FEWEST = 3  # headings that are worth a table of contents
_HEADING = re.compile(
    r'<section id="(?P<section>[^"]+)"|<h(?P<level>[23])(?P<rest>(?: [^>]*)?)>(?P<title>.*?)</h(?P=level)>',
    re.DOTALL,
)
_ID = re.compile(r' id="([^"]+)"')


@dataclass(frozen=True)
class Heading:
    """A heading: its level (2 or 3), its name in the page, and its text as HTML without elements."""

    level: int
    id: str
    title: str


def with_contents(page: str) -> str:
    """Return the page with an `id` on every heading of level 2 and 3, and the contents at `PLACE`.

    An `id` that a heading has stays. Others begin with that of the last section before them, so that runs
    with the same headings keep apart.
    """
    found: list[Heading] = []
    taken: set[str] = set()
    section = ""

    def name(match: re.Match[str]) -> str:
        nonlocal section
        if match["section"]:
            section = match["section"]
            return match[0]
        title = _MARKUP.sub("", match["title"]).strip()
        given = _ID.search(match["rest"])
        id = given[1] if given else _unique(_slug(f"{section} {title}"), taken)
        taken.add(id)
        found.append(Heading(int(match["level"]), id, title))
        rest = match["rest"] if given else f'{match["rest"]} id="{id}"'
        return f"<h{match['level']}{rest}>{match['title']}</h{match['level']}>"

    before, place, after = page.partition(PLACE)
    if not place:
        return page
    after = _HEADING.sub(name, after)
    return before + (_navigation(found) if len(found) >= _FEWEST else "") + after


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"&[#\w]+;", "", text.lower())).strip("-") or "part"


def _unique(name: str, taken: set[str]) -> str:
    number, tried = 2, name
    while tried in taken:
        tried, number = f"{name}-{number}", number + 1
    return tried


def _navigation(found: list[Heading]) -> str:
    items = "".join(
        f'<li class="level-{one.level}"><a href="#{one.id}">{one.title}</a></li>\n' for one in found
    )
    return (
        '<nav class="contents" aria-label="Contents"><details><summary>Contents</summary>\n'
        f"<ul>\n{items}</ul>\n</details></nav>\n"
    )
