# tests/kernels/test_cpu_packed_linear.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "weight_packed_linear"):
    pytest.skip("weight_packed_linear is not in this build", allow_module_level=True)


@pytest.mark.parametrize("rows", [2, 4, 6])
def test_linear_odd_input_stride(rows: int) -> None:
    x = torch.randn(rows, 33).bfloat16()[:, :32]
    weight, out = torch.randn(32, 32).bfloat16(), torch.zeros(rows, 32).bfloat16()
    packed = torch.ops._C.convert_weight_packed(weight)
    torch.ops._C.weight_packed_linear(out, x, packed, None, True)
    torch.testing.assert_close(out, x @ weight.T, atol=1e-1, rtol=2e-2)
