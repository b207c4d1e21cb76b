# tests/kernels/mamba/cpu/test_cpu_gdn_ops.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_chunk_nan_stays_in_its_sequence() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    q, k, v = (torch.randn(1, 69, 1, 64).bfloat16() for _ in range(3))
    v[0, 10] = float("nan")
    g, beta = -torch.rand(1, 69, 1), torch.rand(1, 69, 1).bfloat16()
    ends = torch.tensor([0, 64, 69], dtype=torch.int32)
    slots = torch.tensor([0, 1], dtype=torch.int32)
    out, _ = torch.ops._C.chunk_gated_delta_rule_cpu(
        q, k, v, g, beta, torch.zeros(2, 1, 64, 64), True, ends, False, True, slots
    )
    torch.set_num_threads(threads)
    assert out[0, 64:].isfinite().all()
