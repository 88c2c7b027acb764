"""One way to fail: an error that says what is wrong, where, and what to do.

The command line turns an `FwcError` into one line on standard error and into its exit code.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fwc_llm.evaluation.result import Result


class FwcError(Exception):
    """Bad input, found before any request was made: exit code 2.

    `result` holds the scored answers of a run that had begun when the error stopped it, else None.
    """

    exit_code = 2
    result: "Result | None" = None


class ProviderError(FwcError):
    """The provider rejected the run as a whole (key, quota, model, parameter): exit code 3."""

    exit_code = 3


class IncompleteRunError(FwcError):
    """The run finished, but at least one row has no reply: exit code 4."""

    exit_code = 4


class StorageError(FwcError):
    """The disk is full, or the run's folder is gone: a file cannot be written in mid-run: exit code 7."""

    exit_code = 7


class InterruptedRunError(FwcError):
    """The run was interrupted (Ctrl-C); what was answered is saved: exit code 130."""

    exit_code = 130
