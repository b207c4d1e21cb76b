# tests/kernels/attention/test_cpu_attn.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


@pytest.mark.parametrize("isa", ["vec", "vec16"])
@pytest.mark.parametrize("length", [5, 37, 70])
def test_nan_behind_the_end_is_not_read(isa: str, length: int) -> None:
    ops = torch.ops._C
    keys, values = torch.zeros(128, 1, 32), torch.ones(128, 1, 32)
    keys[length:], values[length:] = float("nan"), float("nan")
    caches = torch.zeros(2, 1, 64, 32), torch.zeros(2, 1, 64, 32)
    ops.cpu_attn_reshape_and_cache(keys, values, *caches, torch.arange(128), isa)
    lengths, starts = torch.tensor([length], dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
    plan = ops.get_scheduler_metadata(
        1, 1, 1, 32, lengths, torch.float32, starts, True, -1, isa, False, None
    )  # fmt: skip
    out = torch.zeros(1, 1, 32)
    ops.cpu_attention_with_kv_cache(
        torch.ones(1, 1, 32), *caches, out, starts, lengths, 1.0, True, None, -1,
        torch.arange(2, dtype=torch.int32)[None], 0.0, plan, None, None,
    )  # fmt: skip
    torch.testing.assert_close(out, torch.ones(1, 1, 32), rtol=0, atol=0.01)
