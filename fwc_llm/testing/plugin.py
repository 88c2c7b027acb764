"""The pytest fixture; pytest finds it by entry point, in every project: it imports nothing else."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fwc_llm.testing import Answers


@pytest.fixture
def fwc_openai() -> "Iterator[Answers]":
    """OpenAI's SDK answered without a network; by the surrogate, or by what `fwc_openai.use` is given."""
    from fwc_llm.testing import answers

    with answers() as answering:
        yield answering
