"""The size of the cache, from known models' numbers and from what vLLM logged."""

from __future__ import annotations

import pytest

from cpuwheels.doctor.runtime.kv_cache import GIB, kv_cache
from runtime_cases import LATENT, QWEN3


def cache(model, dtype="bfloat16", length=8192, requests=1, block_size=128, workers=1):
    return kv_cache(model, dtype, length=length, requests=requests, block_size=block_size, workers=workers)


def model(**changes):
    return QWEN3.model_copy(update=changes)


LLAMA = model(layers=32, heads=32, kv_heads=8, head_size=128)


@pytest.mark.parametrize(
    ("made", "length", "size"),
    [
        (LLAMA, 8192, GIB),
        (LLAMA, 131072, 16 * GIB),
        (QWEN3, 40960, 40960 * 28 * 8 * 128 * 2 * 2),
        (LATENT.model_copy(update={"layers": 27}), 8192, 8192 * 27 * 576 * 2),
    ],
)
def test_a_request_takes_length_layers_heads_and_numbers(made, length, size):
    assert cache(made, length=length).bytes == size


def test_blocks_are_whole():
    assert cache(LLAMA, length=129).bytes == cache(LLAMA, length=256).bytes == 256 * GIB // 8192


def test_requests_and_data_type_multiply():
    assert cache(LLAMA, requests=3).bytes == 3 * GIB
    assert cache(LLAMA, dtype="float32").bytes == 2 * GIB


def test_workers_divide_the_heads_but_no_latent_vector():
    assert cache(LLAMA, workers=4).bytes == GIB // 4
    assert cache(LLAMA, workers=16).bytes == GIB // 8
    assert cache(LATENT, workers=4).bytes == cache(LATENT).bytes


def test_a_window_keeps_its_blocks_and_those_of_the_tokens_being_computed():
    windowed = model(layers=4, window=512, window_layers=4)
    found = cache(windowed, length=100_000)
    assert found.blocks_per_request == -(-(511 + 2048) // 128) + 1
    assert cache(windowed, length=256).blocks_per_request == 3


def test_layers_of_both_kinds_share_groups():
    gemma = model(layers=7, window=256, window_layers=6)
    found = cache(gemma, length=4096)
    assert found.blocks_per_request == 32 + 6 * (18 + 1)
    assert found.block_bytes == 128 * 8 * 128 * 2 * 2
    even = cache(model(layers=25, window=128, window_layers=12), length=4096)
    assert even.block_bytes == 13 * 128 * 8 * 128 * 2 * 2


def test_layers_with_a_state_take_none():
    assert cache(model(layers=28, state_layers=21)).bytes == cache(model(layers=7)).bytes


@pytest.mark.parametrize(("size", "gib"), [(1, 1), (8192, 1), (8193, 2)])
def test_the_variable_takes_whole_gib(size, gib):
    assert cache(LLAMA, length=size).gib == gib


@pytest.mark.parametrize(
    ("changes", "length", "tokens"),
    [
        ({"layers": 2}, 512, 1_048_576),
        ({"layers": 7, "window": 256, "window_layers": 6}, 4096, 459_649),
        ({"layers": 25, "window": 128, "window_layers": 12}, 4096, 103_219),
        ({"layers": 3, "window": 512, "window_layers": 3}, 4096, 1_065_155),
        ({"layers": 3, "mla": True, "head_size": 576, "kv_heads": 1}, 4096, 310_656),
    ],
)
def test_tokens_in_a_gib_are_those_of_vllms_own_functions(changes, length, tokens):
    """Results of `get_kv_cache_capacity` of vLLM 0.32.0 with the same layers in 1 GiB."""
    made = model(**({"kv_heads": 2, "head_size": 64} | changes))
    assert cache(made, length=length).tokens_in(GIB) == tokens
