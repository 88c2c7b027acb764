"""The reference of the Python interface, from signatures and docstrings: a page a package, a
page a topic.

The page of `fwc_llm` lists its names; what none of its packages explains has a page by its topic.
"""

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import Any

from evals.site.docstring import as_markdown, first_sentence

# The packages whose `__all__` is the public interface; a name is explained in the first that has
# it.
MODULES = (
    "fwc_llm.coreset",
    "fwc_llm.coreset.rivals",
    "fwc_llm.shots",
    "fwc_llm.models",
    "fwc_llm.gates",
    "fwc_llm.testing",
    "fwc_llm.inspect",
    "fwc_llm",
)
# Of what `fwc_llm` alone has: a page's title, by the rooms that the names come from.
TOPICS = {
    "fwc_llm-tasks": ("Tasks and prompts", ("tasks", "prompts")),
    "fwc_llm-evaluation": ("Evaluating and tuning", ("evaluation", "runs")),
    "fwc_llm-audit": ("Auditing", ("report",)),
    "fwc_llm-errors": ("Errors", ("errors",)),
}
_LONG = 72  # characters of a signature on one line: as many as a page shows


def pages() -> dict[str, str]:
    """Every page as Markdown, by the name of its package."""
    home: dict[int, str] = {}
    made: dict[str, str] = {}
    for topic, (title, rooms) in TOPICS.items():
        package = import_module("fwc_llm")
        here = [name for name in package.__all__ if _room(getattr(package, name)) in rooms]
        made[topic] = "\n".join([f"# {title}\n", *_described(package, sorted(here), topic, home)])
    for module in MODULES:
        made[module] = "\n".join(_page(module, home))
    return made


def _room(value: Any) -> str:
    return str(getattr(value, "__module__", "")).partition(".")[2].partition(".")[0]


def _page(module: str, home: dict[int, str]) -> Iterator[str]:
    package = import_module(module)
    yield f"# {module}\n"
    yield as_markdown(package.__doc__)
    yield from _described(package, sorted(package.__all__, key=str.lower), module, home)


def _described(package: Any, names: list[str], page: str, home: dict[int, str]) -> Iterator[str]:
    """A table of names, then those that no page has explained."""
    yield "\n| name | what it is |\n|---|---|"
    slugs: list[str] = []
    for name in names:
        known = home.get(id(getattr(package, name)))
        slug = name.lower() + ("-1" if not known and name.lower() in slugs else "")
        slugs += [] if known else [slug]
        target = known or f"#{slug}"
        yield f"| [`{name}`]({target}) | {_summary(package, name)} |"
    fresh = [name for name in names if id(getattr(package, name)) not in home]
    for name, slug in zip(fresh, slugs, strict=True):
        home[id(getattr(package, name))] = f"{page}.md#{slug}"
        yield from _entry(name, getattr(package, name), "##")


def _summary(package: Any, name: str) -> str:
    value = getattr(package, name)
    documented = inspect.isclass(value) or inspect.isroutine(value)
    if documented:
        return first_sentence(inspect.getdoc(value) or "").replace("|", "\\|")
    return "a value"


def _entry(name: str, value: Any, level: str) -> Iterator[str]:
    yield f"\n{level} {name}\n"
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        yield f"```python\n{name.rpartition('.')[2]} = {_words(repr(value))}\n```"
        return
    yield f"```python\n{_signature(name, value)}\n```\n"
    yield as_markdown(inspect.getdoc(value))
    if inspect.isclass(value):
        for member, inner in _members(value):
            yield from _entry(f"{name}.{member}", inner, f"{level}#")


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods of a class and of its bases of ours; properties by their function."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("fwc_llm"):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            if isinstance(value, property) and value.fget is not None:
                value = value.fget
            elif isinstance(value, cached_property):
                value = value.func
            elif isinstance(value, classmethod | staticmethod):
                value = value.__func__
            if inspect.isfunction(value) and value.__doc__:
                seen.add(name)
                yield name, value


def _signature(name: str, value: Any) -> str:
    if inspect.isclass(value):
        word = "class "
    else:
        word = ""
    called = f"{word}{name}"
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return called
    parameters = [
        one for one in found.parameters.values() if one.name not in {"self", "cls", "unknown"}
    ]
    written: list[str] = []
    for place, one in enumerate(parameters):
        alone = one.kind is inspect.Parameter.KEYWORD_ONLY
        if place:
            before = parameters[place - 1].kind
        else:
            before = inspect.Parameter.POSITIONAL_OR_KEYWORD
        if alone and before not in (
            inspect.Parameter.KEYWORD_ONLY,
            inspect.Parameter.VAR_POSITIONAL,
        ):
            written.append("*")
        written.append(_parameter(one))
    if found.return_annotation in (inspect.Signature.empty, None):
        result = ""
    else:
        result = found.return_annotation
    if result and not inspect.isclass(value):
        end = f" -> {_annotation(result)}"
    else:
        end = ""
    short = f"{called}({', '.join(written)}){end}"
    if len(short) <= _LONG:
        return short
    return "\n".join([f"{called}(", *(f"    {one}," for one in written), f"){end}"])


def _parameter(one: inspect.Parameter) -> str:
    text = str(one).partition(":")[0].partition("=")[0].strip()  # with its stars
    if one.annotation is not inspect.Parameter.empty:
        text += f": {_annotation(one.annotation)}"
    if one.default is not inspect.Parameter.empty:
        text += (
            f" = {_words(repr(one.default))}" if ":" in text else f"={_words(repr(one.default))}"
        )
    return text


def _annotation(given: Any) -> str:
    if isinstance(given, str):
        text = given
    else:
        text = inspect.formatannotation(given)
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(\w+)", r"\1", text).replace("'", "").replace('"', "")


def _words(text: str) -> str:
    """A value as it prints, without addresses in memory."""
    return re.sub(r"<(?:[\w.]+\.)?(\w+)[^<>]*>", r"\1", text)
