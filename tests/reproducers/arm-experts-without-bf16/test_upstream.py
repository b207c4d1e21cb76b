# tests/kernels/moe/test_cpu_fused_moe.py
import pytest
import torch
from vllm.platforms import CpuArchEnum, current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


@pytest.mark.skipif(current_platform.get_cpu_architecture() != CpuArchEnum.ARM, reason="Arm only")
def test_bfloat16_experts_on_every_arm_cpu() -> None:
    weight = torch.randn(2, 64, 32).bfloat16()
    torch.ops._C.prepack_moe_weight(weight, torch.empty_like(weight), "neon")
