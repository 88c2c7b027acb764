"""The pytest fixture; every project's pytest loads this module."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fwc_llm.testing import Answers


@pytest.fixture
def fwc_openai() -> "Iterator[Answers]":
    """OpenAI's SDK without a network; the surrogate answers by default."""
    from fwc_llm.testing import answers

    with answers() as answering:
        yield answering
