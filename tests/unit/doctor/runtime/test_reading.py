"""What is read from the files of a machine."""

from __future__ import annotations

import pytest

from cpuwheels.doctor.runtime.reading import format_list, parse_list, read_machine
from runtime_cases import machine

V1 = {
    "proc/self/cgroup": "4:memory:/docker/a\n3:cpu,cpuacct:/docker/a\n",
    "proc/self/mountinfo": "1 1 0:1 /docker/a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "1 1 0:1 /docker/a /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "1073741824\n",
    "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 536870912\n",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "20000\n",
}


def read(root, files, **probe):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return read_machine(machine("laptop-avx2", **probe).probe, root)


@pytest.mark.parametrize(("text", "numbers"), [("0-2,4", [0, 1, 2, 4]), ("7", [7]), ("", []), ("1,3", [1, 3])])
def test_lists_as_linux_writes_them(text, numbers):
    assert parse_list(f"{text}\n") == numbers
    assert format_list(numbers) == text


def test_the_first_version_of_control_groups(tmp_path):
    found = read(tmp_path, V1)
    assert (found.limit.bytes, found.limit.used, found.limit.seen_by_vllm) == (2 << 30, 1 << 29, True)
    assert (found.quota, found.cgroup) == (2.5, 1)


def test_a_limit_of_a_nested_group_is_not_seen_by_vllm(tmp_path):
    files = {
        "proc/self/cgroup": "0::/slice/service\n",
        "proc/self/mountinfo": "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/slice/memory.max": "1073741824\n",
        "sys/fs/cgroup/slice/service/memory.max": "max\n",
    }
    found = read(tmp_path, files)
    assert (found.limit.file, found.limit.seen_by_vllm) == ("/sys/fs/cgroup/slice/memory.max", False)


def test_a_cpuset_excludes_cpus_and_nodes(tmp_path):
    files = {
        "sys/devices/system/cpu/online": "0-3\n",
        "sys/devices/system/node/node0/cpulist": "0-1\n",
        "sys/devices/system/node/node1/cpulist": "2-3\n",
        "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 1024 kB\nNode 0 MemFree: 12 kB\n",
        "sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 1024 kB\nNode 1 SReclaimable: 100 kB\n"
        "Node 1 Active(file): 20 kB\nNode 1 Active(anon): 500 kB\n",
        "proc/self/status": "Cpus_allowed_list:\t2\nMems_allowed_list:\t0-1\n",
    }
    found = read(tmp_path, files)
    assert [cpu.id for cpu in found.allowed] == [2]
    assert [(node.id, node.total, node.available) for node in found.usable_nodes] == [(1, 1 << 20, 120 << 10)]


def test_ibm_z_is_grouped_by_sockets():
    assert sorted({cpu.node for cpu in machine("z15").cpus}) == [0, 1]
    assert machine("z15").threads_per_core == 2


def test_without_any_file_there_is_what_was_asked(tmp_path):
    found = read(tmp_path, {})
    assert (found.cpus, found.limit, found.quota, found.cgroup) == ((), None, None, None)
    assert [node.total for node in found.nodes] == [16 << 30]


def test_huge_pages(tmp_path):
    files = {
        "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
        "proc/meminfo": "MemTotal: 1 kB\nHugePages_Total:      12\n",
    }
    found = read(tmp_path, files).huge_pages
    assert (found.transparent, found.reserved) == ("never", 12)
