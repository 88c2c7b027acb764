"""Threads are bounded by the cores that are free: by affinity, by a container's limit, by what others do."""

import os
from pathlib import Path

import pytest

from fwc_llm.models.local.cores import cgroup_quota, free_cores


@pytest.mark.parametrize(
    ("cores", "allowed", "load", "free"),
    [(8, 8, 0.2, 8), (8, 8, 3.2, 5), (8, 8, 50.0, 1), (8, 2, 4.0, 1), (64, 4, 16.0, 3), (2, 2, 0.6, 1)],
)
def test_free_cores(
    monkeypatch: pytest.MonkeyPatch, cores: int, allowed: int, load: float, free: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(allowed)), raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    assert free_cores() <= free
    assert free_cores() == free or cgroup_quota(Path("/sys/fs/cgroup")) < allowed


@pytest.mark.parametrize(
    ("file", "content", "cores"),
    [
        ("cpu.max", "150000 100000\n", 1.5),
        ("cpu.max", "max 100000\n", float("inf")),
        ("cpu.max", "nonsense", float("inf")),
        ("cpu/cpu.cfs_quota_us", "400000\n", 4.0),
        ("cpu/cpu.cfs_quota_us", "-1\n", float("inf")),
        ("other", "", float("inf")),
    ],
)
def test_a_containers_limit(tmp_path: Path, file: str, content: str, cores: float) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / file).write_text(content)
    assert cgroup_quota(tmp_path) == cores
