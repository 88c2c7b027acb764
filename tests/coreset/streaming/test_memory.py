"""What does not fit into memory is said before the work, with what would fit."""

import pytest

from fwc_llm.coreset.streaming.memory import Size, available_memory, check_memory
from fwc_llm.errors import InputError

LARGE = Size(50_000_000, 25, 25, 4, 250, 400_000, 2**17, 2, 4)


def test_fifty_million_rows_fit_into_four_gigabytes():
    check_memory(LARGE, 3 * 2**30)
    assert LARGE.bytes > 2**28


@pytest.mark.parametrize(
    ("size", "room", "words"),
    [
        (LARGE, LARGE.bytes - 1, "n_jobs=1 would fit"),
        (Size(10**6, 250, 250, 4, 250, 400_000, 2**14, 1, 8), 2**29, "sample=.* would fit"),
        (Size(10**6, 500, 500, 4, 9_000, 200_000, 2**13, 1, 8), 2**29, "m=.* would fit"),
        (LARGE, 2**20, "a machine with more memory"),
    ],
)
def test_too_little_memory_is_said_with_what_would_fit(size, room, words):
    with pytest.raises(InputError, match=f"needs about .* is available: .*{words}"):
        check_memory(size, room)


def test_the_limit_of_this_process_counts():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    there = available_memory()
    try:
        resource.setrlimit(resource.RLIMIT_AS, (2**46, before[1]))
        assert (available_memory() or 0) <= 2**46
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert there is None or there > 0
