"""How much CPU time a container may take, which the number of cores does not tell."""

from __future__ import annotations

from pathlib import Path

_FILES = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))
"""Which hold a quota and its period, both in microseconds: of control groups version 2, and of version 1."""


def cpu_quota(groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Cores that Linux's control group may keep busy, rounded up; None without a quota, and on other systems.

    Args:
        groups: where the control groups are mounted.
    """
    for names in _FILES:
        try:
            quota, period = (int(number) for name in names for number in (groups / name).read_text("ascii").split())
        except (OSError, ValueError):  # there is no such file, or it says "max"
            continue
        if quota > 0 and period > 0:
            return -(-quota // period)
    return None
