"""The control groups that this process runs under: what a container or service manager allows it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
ROOT = Path("/")

_NO_LIMIT_V1 = 1 << 60
"""cgroup v1 writes "no limit" as the largest multiple of the page size below 2**63."""


@dataclass(frozen=True)
class Group:
    """One control group that counts this process.

    Attributes:
        unified: Whether it is a cgroup v2 group.
        folder: Where its files are.
    """

    unified: bool
    folder: Path


@dataclass(frozen=True)
class MemoryGroup:
    """A control group with a memory limit.

    Attributes:
        limit: Bytes.
        used: Bytes, without file cache that the kernel would give up first.
        file: The file that holds the limit.
    """

    limit: int
    used: int
    file: Path


@dataclass(frozen=True)
class CpuQuota:
    """A limit on CPU time.

    Attributes:
        cpus: CPUs' worth of time; may be a fraction.
        file: The file that holds it.
    """

    cpus: float
    file: Path


def groups(controller: str, proc: Path = PROC, root: Path = ROOT) -> list[Group]:
    """List the groups of a controller from this process's own up to the highest one that can be seen.

    Args:
        controller: ``memory`` or ``cpu``, as cgroup v1 names it; cgroup v2 groups hold all of them.
        proc: The proc file system.
        root: Where the groups are mounted: the machine's root, or the folder of a recorded machine.
    """
    mounts = _mounts(read_or_nothing(proc / "self/mountinfo"))
    found = []
    for line in read_or_nothing(proc / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        unified = not controllers
        if controllers and controller not in controllers.split(","):
            continue
        for mount in mounts:
            if mount.unified == unified and (unified or controller in mount.controllers):
                found += [Group(unified, root / folder.relative_to(ROOT)) for folder in mount.chain(path)]
                break
    return found


def memory_groups(proc: Path = PROC, root: Path = ROOT) -> list[MemoryGroup]:
    """List the memory limits that hold for this process, its own group's first."""
    found = []
    for group in groups("memory", proc, root):
        # Above memory.high the kernel throttles until nothing gets done: a limit like memory.max.
        names = ("memory.max", "memory.high") if group.unified else ("memory.limit_in_bytes",)
        for name in names:
            limit = _number(group.folder / name)
            if limit is not None and limit < _NO_LIMIT_V1:
                found.append(MemoryGroup(limit, _used(group), group.folder / name))
    return found


def cpu_quotas(proc: Path = PROC, root: Path = ROOT) -> list[CpuQuota]:
    """List the limits on CPU time that hold for this process."""
    found = []
    for group in groups("cpu", proc, root):
        if group.unified:
            file = group.folder / "cpu.max"
            quota, _, period = read_or_nothing(file).strip().partition(" ")
        else:
            file = group.folder / "cpu.cfs_quota_us"
            quota, period = read_or_nothing(file).strip(), read_or_nothing(group.folder / "cpu.cfs_period_us").strip()
        if quota.isdecimal() and period.isdecimal() and int(period) > 0:
            found.append(CpuQuota(int(quota) / int(period), file))
    return found


@dataclass(frozen=True)
class _Mount:
    unified: bool
    root: Path
    point: Path
    controllers: tuple[str, ...]

    def chain(self, path: str) -> list[Path]:
        """Return the folders of a group and all its visible parents."""
        try:
            below = Path(path).relative_to(self.root)
        except ValueError:
            # Without a cgroup namespace a container sees its own group as the mount's root.
            below = Path()
        if ".." in below.parts:
            below = Path()
        return [self.point / below, *[self.point / parent for parent in below.parents]]


def _mounts(mountinfo: str) -> list[_Mount]:
    """Return the cgroup mounts; format: proc_pid_mountinfo(5)."""
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if kind[0] == "cgroup2":
            found.append(_Mount(unified=True, root=_path(fields[3]), point=_path(fields[4]), controllers=()))
        elif kind[0] == "cgroup":
            found.append(
                _Mount(
                    unified=False, root=_path(fields[3]), point=_path(fields[4]), controllers=tuple(kind[-1].split(","))
                )
            )
    return found


def _path(field: str) -> Path:
    return Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field))


def _used(group: Group) -> int:
    current, cache = (
        ("memory.current", "inactive_file") if group.unified else ("memory.usage_in_bytes", "total_inactive_file")
    )
    used = _number(group.folder / current) or 0
    return max(0, used - (_field(read_or_nothing(group.folder / "memory.stat"), cache) or 0))


def _field(text: str, name: str) -> int | None:
    match = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
    return int(match[1]) if match else None


def _number(path: Path) -> int | None:
    text = read_or_nothing(path).strip()
    return int(text) if text.isdecimal() else None


def read_or_nothing(path: Path) -> str:
    """Return the text of a file of a control group, or nothing if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        # A group that is gone, hidden or of another kernel version sets no limit that can be honoured.
        return ""


def whole_cpus(quota: float) -> int:
    """Return how many jobs a quota keeps busy: a started CPU counts, since unused time is lost."""
    return max(1, math.ceil(quota))
