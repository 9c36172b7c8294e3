"""Cores and memory of the process, with control groups as containers have them."""

import os
from pathlib import Path

import pytest

from harken import machine
from harken.machine import available_cores, available_memory


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 16 cores and 64 GiB without control groups; files below the folder are those of /sys/fs/cgroup."""
    monkeypatch.setattr(machine, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**24}
    monkeypatch.setattr(os, "sysconf", lambda name: sizes[name])
    (tmp_path / "cgroup").mkdir()
    return tmp_path / "cgroup"


def test_without_control_groups_all_of_the_machine(cgroups: Path) -> None:
    assert (available_cores(), available_memory()) == (16, 2**36)


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 16), ("150000 100000", 2), ("50000 100000", 1), ("", 16)])
def test_a_quota_of_version_2(cgroups: Path, quota: str, cores: int) -> None:
    (cgroups.parent / "membership").write_text("0::/\n")
    (cgroups / "cpu.max").write_text(quota)
    assert available_cores() == cores


def test_limits_of_enclosing_groups_of_version_2(cgroups: Path) -> None:
    (cgroups.parent / "membership").write_text("0::/user/session\n")
    (cgroups / "user" / "session").mkdir(parents=True)
    (cgroups / "user" / "cpu.max").write_text("400000 100000\n")
    (cgroups / "user" / "session" / "cpu.max").write_text("max 100000\n")
    (cgroups / "user" / "memory.max").write_text(f"{2**33}\n")
    (cgroups / "user" / "session" / "memory.max").write_text("max\n")
    assert (available_cores(), available_memory()) == (4, 2**33)


def test_limits_of_version_1(cgroups: Path) -> None:
    """A container has the path of its host in its membership and its own group as the root of the mount."""
    (cgroups.parent / "membership").write_text("4:memory:/docker/1234\n1:cpu,cpuacct:/docker/1234\n0::/\n")
    for folder in ("cpu", "memory"):
        (cgroups / folder).mkdir()
    (cgroups / "cpu" / "cpu.cfs_quota_us").write_text("300000\n")
    (cgroups / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    (cgroups / "memory" / "memory.limit_in_bytes").write_text(f"{2**32}\n")
    assert (available_cores(), available_memory()) == (3, 2**32)
    (cgroups / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    (cgroups / "memory" / "memory.limit_in_bytes").write_text(f"{2**63 - 4096}\n")
    assert (available_cores(), available_memory()) == (16, 2**36)
