"""Models that will fail on a machine, and those next to them that will not."""

from __future__ import annotations

import re

import pytest

from runtime_cases import INSTALLED, LATENT, QWEN3, UPSTREAMS_X86, X86, detail, machine, report, statuses

GIB = 1 << 30
SERVER, HERE = "server-2-sockets-6-nodes", "virtual-machine"


def model(**changes):
    return QWEN3.model_copy(update=changes)


def without_amx(name=HERE):
    whole = machine(name)
    cpu = whole.probe.cpu.model_copy(update={"amx": None})
    plain = frozenset(feature for feature in whole.announced if not feature.startswith("amx"))
    return machine(name, cpu=cpu).model_copy(update={"announced": plain})


def test_weights_that_do_not_fit():
    found = report(HERE, model=model(weight_bytes=30 * GIB))
    assert statuses(found) == {"memory needed": "fail"}
    assert "smaller or a quantised model" in detail(found, "memory needed")


def test_the_limit_counts_and_not_the_machine():
    assert statuses(report("container-2-cpus", model=model(weight_bytes=4 * GIB)))["memory needed"] == "fail"
    free = machine("container-2-cpus").model_copy(update={"limit": None})
    assert "memory needed" not in statuses(report(free, model=model(weight_bytes=4 * GIB)))


def test_a_worker_has_the_memory_of_its_node():
    assert statuses(report(SERVER, model=model(weight_bytes=480 * GIB)))["memory needed"] == "fail"
    assert "memory needed" not in statuses(report(SERVER, model=model(weight_bytes=460 * GIB)))


@pytest.mark.parametrize("requests", [64, 1])
def test_what_is_advised_fits(requests):
    asked = {"requests": requests, "length": 40960 if requests == 1 else 8192}
    found = report("container-2-cpus", model=model(weight_bytes=2 * GIB), **asked)
    assert statuses(found)["memory needed"] == "fail"
    step = detail(found, "memory needed")
    names = {"at-once": "requests", "max-model-len": "length"}
    asked |= {names[name]: int(value) for name, value in re.findall(r"--(at-once|max-model-len) (\d+)", step)}
    assert "memory needed" not in statuses(report("container-2-cpus", model=model(weight_bytes=2 * GIB), **asked))


def test_a_request_longer_than_the_model():
    assert statuses(report(HERE, length=40961, requests=1)) == {"length": "fail"}
    assert statuses(report(HERE, length=40960, requests=1)) == {}


@pytest.mark.parametrize(
    ("heads", "kv_heads", "workers"), [(32, 8, 4), (12, 12, 4), (25, 5, 5), (14, 2, 2), (9, 3, 3), (7, 7, 1)]
)
def test_workers_divide_the_heads_and_are_never_six(heads, kv_heads, workers):
    found = report(SERVER, model=model(heads=heads, kv_heads=kv_heads))
    assert found.settings.workers == workers
    assert statuses(found)["tensor parallel"] == "advice"


def test_float16_on_zen():
    zen = X86.model_copy(update={"installed": INSTALLED.model_copy(update={"zentorch": True})})
    small = model(weight_bytes=GIB)
    assert statuses(report("container-2-cpus", zen, small, dtype="float16"))["data type"] == "fail"
    assert statuses(report("container-2-cpus", X86, small, dtype="float16"))["data type"] == "advice"
    assert "data type" not in statuses(report(HERE, dtype="float16"))


def test_types_that_vllm_refuses():
    assert statuses(report("m1", dtype="bfloat16"))["data type"] == "fail"
    assert statuses(report(HERE, model=model(model_type="gemma3_text"), dtype="float16"))["data type"] == "fail"


@pytest.mark.parametrize(
    ("where", "made", "dtype", "status"),
    [
        (machine(HERE), LATENT, None, None),
        (machine(HERE), LATENT, "float32", "fail"),
        (without_amx(), LATENT, None, "advice"),
        (without_amx(), LATENT.model_copy(update={"head_size": 320}), None, "fail"),
    ],
)
def test_latent_attention(where, made, dtype, status):
    assert statuses(report(where, model=made, dtype=dtype)).get("latent attention") == status


def test_latent_attention_with_amx_that_cannot_be_used():
    foreign = X86.model_copy(update={"sees_to_amx": False})
    found = report("virtual-machine-without-palette", foreign, LATENT)
    assert statuses(found)["latent attention"] == "fail"


def test_latent_attention_without_amx_has_blocks_of_16():
    found = report(without_amx(), model=LATENT)
    assert found.settings.cache is not None
    assert found.settings.cache.block_size == 16
    assert "--block-size" not in found.paste


@pytest.mark.parametrize(("changes", "status"), [({"sparse": True}, "fail"), ({"head_size": 72}, "fail"), ({}, None)])
def test_attention_that_vllm_does_not_have(changes, status):
    assert statuses(report(HERE, model=model(**changes))).get("attention") == status


@pytest.mark.parametrize(
    ("where", "method", "status"),
    [
        ("laptop-avx2", "awq", None),
        ("laptop-avx2", "gptq", None),
        ("laptop-avx2", "compressed-tensors", None),
        (HERE, "awq", None),
        (HERE, "fp8", None),
        ("container-2-cpus", "fp8", "advice"),
        ("laptop-avx2", "fp8", "advice"),
        (HERE, "gguf", "fail"),
        (HERE, "bitsandbytes", "fail"),
        ("graviton3", "awq", "fail"),
        ("z15", "gptq", None),
    ],
)
def test_quantised_models_need_operators(where, method, status):
    assert statuses(report(where, model=model(quantisation=method))).get("quantisation") == status


@pytest.mark.parametrize("method", ["awq", "gptq"])
def test_the_library_with_the_operator_is_named(method):
    found = report("laptop-avx2", UPSTREAMS_X86, model(quantisation=method))
    assert statuses(found)["quantisation"] == "fail"
    assert "which _C_AVX2 does not have" in detail(found, "quantisation")
    assert "use a CPU for _C or _C_AVX512" in detail(found, "quantisation")
