"""`fwc-llm doctor` and `warm-up`: check the installation, and compile the solver."""

import os
import platform
import re
import sys
from collections.abc import Iterator
from datetime import date
from importlib import metadata
from importlib.util import find_spec
from typing import NamedTuple

from fwc_llm.cli.console import lines, working
from fwc_llm.cli.flags import JSON, command, option, print_json, switch
from fwc_llm.errors import FwcError
from fwc_llm.models import is_local
from fwc_llm.version import __version__

_EXTRAS = {
    "parquet": "pyarrow",
    "excel": "openpyxl",
    "plot": "matplotlib",
    "inspect": "inspect_ai",
    "local": "xllamacpp",
}
_OLD_DAYS = 60
_KEYS = ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY")


class CheckResult(NamedTuple):
    """The outcome of a check; the state "note" means that an optional part is missing."""

    check: str
    state: str  # ok, note or broken
    found: str
    todo: str = ""


@command("doctor")
def doctor(
    base_url: str | None = option("Also connect to this OpenAI-compatible server, without a key."),
    api_key_env: str | None = option("Environment variable that must hold the service's key."),
    online: bool = switch("Also connect to OpenAI, without a key.", "--online"),
    as_json: bool = JSON,
) -> None:
    """Check versions, extras, data and keys, and say what to do.

    `ok`: fine; `note`: optional and missing; `broken`: something will not work (exit code 2). Reports only
    whether each key is set.
    """
    with working("looking"):
        findings = [*_packages(), *_prices(), *_data()]
        findings += [_key(name, bool(api_key_env)) for name in ((api_key_env,) if api_key_env else _KEYS)]
        if base_url or online:
            findings.append(_service(base_url or "https://api.openai.com/v1"))
    broken = sum(finding.state == "broken" for finding in findings)
    if as_json:
        head = {"format": "fwc-llm-doctor/1", "version": __version__, "broken": broken}
        print_json({**head, "checks": [finding._asdict() for finding in findings]})
    else:
        width = max(len(finding.check) for finding in findings)
        for check, state, text, todo in findings:
            lines(f"{state:<6}  {check:<{width}}  {text}{'; ' * bool(todo)}{todo}")
    if broken:
        raise FwcError(f"{broken} of {len(findings)} checks found something broken: see above what to do")


def _packages() -> Iterator[CheckResult]:
    """Check required packages and list installed extras."""
    yield CheckResult(
        "python", "ok", f"{platform.python_version()} at {sys.executable}, {platform.machine()}"
    )
    versions = {each.name.lower(): each.version for each in metadata.distributions()}
    if "fwc-llm" not in versions:
        yield CheckResult("fwc-llm", "note", "not installed, read from its folder", "pip install .")
        return
    required = [needed for needed in metadata.requires("fwc-llm") or () if "extra ==" not in needed]
    for needed in ("fwc-llm", *required):
        name = re.split(r"[^\w.-]", needed)[0]
        version = versions.get(name.lower())
        missing = "broken", "not installed", f"pip install '{needed}'"
        yield CheckResult(name, *(("ok", version) if version else missing))
    for extra, module in _EXTRAS.items():
        missing = "note", f"{module} is not installed", f"pip install 'fwc-llm[{extra}]'"
        yield CheckResult(f"extra {extra}", *(("ok", module) if find_spec(module) else missing))


def _prices() -> Iterator[CheckResult]:
    from fwc_llm.models.openai.prices import facts_date

    days = (date.today() - facts_date()).days
    todo = "compare them with the provider's pages, or give your own prices with --prices"
    state, todo = ("note", todo) if days > _OLD_DAYS else ("ok", "")
    yield CheckResult("model prices and end dates", state, f"as of {facts_date()}, {days} days old", todo)


def _data() -> Iterator[CheckResult]:
    from fwc_llm.data.locate import cache_folder
    from fwc_llm.files import home_expanded
    from fwc_llm.tasks import load_task, task_names

    folder = os.environ.get("FWC_LLM_DATA")
    if folder and not home_expanded(folder).is_dir():
        todo = "name a folder that exists, or unset the variable"
        yield CheckResult("FWC_LLM_DATA", "broken", f"{folder} is not a folder", todo)
    for name in task_names():
        task = load_task(name)
        missing = "note", "not on this machine", f"the first use downloads it into {cache_folder()}"
        yield CheckResult(
            f"data of {name}", *(missing if task.locate() is None else ("ok", "on this machine"))
        )


def _key(name: str, needed: bool) -> CheckResult:
    value = os.environ.get(name) or ""  # an empty value counts as unset
    if not value:
        todo = f"export {name}=... to ask its service; a server of your own needs none"
        return CheckResult(f"key {name}", "broken" if needed else "note", "not set", todo)
    if value != value.strip() or not value.isprintable():
        return CheckResult(
            f"key {name}", "broken", "set, but with white space", "set the key without white space"
        )
    return CheckResult(f"key {name}", "ok", "set")


def _service(url: str) -> CheckResult:
    """Check whether a server answers at `url`, without sending a key."""
    import httpx2

    # Before an @ may be a password, after a ? a key.
    name = f"service {url.partition('?')[0].rpartition('@')[2]}"
    try:
        address = f"{url.rstrip('/')}/models"
        with httpx2.stream("GET", address, timeout=3.0, trust_env=not is_local(url)) as reply:  # unread
            status = reply.status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, OSError) as error:
        todo = "start the server, or check the address, the proxy and the network"
        return CheckResult(name, "broken", f"no answer: {type(error).__name__}", todo)
    if status >= 500:
        return CheckResult(name, "broken", f"answers HTTP {status}", "look at the server's log")
    wants_key = ", and wants a key" if status in (401, 403) else ""
    return CheckResult(name, "ok", f"answers{wants_key} (HTTP {status})")


@command("warm-up")
def warm_up() -> None:
    """Compile the solver ahead of time, for images and CI.

    By default the solver compiles at first use, which takes seconds. This command compiles everything in
    about half a minute and prints the folder of the code: NUMBA_CACHE_DIR, else beside the package, or the
    user's cache folder if that is read-only. Compiled code is kept.

    In an image, add `RUN fwc-llm warm-up` after the installation, as the user that will run it. In CI, cache
    the environment. Another kind of processor or a new installation compiles again; NUMBA_CPU_NAME=generic
    serves all processors.
    """
    from fwc_llm.coreset.warm_up import PROBLEMS, cache_folder, get_ready

    total, compiled = 0.0, 0
    with working("compiling") as say:
        for name in PROBLEMS:
            say(f"compiling: {name}")
            seconds, count = get_ready(name)
            lines(f"{name}: " + (f"compiled in {seconds:.1f} s" if count else f"ready ({seconds:.1f} s)"))
            total, compiled = total + seconds, compiled + count
    folder = cache_folder()
    if folder is None:
        lines(
            "The compiled code is not kept: no folder is writable. Set NUMBA_CACHE_DIR to a writable folder."
        )
    else:
        done = f"Compiled {compiled} functions" if compiled else "Everything was compiled already"
        lines(f"{done}; {total:.1f} s in total. The compiled code is in {folder}")
