"""The journal: repaired when torn, refused when foreign or damaged, for one process, whole on a
full disk.
"""

import resource
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.models.base import Usage
from fwc_llm.runs.journal import Journal, request_id
from tests.refusals import refused

USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 5}


def record(number: int, text: str | None = "Yes", **more: Any) -> dict[str, Any]:
    return {
        "request": request_id("p", number),
        "row": str(number),
        "text": text,
        **more,
    }


def fill(folder: Path, n: int) -> bytes:
    with Journal(folder) as journal:
        for number in range(n):
            journal.append(record(number))
    return (folder / "journal.jsonl").read_bytes()


def test_what_is_appended_is_there_again(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(record(1, usage=USAGE, note="é \u2028 \ud800"))
        journal.append(record(2, None, error="no reply"))
        assert journal.answered(request_id("p", 1))
    with Journal(tmp_path) as journal:
        assert journal.answered(request_id("p", 1))
        assert not journal.answered(request_id("p", 2)), (
            "a failed request is asked again"
        )
        assert not journal.answered(request_id("p", 3))
        assert len(journal) == 1
        journal.append(record(2, usage=USAGE, batch=True))
        assert [each["row"] for each in journal.records()] == ["1", "2", "2"]
        assert journal.usage == Usage(10, 2, 5)
        assert journal.batch_usage == Usage(10, 2, 5)


@pytest.mark.slow
def test_a_journal_cut_anywhere_is_repaired(tmp_path: Path) -> None:
    whole = fill(tmp_path, 3)
    lines = whole.splitlines(keepends=True)
    for size in range(len(whole)):
        (tmp_path / "journal.jsonl").write_bytes(whole[:size])
        with Journal(tmp_path) as journal:
            kept = [each["row"] for each in journal.records()]
            journal.append(record(99))
        # A record counts when all of it is there; only its newline may be missing.
        complete = [
            str(i) for i in range(3) if size >= sum(map(len, lines[: i + 2])) - 1
        ]
        assert kept == complete
        with Journal(tmp_path) as journal:
            assert [each["row"] for each in journal.records()] == [*complete, "99"]


def test_zeros_after_a_power_failure_are_cut_off(tmp_path: Path) -> None:
    whole = fill(tmp_path, 2)
    (tmp_path / "journal.jsonl").write_bytes(whole + b"\0" * 100)
    with Journal(tmp_path) as journal:
        assert len(journal) == 2
    assert (tmp_path / "journal.jsonl").read_bytes() == whole


@pytest.mark.parametrize(
    "content",
    ["row,answer\n1,yes\n", '{"format": "other/1"}\n', "hello", "[1]\n", "\n", "7"],
)
def test_a_foreign_file_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "journal.jsonl").write_text(content)
    with refused(r"journal\.jsonl is not a journal of this tool"):
        Journal(tmp_path)
    assert (tmp_path / "journal.jsonl").read_text() == content


@pytest.mark.parametrize(
    "damage",
    [
        b"garbage\n",
        b"\xff\n",
        b"[]\n",
        b'{"request": "no id", "text": "Yes"}\n',
        b'{"request": "ab"}\n',
        b'{"request": "ab", "text": "Yes", "usage": {"odd": 1}}\n',
    ],
)
def test_a_damaged_line_is_named_and_left_alone(tmp_path: Path, damage: bytes) -> None:
    lines = fill(tmp_path, 3).splitlines(keepends=True)
    lines[2] = damage
    (tmp_path / "journal.jsonl").write_bytes(b"".join(lines))
    with refused("damaged in line 3"):
        Journal(tmp_path)
    assert (tmp_path / "journal.jsonl").read_bytes() == b"".join(lines)


def test_a_second_holder_is_refused(tmp_path: Path) -> None:
    """Here of one process; tests/faults/test_commands.py has two."""
    with Journal(tmp_path), refused("in use by another process"):
        Journal(tmp_path)
    Journal(tmp_path).close()


def test_a_full_disk_leaves_the_journal_whole(tmp_path: Path) -> None:
    before = fill(tmp_path, 3)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal(tmp_path) as journal:
        # The system writes only a part of the next record, as on a disk that fills up.
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, limit[1]))
        try:
            with refused(
                r"cannot write to .*journal\.jsonl: .*all earlier replies are"
            ):
                journal.append(record(7))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert (tmp_path / "journal.jsonl").read_bytes() == before
        assert not journal.answered(request_id("p", 7))
        journal.append(record(7))  # room again: the same run goes on
    with Journal(tmp_path) as journal:
        assert [each["row"] for each in journal.records()] == ["0", "1", "2", "7"]


def test_requests_differ_by_all_their_parts() -> None:
    parts = [("p", 1, "a"), ("q", 1, "a"), ("p", 1, "b"), ("p", 12, "")]
    assert len({request_id(*each) for each in parts * 2}) == 4
    assert len(request_id("p", "\ud800")) == 32
