"""The whole report on every recorded machine: library, settings, advice, failures, verdict."""

from __future__ import annotations

import json

import pytest

from cpuwheels.doctor.runtime.report import Report
from runtime_cases import LATENT, NAMES, QWEN3, UPSTREAMS_X86, X86, machine, options, report, statuses, variables

BIND, SPACE, RESERVED = "VLLM_CPU_OMP_THREADS_BIND", "VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_NUM_OF_RESERVED_CPU"
USUAL = {SPACE: "4", BIND: "auto", RESERVED: "1"}
SERVED = {"--dtype": "bfloat16", "--max-model-len": "8192", "--max-num-seqs": "4", "--block-size": "128"}

EXPECTED = {
    "laptop-avx2": ("_C_AVX2", {**USUAL, SPACE: "7"}, {**SERVED, "--dtype": "float32"}, {"bfloat16": "advice"}),
    "server-2-sockets-6-nodes": (
        "_C",
        {SPACE: "1", BIND: "auto", RESERVED: "4", "CPU_VISIBLE_MEMORY_NODES": "0,1,2,3"},
        {**SERVED, "--tensor-parallel-size": "4"},
        {"tensor parallel": "advice"},
    ),
    "container-2-cpus": (
        "_C",
        {SPACE: "4", BIND: "32"},
        {**SERVED, "--enforce-eager": ""},
        {"CPU quota": "advice", "C++ compiler": "advice", "AMD Zen": "advice"},
    ),
    "graviton2": ("_C_NEON", {**USUAL, SPACE: "7"}, {**SERVED, "--dtype": "float32"}, {"bfloat16": "advice"}),
    "graviton3": ("_C_BF16", USUAL, SERVED, {}),
    "z15": ("_C_Z15", {SPACE: "2", BIND: "auto", RESERVED: "1"}, {**SERVED, "--tensor-parallel-size": "2"}, {}),
    "m1": ("_C", USUAL, {**SERVED, "--dtype": "float16"}, {}),
    "virtual-machine": ("_C", USUAL, SERVED, {}),
    "virtual-machine-without-palette": ("_C", USUAL, SERVED, {"AMX": "advice"}),
}


def test_every_recorded_machine_is_here():
    assert sorted(EXPECTED) == NAMES


@pytest.mark.parametrize("name", EXPECTED)
def test_choice_settings_and_problems(name):
    library, wanted_variables, wanted_options, problems = EXPECTED[name]
    found = report(name)
    assert found.choice.library == library
    assert found.choice.fault == ""
    assert variables(found) == wanted_variables
    assert options(found) == wanted_options
    assert statuses(found) == problems
    assert found.exit_code == (3 if problems else 0)


@pytest.mark.parametrize(("package", "said"), [(X86, "converted to float32 and back"), (UPSTREAMS_X86, "cut off")])
def test_bfloat16_without_instructions_is_said_as_the_kernels_do_it(package, said):
    (found,) = [one for one in report("laptop-avx2", package).findings if one.name == "bfloat16"]
    assert said in found.detail


def test_the_lines_to_paste():
    assert report("server-2-sockets-6-nodes").paste.splitlines() == [
        "export VLLM_CPU_KVCACHE_SPACE=1",
        "export VLLM_CPU_OMP_THREADS_BIND=auto",
        "export VLLM_CPU_NUM_OF_RESERVED_CPU=4",
        "export CPU_VISIBLE_MEMORY_NODES=0,1,2,3",
        "vllm serve MODEL \\",
        "  --dtype bfloat16 \\",
        "  --max-model-len 8192 \\",
        "  --max-num-seqs 4 \\",
        "  --block-size 128 \\",
        "  --tensor-parallel-size 4",
    ]


def test_without_a_model_the_share_of_memory_is_set():
    found = report("virtual-machine", model=None)
    assert SPACE not in variables(found)
    assert 0.5 < float(options(found)["--gpu-memory-utilization"]) < 0.9
    assert found.settings.cache is None


def test_a_failure_decides_the_verdict():
    found = report(machine("container-2-cpus", lscpu=False))
    assert (found.verdict, found.exit_code) == ("fails", 1)


def test_the_json_is_read_back():
    found = report("virtual-machine", model=LATENT)
    text = found.model_dump_json()
    assert Report.model_validate_json(text) == found
    assert json.loads(text)["choice"]["amx"]["state"] == "works"


def test_only_variables_that_the_version_reads_are_set():
    fewer = X86.model_copy(update={"variables": frozenset({BIND})})
    assert set(variables(report("virtual-machine", fewer, QWEN3))) == {BIND}
    older = X86.model_copy(update={"variables": X86.variables | {"VLLM_CPU_SGL_KERNEL"}})
    assert variables(report("virtual-machine", older))["VLLM_CPU_SGL_KERNEL"] == "1"
    assert "VLLM_CPU_SGL_KERNEL" not in variables(report("laptop-avx2", older))
