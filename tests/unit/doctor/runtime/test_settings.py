"""Settings, each with its reason."""

from __future__ import annotations

import pytest

from cpuwheels.doctor.runtime.settings import Setting, reserved_cores
from runtime_cases import QWEN3, machine, options, report, variables


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        (Setting(name="A", value="0-1|2-3", reason=""), "export A='0-1|2-3'"),
        (Setting(name="--a", value="1", reason=""), "--a 1"),
        (Setting(name="--a", value="", reason=""), "--a"),
    ],
)
def test_lines_are_quoted_for_a_shell(setting, line):
    assert setting.line == line


def test_every_setting_has_its_reason():
    for name in ("laptop-avx2", "server-2-sockets-6-nodes", "container-2-cpus", "m1"):
        assert all(setting.reason for setting in report(name).reasons)


def test_what_is_asked_is_set():
    found = options(report("graviton3", length=2000, requests=7, dtype="float32"))
    assert (found["--max-model-len"], found["--max-num-seqs"], found["--dtype"]) == ("2000", "7", "float32")


def test_a_short_model_is_served_at_its_length():
    assert options(report("graviton3", model=QWEN3.model_copy(update={"length": 2048})))["--max-model-len"] == "2048"


def test_the_cache_is_that_of_each_worker():
    one = report("graviton3", requests=16)
    assert variables(one)["VLLM_CPU_KVCACHE_SPACE"] == "14"
    assert variables(report("server-2-sockets-6-nodes", requests=16))["VLLM_CPU_KVCACHE_SPACE"] == "4"


def test_float32_only_where_it_fits():
    large = QWEN3.model_copy(update={"weight_bytes": 8 << 30})
    assert report("graviton2").settings.dtype == "float32"
    assert report("graviton2", model=large).settings.dtype == "bfloat16"


@pytest.mark.parametrize(
    ("name", "workers", "cores"),
    [("laptop-avx2", 1, 1), ("server-2-sockets-6-nodes", 1, 2), ("server-2-sockets-6-nodes", 4, 4), ("z15", 2, 1)],
)
def test_cores_kept_free(name, workers, cores):
    assert reserved_cores(machine(name), workers) == cores


def test_the_share_of_memory_is_of_the_limit():
    assert options(report("container-2-cpus", model=None))["--gpu-memory-utilization"] == "0.84"


def test_float32_has_to_fit_the_limit():
    held = machine("container-2-cpus")
    cpu = held.probe.cpu.model_copy(update={"features": held.probe.cpu.features - {"avx512_bf16"}})
    plain = held.model_copy(update={"probe": held.probe.model_copy(update={"cpu": cpu})})
    large = QWEN3.model_copy(update={"weight_bytes": 3 << 30})
    assert report(plain, model=large).settings.dtype == "bfloat16"
    assert report(plain.model_copy(update={"limit": None}), model=large).settings.dtype == "float32"


def test_the_share_of_memory_is_what_is_free():
    half = machine("graviton3")
    node = half.nodes[0].model_copy(update={"available": half.nodes[0].total // 2})
    found = report(half.model_copy(update={"nodes": (node,)}), model=None)
    assert options(found)["--gpu-memory-utilization"] == "0.45"
