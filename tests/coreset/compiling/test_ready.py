"""Compiled code on disk counts as long as its source is the same."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from fwc_llm.coreset.compiling.ready import is_ready

SOURCE = """
from fwc_llm.coreset.compiling.kernel import kernel

@kernel
def double(x):
    return x + x
"""


def opened(path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file as a module of this name, as a process finds it that has not compiled it."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)


def test_code_on_disk_is_ready_until_its_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "doubling.py"
    path.write_text(SOURCE)
    opened(path, "doubling_before", monkeypatch)
    assert not is_ready("doubling_before", "double")
    assert sys.modules["doubling_before"].double(2.0) == 4.0
    opened(path, "doubling", monkeypatch)
    assert is_ready("doubling", "double")
    os.utime(path, (2e9, 2e9))  # a later installation of the same source
    opened(path, "doubling_later", monkeypatch)
    assert is_ready("doubling_later", "double")
    path.write_text(SOURCE.replace("x + x", "2 * x"))
    opened(path, "doubling_changed", monkeypatch)
    assert not is_ready("doubling_changed", "double")
