# tests/kernels/attention/test_cpu_attn.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_fp8_cache_nan_is_read_as_nan(code: int) -> None:
    if not torch.cpu._is_avx512_supported():
        pytest.skip("FP8 caches need AVX-512")
    ops = torch.ops._C
    caches = [torch.zeros(1, 1, 64, 32, dtype=torch.uint8) for _ in range(2)]
    caches[1][0, 0, 2, 7] = code
    lengths, starts = torch.tensor([5], dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
    plan = ops.get_scheduler_metadata(
        1, 1, 1, 32, lengths, torch.float32, starts, True, -1, "vec", False, None, "fp8_e4m3"
    )  # fmt: skip
    out = torch.zeros(1, 1, 32)
    ops.cpu_attention_with_kv_cache(
        torch.ones(1, 1, 32), *caches, out, starts, lengths, 1.0, True, None, -1,
        torch.zeros(1, 1, dtype=torch.int32), 0.0, plan, None, None, 1.0, 1.0, "fp8_e4m3",
    )  # fmt: skip
    assert out[0, 0, 7].isnan()
    assert int(out.isnan().sum()) == 1
