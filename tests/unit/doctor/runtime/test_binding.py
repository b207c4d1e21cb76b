"""Which CPUs the workers' threads get."""

from __future__ import annotations

import pytest

from cpuwheels.doctor.runtime.binding import ranks_of
from runtime_cases import machine


def lists(name, workers, reserve, **changes):
    found = machine(name).model_copy(update=changes)
    return [(rank.node, rank.memory, rank.list) for rank in ranks_of(found, workers, reserve)]


def test_the_last_cpu_of_each_core_on_x86():
    assert lists("laptop-avx2", 1, 1) == [(0, 0, "4-6")]


def test_all_cpus_on_arm():
    assert lists("graviton3", 1, 1) == [(0, 0, "0-6")]


def test_one_core_is_kept_of_each_worker_and_more_from_the_last_on():
    assert lists("server-2-sockets-6-nodes", 2, 3) == [(0, 0, "48-54"), (1, 1, "56-61")]


def test_ibm_z_binds_by_groups_and_takes_memory_of_the_only_node():
    assert lists("z15", 2, 1) == [(0, 0, "1,3,5,7"), (1, 0, "9,11,13")]


def test_no_core_is_kept_where_there_are_no_more():
    assert lists("graviton3", 1, 8) == [(0, 0, "0-7")]


@pytest.mark.parametrize(("quota", "cpus"), [(0.5, "32"), (1.0, "32"), (2.0, "32"), (4.5, "32-34")])
def test_a_quota_leaves_fewer_threads(quota, cpus):
    assert lists("container-2-cpus", 1, 1, quota=quota) == [(0, 0, cpus)]


def test_excluded_cpus_get_no_thread():
    whole = machine("laptop-avx2")
    some = tuple(cpu.model_copy(update={"allowed": cpu.id in {1, 2, 6}}) for cpu in whole.cpus)
    assert lists("laptop-avx2", 1, 1, cpus=some) == [(0, 0, "1")]
