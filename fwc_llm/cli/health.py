"""What `fwc-llm doctor` looks at: each check says what it found, and what to do where that is not well."""

import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

from fwc_llm.errors import FwcError

_NAME = "fwc-llm"
_EXTRAS = {
    "parquet": "Parquet tables",
    "excel": "Excel tables",
    "plot": "pictures of `shots --compare`",
    "reference": "gradient boosting among the reference lines",
    "inspect": "Inspect's tasks, logs and providers",
    "local": "models' files in this process (gguf:FILE, smollm2)",
}
_KEYS = {"OPENAI_API_KEY": "OpenAI", "AZURE_OPENAI_API_KEY": "Azure OpenAI"}
_SECONDS = 3.0
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*(?P<bounds>[^;]*)(?:;(?P<marker>.*))?$")


@dataclass(frozen=True)
class Finding:
    """One check. `state` "note" is no fault: something that could be there, and is not."""

    check: str
    state: Literal["ok", "note", "broken"]
    found: str
    todo: str = ""


def examine(base_url: str | None, api_key_env: str | None, online: bool) -> Iterator[Finding]:
    """All checks, those that need no network first; the service only where that was asked for."""
    yield from _versions()
    yield from _extras()
    for what, look in (("templates and tasks", _resources), ("data", _data), ("compiled solver", _compiled)):
        try:
            yield from look()
        except (ImportError, FwcError, OSError) as error:  # a package or a file that is missing or damaged
            yield Finding(what, "broken", f"cannot be looked at: {error}", "install the package again")
    yield from _keys(api_key_env, base_url)
    for url in filter(None, (base_url, "https://api.openai.com/v1" if online and not base_url else None)):
        yield _service(url)


def _versions() -> Iterator[Finding]:
    from fwc_llm.version import __version__

    yield Finding("python", "ok", f"{platform.python_version()} at {sys.executable}, {platform.machine()}")
    try:
        requires = metadata.requires(_NAME) or []
    except metadata.PackageNotFoundError:
        yield Finding(_NAME, "note", f"{__version__}, not installed, read from its folder", "pip install .")
        return
    installed = metadata.version(_NAME)
    if installed == __version__:
        yield Finding(_NAME, "ok", __version__)
    else:
        found = f"the code is {__version__}, the installation says {installed}"
        yield Finding(_NAME, "note", found, "install it again: pip install .")
    for requirement in map(_REQUIREMENT.match, requires):
        if requirement and not requirement["marker"]:
            yield _package(requirement["name"], requirement["bounds"].strip())


def _package(name: str, bounds: str) -> Finding:
    again = f"pip install '{name}{bounds}'"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, "broken", "not installed", again)
    outside = [one for one in bounds.split(",") if one and not _holds(version, one.strip())]
    if outside:
        return Finding(name, "broken", f"{version}, but {_NAME} needs {bounds}", again)
    return Finding(name, "ok", version)


def _holds(version: str, bound: str) -> bool:
    """Whether a version keeps `>=1.2` or `<3`; other bounds are not judged."""
    place, least = _numbers(version), _numbers(bound)
    width = max(len(place), len(least))
    here, there = ((*one, *[0] * (width - len(one))) for one in (place, least))
    if bound.startswith(">="):
        return here >= there
    return here < there if bound.startswith("<") and not bound.startswith("<=") else True


