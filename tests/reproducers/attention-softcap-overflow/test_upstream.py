# tests/kernels/attention/test_cpu_attn.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


@pytest.mark.parametrize("sign", [1, -1])
def test_softcap_far_beyond(sign: int) -> None:
    ops, zeros = torch.ops._C, torch.zeros(1, 32)
    keys = torch.stack([torch.full((1, 32), sign * 10.0), zeros])
    values = torch.stack([torch.ones(1, 32), zeros])
    key_cache, value_cache = torch.zeros(1, 1, 64, 32).chunk(2, 2)
    lengths = torch.tensor([2], dtype=torch.int32)
    starts = torch.tensor([0, 1], dtype=torch.int32)
    table, out = torch.tensor([[0]], dtype=torch.int32), torch.zeros(1, 1, 32)
    ops.cpu_attn_reshape_and_cache(keys, values, key_cache, value_cache, torch.arange(2), "vec")
    plan = ops.get_scheduler_metadata(1, 1, 1, 32, lengths, torch.float32, starts, True, -1, "vec", False, None)
    ops.cpu_attention_with_kv_cache(
        torch.ones(1, 1, 32), key_cache, value_cache, out, starts, lengths, 1.0, True,
        None, -1, table, 1.0, plan, None, None,
    )  # fmt: skip
    expected = torch.sigmoid(torch.tensor(float(sign))).expand_as(out)
    torch.testing.assert_close(out, expected)
