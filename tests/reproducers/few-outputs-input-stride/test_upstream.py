# tests/kernels/test_cpu_packed_linear.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()
if not hasattr(torch.ops._C, "weight_packed_linear"):
    pytest.skip("weight_packed_linear is not in this build", allow_module_level=True)


@pytest.mark.parametrize("outputs", [8, 16])
def test_linear_input_stride(outputs: int) -> None:
    x = torch.randn(2, 64).bfloat16()[:, :32]
    weight, out = torch.randn(outputs, 32).bfloat16(), torch.zeros(2, outputs).bfloat16()
    packed = torch.ops._C.convert_weight_packed(weight)
    torch.ops._C.weight_packed_linear(out, x, packed, None, True)
    torch.testing.assert_close(out, x @ weight.T, atol=1e-1, rtol=2e-2)