def _numbers(text: str) -> tuple[int, ...]:
    found = re.search(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def _extras() -> Iterator[Finding]:
    try:
        requires = [match for one in metadata.requires(_NAME) or [] if (match := _REQUIREMENT.match(one))]
    except metadata.PackageNotFoundError:
        return
    for extra, use in _EXTRAS.items():
        marker = re.compile(rf"""extra\s*==\s*['"]{extra}['"]""")
        needed = [one["name"] for one in requires if one["marker"] and marker.search(one["marker"])]
        missing = [name for name in needed if name != _NAME and not _is_there(name)]
        if missing:
            todo = f"for {use}: pip install '{_NAME}[{extra}]'"
            yield Finding(f"extra {extra}", "note", f"{', '.join(missing)} not installed", todo)
        else:
            yield Finding(f"extra {extra}", "ok", use)


def _is_there(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _resources() -> Iterator[Finding]:
    from fwc_llm.prompts import templates
    from fwc_llm.tasks import task_names

    sets, names = templates(), task_names()
    for what, known, usual in (("templates", sets, "default"), ("tasks", names, "adult")):
        if usual in known:
            yield Finding(what, "ok", ", ".join(known))
        else:
            yield Finding(what, "broken", f"the installation has no {usual}", "install the package again")


def _data() -> Iterator[Finding]:
    from fwc_llm.data.locate import cache_folder
    from fwc_llm.files import home_expanded
    from fwc_llm.tasks import load_task, task_names

    named = os.environ.get("FWC_LLM_DATA")
    if named and not home_expanded(named).is_dir():
        todo = "name a folder that exists, or unset the variable"
        yield Finding("FWC_LLM_DATA", "broken", f"{named} is no folder", todo)
    tasks = [load_task(name) for name in task_names()]
    real = [task for task in tasks if not task.simulated]
    here = [task.name for task in real if task.locate() is not None]
    away = [task.name for task in real if task.name not in here]
    if here:
        yield Finding("data here", "ok", ", ".join(here))
    folder = cache_folder()
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
        todo = "let XDG_CACHE_HOME name a folder that can be written, or FWC_LLM_DATA one that has the data"
        yield Finding("cache folder", "broken", f"{nearest} cannot be written into", todo)
    elif away:
        todo = f"downloaded at the first use into {folder}, or put where FWC_LLM_DATA says"
        yield Finding("data not here", "note", ", ".join(away), todo)


def _compiled() -> Iterator[Finding]:
    from fwc_llm.coreset.compiled import quietly
    from fwc_llm.coreset.warm_up import cache_folder

    with quietly():  # looking compiles the tile, which is not the solver
        folder = cache_folder()
    if folder is None:
        found = "no folder can be written, so that every process compiles the solver anew"
        yield Finding("compiled solver", "note", found, "set NUMBA_CACHE_DIR to a folder that can be written")
        return
    here = f"py{sys.version_info.major}{sys.version_info.minor}"  # another Python has code of its own
    kept = sum(not one.name.startswith("hand_laid_tile.") for one in folder.rglob(f"*.{here}*.nbc"))
    if kept:
        yield Finding("compiled solver", "ok", f"{kept} functions in {folder}")
    else:
        found = f"nothing in {folder} yet: the first use takes seconds"
        yield Finding("compiled solver", "note", found, "fwc-llm warm-up")


def _keys(api_key_env: str | None, base_url: str | None) -> Iterator[Finding]:
    """Whether keys are there; nothing of a value is ever shown."""
    names = {api_key_env: "the service"} if api_key_env else _KEYS
    for name, whose in names.items():
        value = os.environ.get(name)
        if not value:  # a variable that is set to nothing is one that was taken back
            todo = f"export {name}=... to ask {whose}; a server of your own needs none"
            yield Finding(f"key {name}", "broken" if api_key_env else "note", "not set", todo)
        elif not value.strip():
            yield Finding(f"key {name}", "broken", "set, but blank", "set it to the key, or unset it")
        elif value != value.strip() or any(not one.isprintable() for one in value):
            yield Finding(
                f"key {name}", "broken", "set, with white space around or in it", "set it to the key alone"
            )
        else:
            yield Finding(f"key {name}", "ok", "set")
    if base_url and not api_key_env:
        yield Finding("key for --base-url", "note", "none is sent", "name its variable with --api-key-env")


def _service(url: str) -> Finding:
    """Whether anything answers at the address; no key is sent, so that a refusal is an answer."""
    import httpx2

    # What stands before an @ may be a password, what stands after a ? a key.
    what = f"service {url.partition('?')[0].rpartition('@')[2]}"
    try:
        with httpx2.stream("GET", f"{url.rstrip('/')}/models", timeout=_SECONDS) as reply:  # read no body
            status = reply.status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, OSError) as error:
        todo = "start the server, or check the address, the proxy and the network"
        return Finding(what, "broken", f"no answer: {type(error).__name__}", todo)
    if status in (401, 403):
        return Finding(what, "ok", f"answers, and wants a key (HTTP {status})")
    if status >= 500:
        return Finding(what, "broken", f"answers HTTP {status}", "look at the server's log")
    return Finding(what, "ok", f"answers (HTTP {status})")
