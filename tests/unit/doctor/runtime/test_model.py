"""Models as their public configurations describe them."""

from __future__ import annotations

import json

import pytest

from cpuwheels.core.errors import UsageError
from cpuwheels.doctor.runtime.model import read_model

BILLION = 10**9
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
QWEN3 = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "dtype": "bfloat16",
    "sliding_window": None,
    "use_sliding_window": False,
}
DEEPSEEK = {
    "model_type": "deepseek_v2",
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 512,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 163840,
    "vocab_size": 102400,
    "torch_dtype": "bfloat16",
}
MIXTRAL = LLAMA | {
    "model_type": "mixtral",
    "num_local_experts": 8,
    "max_position_embeddings": 32768,
    "vocab_size": 32000,
    "sliding_window": None,
}


def read(folder, config):
    (folder / "config.json").write_text(json.dumps(config))
    return read_model(folder)


@pytest.mark.parametrize(
    ("config", "heads", "parameters"),
    [
        (LLAMA, (8, 128), 8.03 * BILLION),
        (QWEN3, (8, 128), 0.596 * BILLION),
        (DEEPSEEK, (1, 576), 15.7 * BILLION),
        (MIXTRAL, (8, 128), 46.7 * BILLION),
    ],
)
def test_heads_and_about_the_published_number_of_weights(tmp_path, config, heads, parameters):
    found = read(tmp_path, config)
    assert (found.kv_heads, found.head_size) == heads
    assert found.weight_bytes / 2 == pytest.approx(parameters, rel=0.01)
    assert (found.weights_measured, found.window, found.quantisation) == (False, None, "")


def test_latent_attention_is_recognised(tmp_path):
    found = read(tmp_path, DEEPSEEK)
    assert (found.mla, found.value_size, found.sparse) == (True, 512, False)
    assert read(tmp_path, DEEPSEEK | {"index_topk": 2048}).sparse
    assert not read(tmp_path, DEEPSEEK | {"model_type": "minicpm3"}).mla


@pytest.mark.parametrize(
    ("more", "window", "layers", "states"),
    [
        ({"sliding_window": 4096}, 4096, 28, 0),
        ({"sliding_window": 4096, "use_sliding_window": False}, None, 0, 0),
        ({"sliding_window": 512, "sliding_window_pattern": 6}, 512, 24, 0),
        ({"sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 14}, 128, 14, 0),
        ({"layer_types": ["linear_attention"] * 21 + ["full_attention"] * 7}, None, 0, 21),
    ],
)
def test_layers_with_a_window_or_a_state(tmp_path, more, window, layers, states):
    base = {name: value for name, value in QWEN3.items() if name != "use_sliding_window"}
    found = read(tmp_path, base | more)
    assert (found.window, found.window_layers, found.state_layers) == (window, layers, states)
    assert found.full_layers == 28 - layers - states


def test_weights_that_are_there_are_measured(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    found = read(tmp_path, QWEN3)
    assert (found.weight_bytes, found.weights_measured) == (1000, True)
    (tmp_path / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 5000}}')
    assert read(tmp_path, QWEN3).weight_bytes == 5000


@pytest.mark.parametrize(
    ("quantisation", "method", "part"),
    [
        ({"quant_method": "awq", "bits": 4}, "awq", 0.35),
        ({"quant_method": "fp8"}, "fp8", 0.56),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 8}}}},
            "compressed-tensors",
            0.56,
        ),
    ],
)
def test_quantised_weights_are_smaller(tmp_path, quantisation, method, part):
    found = read(tmp_path, LLAMA | {"quantization_config": quantisation})
    assert found.quantisation == method
    assert found.weight_bytes / read(tmp_path, LLAMA).weight_bytes == pytest.approx(part, abs=0.03)
    assert found.bytes_as("float32") == found.weight_bytes


def test_weights_grow_with_their_type(tmp_path):
    found = read(tmp_path, LLAMA)
    assert found.bytes_as("float32") == 2 * found.bytes_as("bfloat16") == 2 * found.weight_bytes


def test_the_text_part_of_a_larger_model_is_read(tmp_path):
    found = read(tmp_path, {"model_type": "whole", "vision_config": {}, "text_config": LLAMA})
    assert (found.layers, found.model_type) == (32, "llama")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"hidden_size": 8, "num_hidden_layers": 0}', '{"n_layer": 2, "n_head": 2}']
)
def test_what_describes_no_model_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match=r"config\.json"):
        read_model(tmp_path)


def test_no_configuration_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_model(tmp_path / "nothing")
