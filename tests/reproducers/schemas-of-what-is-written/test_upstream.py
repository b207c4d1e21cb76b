# tests/kernels/test_cpu_schemas.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "decode_attention_cpu"):
    pytest.skip("decode_attention_cpu is not in this build", allow_module_level=True)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("causal_conv1d_fwd_cpu", {"conv_states"}),
        ("chunk_gated_delta_rule_cpu", {"initial_state"}),
        ("decode_attention_cpu", {"attn_logits", "k_buffer", "v_buffer"}),
    ],
)
def test_written_arguments_are_marked(name: str, arguments: set[str]) -> None:
    schema = getattr(torch.ops._C, name).default._schema
    marked = {
        argument.name
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    }
    assert arguments <= marked
