"""The pytest fixture. pytest loads this module in every project, so it imports nothing else."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fwc_llm.testing import Answers


@pytest.fixture
def fwc_openai() -> "Iterator[Answers]":
    """OpenAI's SDK without a network: the surrogate answers, or the source of `fwc_openai.use`."""
    from fwc_llm.testing import answers

    with answers() as answering:
        yield answering
