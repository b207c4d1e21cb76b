# tests/kernels/attention/test_cpu_attn.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_fp8_cache_keeps_nan() -> None:
    if not torch.cpu._is_avx512_supported():
        pytest.skip("FP8 caches need AVX-512")
    x = torch.full((1, 1, 64), float("nan"))
    cache = torch.zeros(1, 1, 64, 64, dtype=torch.uint8)
    keys, values = cache.chunk(2, 2)
    torch.ops._C.cpu_attn_reshape_and_cache(x, x, keys, values, torch.zeros(1).long(), "vec", 1.0, 1.0, "fp8_e4m3")
    assert values[0, 0, 0].view(torch.float8_e4m3fn).float().isnan().all()
