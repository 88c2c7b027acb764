"""Output files: regular ones whole, pipes and devices through, links to regular files alone."""

import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from fwc_llm import FwcError
from fwc_llm.files import write_whole


def test_a_file_is_replaced_as_a_whole_and_a_link_to_one_stays(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    write_whole("old", file)
    link.symlink_to(file)
    write_whole("new \ud800", link)
    assert link.is_symlink()
    assert file.read_text() == "new \\ud800"
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]


def test_a_pipe_is_written_through_and_stays(tmp_path: Path) -> None:
    pipe, parts = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: parts.append(pipe.read_text()), daemon=True)
    reader.start()
    write_whole("text", pipe)
    reader.join(30)
    assert parts == ["text"]
    assert pipe.is_fifo()


def test_a_device_is_never_replaced(tmp_path: Path) -> None:
    device = tmp_path / "null"
    with suppress(PermissionError):  # only the administrator makes devices
        os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    if device.exists():
        with suppress(FwcError):  # a folder may be mounted so that its devices cannot be opened
            write_whole("text", device)
        assert device.is_char_device()
    assert [name for name in os.listdir(tmp_path) if name != "null"] == []


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pipe-link").symlink_to(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder").mkdir()
    for name in ("pipe-link", "nowhere", "loop", "folder", "no/such", "n" * 300):
        with pytest.raises(FwcError, match="cannot write"):
            write_whole("text", tmp_path / name)
    assert not (tmp_path / "gone").exists()
