# tests/v1/sample/test_cpu_rejection_sampler.py
import pytest
import torch
from vllm.platforms import current_platform

if not current_platform.is_cpu():
    pytest.skip("skipping CPU-only tests", allow_module_level=True)

current_platform.import_kernels()


def test_padded_draft_is_rejected() -> None:
    out = torch.full((1, 3), -1)
    torch.ops._C.rejection_random_sample_kernel_impl(
        out, torch.tensor([2]), torch.tensor([0, -1]), None,
        torch.tensor([[0.5, 0.5], [0.1, 0.9]]), torch.tensor([[7]]),
        torch.tensor([3, 4]), torch.tensor([0.1, 0.1]), None, 2, 2, True,
    )  # fmt: skip
    assert out.tolist() == [[0, 4, -1]]
