"""What is found of machines that have one fault each."""

from __future__ import annotations

import pytest

from cpuwheels.doctor.runtime.machine import HugePages, MemoryLimit
from runtime_cases import detail, machine, report, statuses

SERVER = "server-2-sockets-6-nodes"


def test_the_lines_of_a_server():
    found = report(SERVER)
    assert detail(found, "cores").startswith("48 physical, 96 CPUs (0-95); SMT, 2 CPUs for each core")
    assert detail(found, "memory nodes").startswith("6 (0: 128 GiB, 1: 128 GiB")
    assert detail(found, "memory").startswith("768 GiB, 728 GiB of it available")
    assert detail(found, "get_mempolicy").startswith("allowed")


def test_a_refused_memory_policy_matters_with_several_nodes():
    assert statuses(report(machine(SERVER, get_mempolicy="EPERM")))["get_mempolicy"] == "advice"
    one = report("container-2-cpus")
    assert "get_mempolicy" not in statuses(one)
    assert "refused with EPERM" in detail(one, "get_mempolicy")


def test_without_lscpu_each_worker_ends():
    assert statuses(report(machine("graviton3", lscpu=False))) == {"lscpu": "fail"}


def test_without_a_compiler_nothing_is_compiled():
    found = report(machine("graviton3", compiler=""))
    assert statuses(found) == {"C++ compiler": "advice"}
    assert found.paste.endswith("--enforce-eager")


@pytest.mark.parametrize(("size", "advised"), [(64 << 20, True), (4 << 30, False), (None, False)])
def test_workers_need_shared_memory(size, advised):
    assert ("/dev/shm" in statuses(report(machine(SERVER, shared_memory=size)))) is advised


def test_a_limit_that_vllm_does_not_see():
    hidden = MemoryLimit(bytes=12 << 30, used=1 << 30, file="/sys/fs/cgroup/a/memory.max", seen_by_vllm=False)
    held = machine("graviton3").model_copy(update={"limit": hidden})
    assert statuses(report(held)) == {"memory limit": "advice"}
    seen = held.model_copy(update={"limit": hidden.model_copy(update={"seen_by_vllm": True})})
    assert statuses(report(seen)) == {}


def test_a_quota_that_is_no_less_than_the_cpus():
    whole = machine("graviton3").model_copy(update={"quota": 8.0, "cgroup": 2})
    assert statuses(report(whole)) == {}
    assert detail(report(whole), "CPU quota").startswith("8 CPUs' worth of time (cgroup v2)")


def test_huge_pages_change_nothing():
    for pages, text in ((HugePages(transparent="never"), "switched off"), (HugePages(reserved=4), "4 pages reserved")):
        found = report(machine("graviton3").model_copy(update={"huge_pages": pages}))
        assert text in detail(found, "huge pages")
        assert statuses(found) == {}


def test_without_isaprobe_the_systems_list_counts():
    found = report(machine("laptop-avx2", cpu=None))
    assert found.choice.library == "_C_AVX2"
    assert "there is no isaprobe" in detail(found, "processor")
