"""`fwc-llm doctor`: whether this installation can do its work, and what to do where it cannot."""

import os
import platform
import re
import sys
from collections.abc import Iterator
from datetime import date
from importlib import metadata
from importlib.util import find_spec
from typing import NamedTuple

from fwc_llm.cli.options import JSON, command, option, print_json, switch
from fwc_llm.errors import FwcError

_EXTRAS = {  # what each is for, and the module that it brings
    "parquet": ("Parquet tables", "pyarrow"),
    "excel": ("Excel tables", "openpyxl"),
    "plot": ("pictures", "matplotlib"),
    "inspect": ("Inspect's tasks, logs and providers", "inspect_ai"),
    "local": ("models' files in this process (gguf:FILE, smollm2)", "xllamacpp"),
}
_OLD_DAYS = 60
_KEYS = {"OPENAI_API_KEY": "OpenAI", "AZURE_OPENAI_API_KEY": "Azure OpenAI"}


class Finding(NamedTuple):
    """A check's outcome; the state "note" is no fault: something that could be there, and is not."""

    check: str
    state: str  # ok, note or broken
    found: str
    todo: str = ""


@command("doctor")
def doctor(
    base_url: str | None = option("Also connect to this OpenAI-compatible server, without a key."),
    api_key_env: str | None = option("The variable that holds the service's key: it must be set."),
    online: bool = switch("Also connect to OpenAI, without a key. Else nothing is sent.", "--online"),
    as_json: bool = JSON,
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
        print_json({**head, "checks": [finding._asdict() for finding in findings]})
    else:
        width = max(len(finding.check) for finding in findings)
        for check, state, text, todo in findings:
            line = f"{state:<6}  {check:<{width}}  {text}{'; ' * bool(todo)}{todo}"
            out.print(line, soft_wrap=True, highlight=False)
    if broken:
        raise FwcError(f"{broken} of {len(findings)} checks found something broken: see above what to do")


def _examine(base_url: str | None, api_key_env: str | None, online: bool) -> Iterator[Finding]:
    yield Finding("python", "ok", f"{platform.python_version()} at {sys.executable}, {platform.machine()}")
    yield from _packages()
    for name, check in {"prices": _prices, "data": _data, "compiled solver": _compiled}.items():
        try:
            yield from check()
        except (ImportError, FwcError, OSError) as error:
            yield Finding(name, "broken", f"cannot be looked at: {error}", "install the package again")
    for name, service in ({api_key_env: "the service"} if api_key_env else _KEYS).items():
        value = os.environ.get(name) or ""  # set to nothing: taken back
        todo = f"export {name}=... to ask {service}; a server of your own needs none"
        state = "ok", "set", ""
        if not value:
            state = "broken" if api_key_env else "note", "not set", todo
        elif value != value.strip() or not value.isprintable():
            state = "broken", "set, with white space around or in it", "set the key alone"
        yield Finding(f"key {name}", *state)
    if base_url and not api_key_env:
        yield Finding("key for --base-url", "note", "none is sent", "name its variable with --api-key-env")
    if base_url or online:
        yield _service(base_url or "https://api.openai.com/v1")


def _packages() -> Iterator[Finding]:
    """Check the packages that the installation requires, and which extras are whole."""
    try:
        yield Finding("fwc-llm", "ok", metadata.version("fwc-llm"))
    except metadata.PackageNotFoundError:
        yield Finding("fwc-llm", "note", "not installed, read from its folder", "pip install .")
        return
    for needed in metadata.requires("fwc-llm") or ():
        name = re.split(r"[^\w.-]", needed)[0]
        if "extra" not in needed:
            version = next((each.version for each in metadata.distributions(name=name)), "")
            state = ("ok", version) if version else ("broken", "not installed", f"pip install '{needed}'")
            yield Finding(name, *state)
    for extra, (what, module) in _EXTRAS.items():
        todo = f"for {what}: pip install 'fwc-llm[{extra}]'"
        state = ("ok", what) if find_spec(module) else ("note", f"{module} is not installed", todo)
        yield Finding(f"extra {extra}", *state)


def _prices() -> Iterator[Finding]:
    from fwc_llm.models.openai.prices import facts_date

    days = (date.today() - facts_date()).days
    todo = "compare them with the provider's pages, and give prices of your own by --prices"
    state, todo = ("note", todo) if days > _OLD_DAYS else ("ok", "")
    yield Finding("prices and ends of models", state, f"as of {facts_date()}, {days} days old", todo)


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
    if away := [task.name for task in real if task.name not in here]:
        todo = f"downloaded at the first use into {cache_folder()}, or put where FWC_LLM_DATA says"
        yield Finding("data not here", "note", ", ".join(away), todo)


def _compiled() -> Iterator[Finding]:
    from fwc_llm.coreset.compiled import quietly

    with quietly():  # looking compiles the tile, which is not the solver
        from fwc_llm.coreset.warm_up import cache_folder

        folder = cache_folder()
    python = f"py{sys.version_info.major}{sys.version_info.minor}"  # another Python has code of its own
    files = [] if folder is None else [f for f in folder.rglob(f"*.{python}*.nbc") if f.name[:5] != "tile."]
    state = "ok", f"{len(files)} functions in {folder}", ""
    if folder is None:
        where = "no folder can be written, so that every process compiles the solver anew"
        state = "note", where, "set NUMBA_CACHE_DIR to a folder that can be written"
    elif not files:
        state = "note", f"nothing in {folder}: the first use takes seconds", "fwc-llm warm-up"
    yield Finding("compiled solver", *state)


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
