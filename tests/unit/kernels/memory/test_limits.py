"""How much memory there is, how many jobs fit, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpuwheels.core.errors import MemoryCapError, UsageError
from cpuwheels.kernels.memory.limits import (
    MemoryLimit,
    WorstFile,
    available_memory,
    choose_cap,
    job_limits,
    plan_jobs,
    usable_cpus,
)

if TYPE_CHECKING:
    from pathlib import Path


GIB = 1 << 30
WORST = WorstFile("cpu_attn.cpp.o", 4 * GIB)


@pytest.mark.parametrize(
    ("cap", "cpus", "limits", "expected"),
    [
        (24 * GIB, 2, {}, (2, "CPUs")),
        (24 * GIB, 1, {}, (1, "CPU")),
        (4 * GIB, 64, {}, (64, "CPUs")),
        (24 * GIB, 64, {"MAX_JOBS": 3}, (3, "MAX_JOBS")),
        (24 * GIB, 64, {"MAX_JOBS": 3, "--jobs": 2}, (2, "--jobs")),
        (24 * GIB, 2, {"MAX_JOBS": 100}, (2, "CPUs")),
    ],
)
def test_jobs(cap, cpus, limits, expected):
    plan = plan_jobs(MemoryLimit(cap, "somewhere", 0), WORST, cpus, limits)
    assert (plan.jobs, plan.reason) == expected
    assert (plan.cap, plan.where) == (cap, "somewhere")


def test_cap_below_the_largest_file_is_refused():
    with pytest.raises(MemoryCapError) as fault:
        plan_jobs(MemoryLimit(2 * GIB, "--memory 2G", GIB), WORST, 8, {})
    assert "2 GiB" in fault.value.what
    assert "4 GiB" in fault.value.what
    assert "cpu_attn.cpp.o" in fault.value.what
    assert fault.value.where == "--memory 2G"
    assert "at least 4 GiB" in fault.value.next_step


@pytest.mark.parametrize("value", ["0", "-1", "2.5", "many", "1e3", "٣"])
@pytest.mark.parametrize("name", ["MAX_JOBS", "--jobs"])
def test_job_limit_that_is_no_whole_number_is_refused(name, value):
    environ, jobs = ({"MAX_JOBS": value}, None) if name == "MAX_JOBS" else ({}, value)
    with pytest.raises(UsageError) as fault:
        job_limits(environ, jobs)
    assert name in fault.value.what
    assert value in fault.value.what
    assert fault.value.where == ("environment" if name == "MAX_JOBS" else "command line")


@pytest.mark.parametrize(
    ("environ", "jobs", "limits"),
    [
        ({}, None, {}),
        ({"MAX_JOBS": ""}, None, {}),
        ({"MAX_JOBS": " 4 "}, None, {"MAX_JOBS": 4}),
        ({"MAX_JOBS": "4"}, "2", {"MAX_JOBS": 4, "--jobs": 2}),
        ({}, 7, {"--jobs": 7}),
    ],
)
def test_job_limits(environ, jobs, limits):
    assert job_limits(environ, jobs) == limits


def test_bad_limit_given_to_the_plan_itself_is_refused():
    with pytest.raises(UsageError, match="--jobs is '0'"):
        plan_jobs(MemoryLimit(8 * GIB, "RAM", GIB), WORST, 2, {"--jobs": 0})


LIMIT = MemoryLimit(16 * GIB, "physical memory", 10 * GIB)


@pytest.mark.parametrize(
    ("option", "size", "available", "where"),
    [
        (None, 16 * GIB, 10 * GIB, "physical memory"),
        ("8G", 8 * GIB, 8 * GIB, "--memory 8G"),
        ("12 GiB", 12 * GIB, 10 * GIB, "--memory 12 GiB"),
        ("64G", 16 * GIB, 10 * GIB, "physical memory (--memory 64G is more than there is)"),
    ],
)
def test_cap(option, size, available, where):
    assert choose_cap(option, LIMIT) == MemoryLimit(size, where, available)


@pytest.mark.parametrize("option", ["", "lots", "-1G", "0", "8X"])
def test_cap_that_is_no_size_is_refused(option):
    with pytest.raises(UsageError, match="--memory"):
        choose_cap(option, LIMIT)


class Proc:
    """A proc file system and the cgroup mounts it names."""

    def __init__(self, root: Path) -> None:
        self.root = root / "proc"
        self.mounts = root / "sys fs" / "cgroup"  # the blank is written \040 in mountinfo
        (self.root / "self").mkdir(parents=True)
        self._mountinfo: list[str] = []
        self._cgroup: list[str] = []

    def mount(self, version: int, name: str, root: str = "/") -> Path:
        point = self.mounts / name
        point.mkdir(parents=True, exist_ok=True)
        shown = str(point).replace(" ", r"\040")
        kind = "cgroup2 cgroup2 rw" if version == 2 else f"cgroup cgroup rw,{name}"
        self._mountinfo.append(f"31 23 0:28 {root} {shown} rw,relatime shared:9 - {kind}")
        return self._write(point)

    def member(self, line: str) -> None:
        self._cgroup.append(line)
        self._write(self.root)

    def _write(self, value: Path) -> Path:
        (self.root / "self/mountinfo").write_text("\n".join(self._mountinfo) + "\n")
        (self.root / "self/cgroup").write_text("\n".join(self._cgroup) + "\n")
        return value


def put(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        folder.joinpath(name.replace("__", ".")).write_text(f"{value}\n")


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_without_cgroups_it_is_the_ram(proc):
    assert available_memory(proc.root, 8 * GIB) == MemoryLimit(8 * GIB, "physical memory", 8 * GIB)


def test_v2_takes_the_smallest_limit_on_the_way_up(proc):
    top = proc.mount(2, "")
    proc.member("0::/user.slice/job")
    put(top / "user.slice", memory__max=4 * GIB, memory__current=3 * GIB, memory__stat=f"inactive_file {GIB}")
    put(top / "user.slice/job", memory__max="max", memory__high=6 * GIB, memory__current=GIB)
    limit = available_memory(proc.root, 8 * GIB)
    assert limit == MemoryLimit(4 * GIB, str(top / "user.slice/memory.max"), 2 * GIB)


def test_v2_counts_the_throttling_limit(proc):
    top = proc.mount(2, "")
    proc.member("0::/job")
    put(top / "job", memory__max=6 * GIB, memory__high=5 * GIB)
    assert available_memory(proc.root, 8 * GIB).where.endswith("memory.high")


def test_a_limit_above_the_ram_does_not_count(proc):
    top = proc.mount(2, "")
    proc.member("0::/")
    put(top, memory__max=64 * GIB)
    assert available_memory(proc.root, 8 * GIB).bytes == 8 * GIB


def test_v1_limit_and_its_way_of_saying_none(proc):
    memory = proc.mount(1, "memory")
    proc.mount(1, "cpu,cpuacct")
    proc.member("5:cpu,cpuacct:/elsewhere")
    proc.member("4:memory:/box/inner")
    put(memory, memory__limit_in_bytes=9223372036854771712)
    put(memory / "box", memory__limit_in_bytes=3 * GIB, memory__usage_in_bytes=5 * GIB)
    put(memory / "box/inner", memory__limit_in_bytes=9223372036854771712)
    limit = available_memory(proc.root, 8 * GIB)
    assert limit == MemoryLimit(3 * GIB, str(memory / "box/memory.limit_in_bytes"), 0)


@pytest.mark.parametrize("path", ["/docker/abc", "/docker/other", "/../elsewhere"])
def test_container_whose_mount_begins_at_its_own_group(proc, path):
    memory = proc.mount(1, "memory", root="/docker/abc")
    proc.member(f"4:memory:{path}")
    put(memory, memory__limit_in_bytes=2 * GIB)
    assert available_memory(proc.root, 8 * GIB).bytes == 2 * GIB


@pytest.mark.parametrize(
    ("content", "cpus"),
    [("max 100000", 16), ("200000 100000", 2), ("150000 100000", 2), ("10000 100000", 1), ("3200000 100000", 16)],
)
def test_v2_cpu_quota(proc, content, cpus):
    top = proc.mount(2, "")
    proc.member("0::/job")
    put(top / "job", cpu__max=content)
    assert usable_cpus(proc.root, 16).count == cpus


@pytest.mark.parametrize(("quota", "cpus"), [(-1, 16), (400000, 4)])
def test_v1_cpu_quota(proc, quota, cpus):
    cpu = proc.mount(1, "cpu,cpuacct")
    proc.member("4:cpu,cpuacct:/job")
    put(cpu / "job", cpu__cfs_quota_us=quota, cpu__cfs_period_us=100000)
    limit = usable_cpus(proc.root, 16)
    assert limit.count == cpus
    assert ("cfs_quota" in limit.where) == (cpus == 4)


def test_this_machine_answers():
    limit = available_memory()
    assert 0 < limit.available <= limit.bytes
    assert usable_cpus().count >= 1
