"""`fwc-llm doctor`: whether this installation can do its work, and what to do where it cannot."""

import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Annotated, Literal

import typer

from fwc_llm.cli.options import Json, print_json
from fwc_llm.errors import FwcError

_EXTRAS = {
    "parquet": "Parquet tables",
    "excel": "Excel tables",
    "plot": "pictures",
    "inspect": "Inspect's tasks, logs and providers",
    "local": "models' files in this process (gguf:FILE, smollm2)",
}
_KEYS = {"OPENAI_API_KEY": "OpenAI", "AZURE_OPENAI_API_KEY": "Azure OpenAI"}


@dataclass(frozen=True)
class Finding:
    """A check's outcome; the state "note" is no fault: something that could be there, and is not."""

    check: str
    state: Literal["ok", "note", "broken"]
    found: str
    todo: str = ""


def doctor(
    base_url: Annotated[
        str | None, typer.Option(help="Also connect to this OpenAI-compatible server, without a key.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="The variable that holds the service's key: it must be set.")
    ] = None,
    online: Annotated[
        bool, typer.Option("--online", help="Also connect to OpenAI, without a key. Else nothing is sent.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check versions, extras, data, the compiled solver and keys, and say what to do.

    `ok` is well, `note` could be there and is not, `broken` keeps something from working: then the exit code
    is 2. Of keys only their presence is told.
    """
    from fwc_llm.cli.console import out, working
    from fwc_llm.version import __version__

    with working("looking"):
        findings = list(_examine(base_url, api_key_env, online))
    broken = sum(finding.state == "broken" for finding in findings)
    if as_json:
        head = {"format": "fwc-llm-doctor/1", "version": __version__, "broken": broken}
        print_json({**head, "checks": [asdict(finding) for finding in findings]})
    else:
        width = max(len(finding.check) for finding in findings)
        for finding in findings:
            todo = f"; {finding.todo}" if finding.todo else ""
            line = f"{finding.state:<6}  {finding.check:<{width}}  {finding.found}{todo}"
            out.print(line, soft_wrap=True, highlight=False)
    if broken:
        raise FwcError(f"{broken} of {len(findings)} checks found something broken: see above what to do")


def _examine(base_url: str | None, api_key_env: str | None, online: bool) -> Iterator[Finding]:
    yield Finding("python", "ok", f"{platform.python_version()} at {sys.executable}, {platform.machine()}")
    yield from _packages()
    for name, check in (("templates and tasks", _resources), ("data", _data), ("compiled solver", _compiled)):
        try:
            yield from check()
        except (ImportError, FwcError, OSError) as error:
            yield Finding(name, "broken", f"cannot be looked at: {error}", "install the package again")
    yield from _keys(api_key_env)
    if base_url and not api_key_env:
        yield Finding("key for --base-url", "note", "none is sent", "name its variable with --api-key-env")
    if base_url or online:
        yield _service(base_url or "https://api.openai.com/v1")


def _packages() -> Iterator[Finding]:
    """Check the packages that the installation requires, and which extras are whole."""
    try:
        requires, installed = metadata.requires("fwc-llm") or [], metadata.version("fwc-llm")
    except metadata.PackageNotFoundError:
        yield Finding("fwc-llm", "note", "not installed, read from its folder", "pip install .")
        return
    yield Finding("fwc-llm", "ok", installed)
    of_extras: dict[str, list[str]] = {extra: [] for extra in _EXTRAS}
    for requirement in requires:
        needed, _, marker = requirement.partition(";")
        name = re.split(r"[^\w.-]", needed.strip())[0]
        extra = "".join(re.findall(r"""extra\s*==\s*['"](\w+)""", marker))
        if not extra:
            yield _package(name, needed.strip())
        elif extra in of_extras and name != "fwc-llm" and _version(name) is None:
            of_extras[extra].append(name)
    for extra, missing in of_extras.items():
        if missing:
            todo = f"for {_EXTRAS[extra]}: pip install 'fwc-llm[{extra}]'"
            yield Finding(f"extra {extra}", "note", f"{', '.join(missing)} not installed", todo)
        else:
            yield Finding(f"extra {extra}", "ok", _EXTRAS[extra])


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _package(name: str, needed: str) -> Finding:
    version = _version(name)
    if version is None:
        return Finding(name, "broken", "not installed", f"pip install '{needed}'")
    for operator, bound in re.findall(r"(>=|<)([\d.]+)", needed):
        here, there = (tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (version, bound))
        if (here < there[: len(here)]) if operator == ">=" else (here >= there):
            return Finding(name, "broken", f"{version}, but {needed} is needed", f"pip install '{needed}'")
    return Finding(name, "ok", version)


def _resources() -> Iterator[Finding]:
    from fwc_llm.prompts import templates
    from fwc_llm.tasks import task_names

    yield Finding("templates", "ok", ", ".join(templates()))
    yield Finding("tasks", "ok", ", ".join(task_names()))


def _data() -> Iterator[Finding]:
    from fwc_llm.data.locate import cache_folder
    from fwc_llm.files import home_expanded
    from fwc_llm.tasks import load_task, task_names

    folder = os.environ.get("FWC_LLM_DATA")
    if folder and not home_expanded(folder).is_dir():
        todo = "name a folder that exists, or unset the variable"
        yield Finding("FWC_LLM_DATA", "broken", f"{folder} is no folder", todo)
    real = [task for name in task_names() if not (task := load_task(name)).simulated]
    here = [task.name for task in real if task.locate() is not None]
    if here:
        yield Finding("data here", "ok", ", ".join(here))
    cache = cache_folder()
    nearest = next(place for place in (cache, *cache.parents) if place.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
        todo = "let XDG_CACHE_HOME name a folder that can be written, or FWC_LLM_DATA one that has the data"
        yield Finding("cache folder", "broken", f"{nearest} cannot be written into", todo)
    elif away := [task.name for task in real if task.name not in here]:
        todo = f"downloaded at the first use into {cache}, or put where FWC_LLM_DATA says"
        yield Finding("data not here", "note", ", ".join(away), todo)


def _compiled() -> Iterator[Finding]:
    from fwc_llm.coreset.compiled import quietly

    with quietly():  # looking compiles the tile, which is not the solver
        from fwc_llm.coreset.warm_up import cache_folder

        folder = cache_folder()
    if folder is None:
        where = "no folder can be written, so that every process compiles the solver anew"
        yield Finding("compiled solver", "note", where, "set NUMBA_CACHE_DIR to a folder that can be written")
        return
    python = f"py{sys.version_info.major}{sys.version_info.minor}"  # another Python has code of its own
    files = sum(not file.name.startswith("tile.") for file in folder.rglob(f"*.{python}*.nbc"))
    if files:
        yield Finding("compiled solver", "ok", f"{files} functions in {folder}")
    else:
        state = f"nothing in {folder} yet: the first use takes seconds"
        yield Finding("compiled solver", "note", state, "fwc-llm warm-up")


def _keys(api_key_env: str | None) -> Iterator[Finding]:
    """Check whether keys are there; nothing of a value is shown."""
    for name, service in ({api_key_env: "the service"} if api_key_env else _KEYS).items():
        value = os.environ.get(name)
        if not value:  # a variable that is set to nothing is one that was taken back
            todo = f"export {name}=... to ask {service}; a server of your own needs none"
            yield Finding(f"key {name}", "broken" if api_key_env else "note", "not set", todo)
        elif value != value.strip() or not value.isprintable():
            yield Finding(
                f"key {name}", "broken", "set, with white space around or in it", "set the key alone"
            )
        else:
            yield Finding(f"key {name}", "ok", "set")


def _service(url: str) -> Finding:
    """Check whether anything answers at the address; no key is sent, so that a refusal is an answer."""
    import httpx2

    # What stands before an @ may be a password, what stands after a ? a key.
    name = f"service {url.partition('?')[0].rpartition('@')[2]}"
    try:
        with httpx2.stream("GET", f"{url.rstrip('/')}/models", timeout=3.0) as reply:  # read no body
            status = reply.status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, OSError) as error:
        todo = "start the server, or check the address, the proxy and the network"
        return Finding(name, "broken", f"no answer: {type(error).__name__}", todo)
    if status >= 500:
        return Finding(name, "broken", f"answers HTTP {status}", "look at the server's log")
    wants_key = ", and wants a key" if status in (401, 403) else ""
    return Finding(name, "ok", f"answers{wants_key} (HTTP {status})")
