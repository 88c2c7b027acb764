"""Our errors as Inspect shows them: one message, no traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

from inspect_ai._util.error import PrerequisiteError

from fwc_llm.errors import FwcError


def refused(why: str) -> Exception:
    """What Inspect prints as it is; a square bracket would begin a colour there."""
    error: Exception = PrerequisiteError("fwc-llm: " + why.replace("[", "\\["))
    return error


@contextmanager
def shown_by_inspect() -> Iterator[None]:
    """Raise what is an `FwcError` inside as an error that Inspect prints without a traceback."""
    try:
        yield
    except FwcError as error:
        raise refused(str(error)) from error
