"""What every refusal of ours has in common: an `FwcError` with its words on one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fwc_llm.errors import FwcError


@contextmanager
def refused(words: str | None = None) -> Iterator[pytest.ExceptionInfo[FwcError]]:
    """The block is refused in these words, a pattern."""
    with pytest.raises(FwcError, match=words) as caught:
        yield caught
    assert "\n" not in str(caught.value)
