"""How many requests may be under way at once."""

from fwc_llm.errors import FwcError

MOST = 10_000  # each is a task and a connection of this process


def check_concurrency(concurrency: int) -> None:
    """Refuse fewer than one request at once, and more than a process can hold."""
    if concurrency < 1:
        raise FwcError(f"concurrency is {concurrency}: at least one request must be under way at once")
    if concurrency > MOST:
        raise FwcError(f"concurrency is {concurrency}: at most {MOST:,} requests can be under way at once")
