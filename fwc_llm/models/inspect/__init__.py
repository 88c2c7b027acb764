"""Models behind Inspect (https://inspect.aisi.org.uk): its providers for our harness. Extra: `inspect`."""

from importlib.util import find_spec

from fwc_llm.errors import FwcError

PREFIX = "inspect:"


def require_inspect(what: str) -> None:
    """Raise `FwcError` with the pip command where Inspect is not installed; `what` needs it."""
    if find_spec("inspect_ai") is None:
        raise FwcError(f"{what} needs Inspect: pip install 'fwc-llm[inspect]'")
