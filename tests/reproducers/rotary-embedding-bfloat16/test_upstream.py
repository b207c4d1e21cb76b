# tests/kernels/core/test_cpu_rotary_embedding.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("head_size", "rotary_dim"), [(96, 24), (80, 20), (40, 40)])
def test_rotary_halves_that_do_not_fill_vectors(dtype: torch.dtype, head_size: int, rotary_dim: int) -> None:
    positions = torch.arange(3)
    query = torch.randn(3, 2 * head_size).to(dtype)
    cache = torch.randn(8, rotary_dim).to(dtype)
    cos, sin = cache[positions].float()[:, None].chunk(2, -1)
    expected = query.view(3, 2, head_size).float()
    x, y = expected[..., :rotary_dim].chunk(2, -1)
    rotated = torch.cat([x * cos - y * sin, y * cos + x * sin], -1)
    expected = torch.cat([rotated, expected[..., rotary_dim:]], -1).view(3, -1)
    torch.ops._C.rotary_embedding(positions, query, None, head_size, cache, True, 0, False)
    torch.testing.assert_close(query.float(), expected, atol=5e-2, rtol=2e-2)
