# tests/kernels/quantization/test_cpu_wna16.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 7, 9])
@pytest.mark.parametrize("with_zeros", [False, True])
def test_cpu_gemm_wna16(dtype: torch.dtype, rows: int, with_zeros: bool) -> None:
    torch.manual_seed(0)
    values, zeros = torch.randint(16, (64, 96)), torch.randint(16, (2, 96))  # inputs, outputs
    scales = torch.randint(1, 5, (2, 96)).to(dtype)
    x, out = torch.randint(-8, 9, (rows, 64)).to(dtype), torch.zeros(rows, 96, dtype=dtype)
    blocks = _packed(values).unflatten(1, (-1, 2)).transpose(0, 1).flatten(1).contiguous()
    packed_zeros = _packed(zeros) if with_zeros else None
    torch.ops._C.cpu_gemm_wna16(x, blocks, out, scales, packed_zeros, None, 8, "vec")

    weight = values - (zeros.repeat_interleave(32, 0) if with_zeros else 8)
    expected = x.double() @ (weight * scales.double().repeat_interleave(32, 0))
    torch.testing.assert_close(out, expected.to(dtype))


def _packed(values: torch.Tensor) -> torch.Tensor:
    words = values.unflatten(-1, (-1, 8)) << torch.arange(0, 32, 4)
    return words.sum(-1).to(torch.uint32).view(torch.int32)
