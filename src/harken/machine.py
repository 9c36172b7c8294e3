"""The cores and the memory that this process may use, also inside a container.

A container sees all cores and all memory of its host. What it may use of them is in its CPU affinity and in the limits
of its control groups (cgroups, version 1 or 2): a CPU quota and a memory limit.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from harken.errors import UserError

CAN_FORK = hasattr(os, "fork")  # not on Windows
GPU_DEVICES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/kfd")  # of NVIDIA, under WSL, of AMD
CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")  # lines "number:controllers:path"; of version 2 without controllers


def available_cores() -> int:
    """Cores of the affinity mask, or as many as the CPU quota of the control groups pays for (rounded up)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min([cores, *_cpu_quotas()])))


def available_memory() -> int:
    """Bytes of physical memory, or of the memory limit of the control groups where that is lower."""
    if not hasattr(os, "sysconf"):  # Windows
        import psutil

        return int(psutil.virtual_memory().total)
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *_memory_limits()])


def may_have_gpu() -> bool:
    """Whether torch may find a GPU, by the files of its driver; False only where it certainly does not."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1") or sys.platform == "darwin":
        return False
    return not CAN_FORK or any(Path(device).exists() for device in GPU_DEVICES)


def is_alive(pid: int) -> bool:
    """Whether a process of this machine runs, also one of another user."""
    if not CAN_FORK:  # Windows, where `os.kill` would end it
        import psutil

        return psutil.pid_exists(pid)
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return pid > 0


def require_fork(purpose: str) -> None:
    """Refuse what needs forked processes and POSIX signals.

    Raises:
        UserError: this system, such as Windows, has none.
    """
    if not CAN_FORK:
        raise UserError(
            f"this system cannot fork processes, so harken does not {purpose} on it; use Linux, macOS or WSL"
        )


def _cpu_quotas() -> Iterator[float]:
    """The quota of every control group that this process is in, in cores."""
    for folder in _cgroup_folders("cpu"):
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = (folder / "cpu.max").read_text().split()
            yield int(quota) / int(period)  # "max" is no integer: no quota
        with suppress(OSError, ValueError, ZeroDivisionError):
            microseconds = int((folder / "cpu.cfs_quota_us").read_text())
            if microseconds > 0:  # -1: no quota
                yield microseconds / int((folder / "cpu.cfs_period_us").read_text())


def _memory_limits() -> Iterator[int]:
    """The limit of every control group that this process is in, in bytes."""
    for folder in _cgroup_folders("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):
                yield int((folder / name).read_text())


def _cgroup_folders(controller: str) -> Iterator[Path]:
    """The control group of this process and all that it is in, in either version; those that exist here.

    A container without a namespace for control groups has the path of its host in /proc/self/cgroup and its own group
    as the root of the mount, which is therefore always among them.
    """
    try:
        lines = MEMBERSHIP.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = CGROUPS / controller if controllers else CGROUPS
        folder = root / path.lstrip("/")
        yield from (path for path in (folder, *folder.parents) if path.is_relative_to(root) and path.is_dir())
